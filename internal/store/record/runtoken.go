package record

import (
	"context"
	"time"

	"agentplatform/internal/store/table"
)

// RunToken is a token that is valid for one run, as it is stored, without its text. Its item expires with it.
type RunToken struct {
	RunID        string    `json:"run_id"`
	Organization string    `json:"-"`
	KeyID        string    `json:"api_key_id"`
	KeyHash      string    `json:"key_hash"` // of the key's text with which it was asked for
	End          time.Time `json:"end"`
}

func (t *RunToken) take(from *table.Item) { t.Organization = from.Owner }

func runTokenKey(hash string) table.Key { return table.Key{Part: "run_token/" + hash, Sort: headSort} }

// PutRunToken writes a token under the hash of its text.
func (tx *Tx) PutRunToken(hash string, t RunToken) {
	put(tx, Fresh(t), table.Item{Key: runTokenKey(hash), Owner: t.Organization, Expires: t.End})
	tx.grows()
}

// FindRunToken reads the token with a hash. It returns a problem of kind NotFound.
func FindRunToken(ctx context.Context, s Reader, hash string) (RunToken, error) {
	e, err := load[RunToken](ctx, s, System(), "run token", runTokenKey(hash))
	return e.Value, err
}
