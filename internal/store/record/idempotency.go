package record

import (
	"context"
	"crypto/sha256"
	"encoding/hex"

	"agentplatform/internal/store/table"
)

// Idempotency is the outcome of a request with an idempotency key.
type Idempotency struct {
	Outcome IdempotentOutcome `json:"outcome"`
	RunID   string            `json:"run_id"`             // the run started or answered, or that the message waits on
	Parked  string            `json:"parked_id,omitzero"` // the parked message, which may have become a run
	Pause   int               `json:"pause,omitzero"`     // the pause that was answered; not kept by earlier versions
	Digest  string            `json:"digest,omitzero"`    // of the request; not kept by earlier versions

	version int64 // of the record; 0 when there is none yet
}

// IdempotentOutcome is the outcome of a request.
type IdempotentOutcome string

// The outcomes.
const (
	StartedRun    IdempotentOutcome = "started"
	ParkedMessage IdempotentOutcome = "parked"
	AnsweredPause IdempotentOutcome = "answered"
)

// IdempotencyName is the name of the record of a key, which is unique per organization and user.
func IdempotencyName(organization, user, key string) string {
	sum := sha256.Sum256([]byte(key))
	return organization + "/" + user + "/" + hex.EncodeToString(sum[:])
}

func idempotencyKey(name string) table.Key { return table.Key{Part: "idem/" + name, Sort: headSort} }

// PutIdempotency writes an outcome under a name that has none. It may also replace a record that was read before and
// whose run was deleted since.
func (tx *Tx) PutIdempotency(organization, name string, i, before Idempotency) {
	e := Fresh(i)
	e.version = before.version
	put(tx, e, table.Item{Key: idempotencyKey(name), Owner: organization})
}

// Idempotency reads the outcome under a name; found is false when there is none.
func (s *Store) Idempotency(ctx context.Context, name string) (i Idempotency, found bool, err error) {
	e, found, err := find[Idempotency](ctx, s, idempotencyKey(name))
	e.Value.version = e.version
	return e.Value, found, err
}
