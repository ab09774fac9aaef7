package record

import (
	"context"
	"time"

	"agentplatform/internal/table"
)

// APIKey is a key as it is stored: never its text.
type APIKey struct {
	ID            string    `json:"api_key_id"` // an identifier
	Public        string    `json:"public"`     // the 8 hex digits in the key's text
	Organization  string    `json:"organization_id"`
	UserID        string    `json:"user_id"`
	Name          string    `json:"name"`
	Level         string    `json:"level"`
	Prefix        string    `json:"prefix"`
	Hash          string    `json:"hash"` // SHA-256 of the key's text, hex
	PreviousHash  string    `json:"previous_hash,omitzero"`
	PreviousUntil time.Time `json:"previous_until,omitzero"`
	ExpiresAt     time.Time `json:"expires_at,omitzero"`
	Budget        *Budget   `json:"budget,omitzero"`
	CreatedAt     time.Time `json:"created_at"`
	UpdatedAt     time.Time `json:"updated_at"`
}

func (k APIKey) placed() (string, string, string) { return "api_key", k.ID, k.Organization }

// KeyPointer leads from the public part of a key's text to the key.
type KeyPointer struct {
	Public       string `json:"public"`
	Organization string `json:"organization_id"`
	KeyID        string `json:"api_key_id"`
}

func (p KeyPointer) placed() (string, string, string) { return "key_pointer", p.Public, p.Organization }

// KeyUse says when a key was last used. It is an item of its own that is seldom written, without a condition.
type KeyUse struct {
	At time.Time `json:"at"`
}

func keyUseKey(id string) table.Key { return table.Key{Part: "api_key/" + id, Sort: "use"} }

// keyUseTime is how long a request may be delayed by writing the use of its key.
const keyUseTime = time.Second

// NoteKeyUse writes when a key was last used. It tries once and ignores errors, because a request waits for it.
func (s *Store) NoteKeyUse(ctx context.Context, k APIKey, at time.Time) {
	op, err := blind(KeyUse{At: at}, table.Item{Key: keyUseKey(k.ID), Owner: k.Organization, WriteID: "use"})
	if err != nil {
		return
	}
	ctx, cancel := s.host.WithTimeout(context.WithoutCancel(ctx), keyUseTime)
	defer cancel()
	_ = s.table.Commit(ctx, "use", op)
}

// DeleteKeyUse deletes a key's last use.
func (tx *Tx) DeleteKeyUse(id string) { tx.delete(keyUseKey(id), table.Always()) }

// KeyUses reads when keys were last used; zero for never.
func (s *Store) KeyUses(ctx context.Context, ids ...string) ([]time.Time, error) {
	keys := make([]table.Key, 0, len(ids))
	for _, id := range ids {
		keys = append(keys, keyUseKey(id))
	}
	items, err := s.readAll(ctx, keys)
	if err != nil {
		return nil, err
	}
	at := make([]time.Time, len(ids))
	for i, item := range items {
		if item == nil {
			continue
		}
		e, err := decode[KeyUse](item)
		if err != nil {
			return nil, err
		}
		at[i] = e.Value.At
	}
	return at, nil
}

// RunToken is a token that is valid for one run, as it is stored: never its text. Its item expires with it.
type RunToken struct {
	RunID        string    `json:"run_id"`
	Organization string    `json:"-"`
	KeyID        string    `json:"api_key_id"`
	KeyHash      string    `json:"key_hash"` // of the key's text with which it was asked for
	End          time.Time `json:"end"`
}

func runTokenKey(hash string) table.Key { return table.Key{Part: "run_token/" + hash, Sort: headSort} }

// PutRunToken writes a token under the hash of its text.
func (tx *Tx) PutRunToken(hash string, t RunToken) {
	put(tx, Fresh(t), table.Item{Key: runTokenKey(hash), Owner: t.Organization, Expires: t.End})
}

// RunToken reads the token with a hash. It returns a problem of kind NotFound.
func (s *Store) RunToken(ctx context.Context, hash string) (RunToken, error) {
	item, err := s.get(ctx, System(), "run token", runTokenKey(hash))
	if err != nil {
		return RunToken{}, err
	}
	e, err := decode[RunToken](item)
	e.Value.Organization = item.Owner
	return e.Value, err
}
