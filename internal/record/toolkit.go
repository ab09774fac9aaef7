package record

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"agentplatform/internal/blob"
	"agentplatform/internal/table"
)

// Toolkit is a set of tools at an endpoint. What it offers is a list in the blob store, written anew when it changes.
type Toolkit struct {
	ID           string          `json:"toolkit_id"`
	Organization string          `json:"organization_id"`
	Kind         string          `json:"kind"`
	Name         string          `json:"name"`
	URL          string          `json:"url,omitzero"`
	BaseURL      string          `json:"base_url,omitzero"`
	Document     string          `json:"document,omitzero"` // the blob of a document that was given, not found at a URL
	Request      json.RawMessage `json:"request,omitzero"`  // of a toolkit that is one request
	Command      []string        `json:"command,omitzero"`  // of a server that is a program of this machine
	Credentials  string          `json:"credentials,omitzero"`
	Lets         string          `json:"credentials_type,omitzero"`    // what sort of credentials they are
	Origins      []string        `json:"credentials_origins,omitzero"` // the servers they are for, as it is also sealed within them
	Tools        string          `json:"tools,omitzero"`               // the blob of the list
	ToolCount    int             `json:"tool_count"`
	CreatedAt    time.Time       `json:"created_at"`
	UpdatedAt    time.Time       `json:"updated_at"`
	RefreshedAt  time.Time       `json:"refreshed_at,omitzero"`
}

func (t Toolkit) placed() (string, string, string) { return "toolkit", t.ID, t.Organization }

// BuiltinToolkit is the id of an organisation's built-in toolkit, which is not stored.
func BuiltinToolkit(organization string) string { return DerivedID("builtin", organization) }

// DerivedID is the id of something that every organisation has one of.
func DerivedID(what, organization string) string {
	sum := sha256.Sum256([]byte(what + "/" + organization))
	return hex.EncodeToString(sum[:12])
}

// toolkitBlobs is where all values of a toolkit are.
func toolkitBlobs(id string) string { return "toolkits/" + id + "/" }

// toolkitBlobLife is how long a value may wait for the commit that names it: longer than any request lasts.
const toolkitBlobLife = 15 * time.Minute

// PutToolkitBlob keeps a value of a toolkit, at once, and returns where, for the toolkit that this unit of work writes: a
// job removes what no commit came to name, and a commit that comes after the job is [ErrStale].
func (tx *Tx) PutToolkitBlob(ctx context.Context, t Toolkit, what string, v []byte) (key string) {
	if tx.err != nil {
		return ""
	}
	s := tx.store
	key = toolkitBlobs(t.ID) + what + "/" + s.host.NewID()
	announced := s.Begin(s.host.NewID())
	job := announced.PutJob(Fresh(blobJob(t, key, s.host.Now().Add(toolkitBlobLife))))
	if tx.fail(announced.Commit(ctx)); tx.err != nil {
		return ""
	}
	tx.fail(s.putBlob(ctx, key, v))
	tx.DeleteJob(job)
	return key
}

// DropToolkitBlob has a job remove a value, which the toolkit names no more after this unit of work.
func (tx *Tx) DropToolkitBlob(t Toolkit, key string) {
	tx.PutJob(Fresh(blobJob(t, key, tx.store.host.Now())))
}

func blobJob(t Toolkit, key string, due time.Time) Job {
	return Job{ID: DerivedID("blob", key), Organization: t.Organization, Kind: RemoveBlob, Subject: key, Due: due}
}

// RemoveBlob removes a value that nothing names.
func (s *Store) RemoveBlob(ctx context.Context, key string) error {
	return s.blobs.Delete(ctx, key)
}

// ToolkitBlob reads a value of a toolkit: [ErrStale] when it is not there, as the toolkit then names another by now.
func (s *Store) ToolkitBlob(ctx context.Context, key string) ([]byte, error) {
	b, err := s.getBlob(ctx, key)
	if errors.Is(err, blob.ErrMissing) {
		return nil, fmt.Errorf("%w: %w", ErrStale, err)
	}
	return b, err
}

// BeginToolkitRemoval has a job remove what a toolkit kept, once it is gone itself.
func (tx *Tx) BeginToolkitRemoval(t Toolkit) {
	job := Job{ID: DerivedID("toolkit", t.ID), Organization: t.Organization, Kind: RemoveToolkit, Subject: t.ID, Due: tx.store.host.Now()}
	tx.PutJob(Fresh(job))
}

// DropToolkit removes all values of a toolkit.
func (s *Store) DropToolkit(ctx context.Context, id string) error {
	return s.dropBlobs(ctx, toolkitBlobs(id))
}

// EraseToolkit removes a toolkit with all that it keeps. Its errors are those of the blob store and of [Tx.Commit].
func (s *Store) EraseToolkit(ctx context.Context, t Toolkit, writeID string) error {
	if err := s.DropToolkit(ctx, t.ID); err != nil {
		return err
	}
	tx := s.Begin(writeID)
	deleteResource(tx, t, table.Always())
	return tx.Commit(ctx)
}
