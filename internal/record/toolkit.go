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

// Toolkit is a set of tools at an endpoint. Its list of tools is in the blob store, written anew when it changes.
type Toolkit struct {
	ID              string          `json:"toolkit_id"`
	Organization    string          `json:"organization_id"`
	Kind            string          `json:"kind"`
	Name            string          `json:"name"`
	URL             string          `json:"url,omitzero"`
	BaseURL         string          `json:"base_url,omitzero"`
	Document        string          `json:"document,omitzero"` // the blob key of an uploaded document
	Request         json.RawMessage `json:"request,omitzero"`  // of the kind http
	Command         []string        `json:"command,omitzero"`  // of a server that is a program on this machine
	Credentials     string          `json:"credentials,omitzero"`
	CredentialsType string          `json:"credentials_type,omitzero"`    // the type of the credentials
	Origins         []string        `json:"credentials_origins,omitzero"` // the servers that they are for
	Tools           string          `json:"tools,omitzero"`               // the blob key of the list
	ToolCount       int             `json:"tool_count"`
	CreatedAt       time.Time       `json:"created_at"`
	UpdatedAt       time.Time       `json:"updated_at"`
	RefreshedAt     time.Time       `json:"refreshed_at,omitzero"`
}

func (t Toolkit) placed() (string, string, string) { return "toolkit", t.ID, t.Organization }

// BuiltinToolkit is the id of an organization's built-in toolkit, which is not stored.
func BuiltinToolkit(organization string) string { return DerivedID("builtin", organization) }

// DerivedID is the id of something of which every organization has one.
func DerivedID(what, organization string) string {
	sum := sha256.Sum256([]byte(what + "/" + organization))
	return hex.EncodeToString(sum[:12])
}

// toolkitBlobs is the prefix of all blobs of a toolkit.
func toolkitBlobs(id string) string { return "toolkits/" + id + "/" }

// toolkitBlobLife is how long a blob may wait for the commit that names it: longer than any request lasts.
const toolkitBlobLife = 15 * time.Minute

// PutToolkitBlob stores a blob of a toolkit at once and returns its key, for the toolkit that this unit of work writes.
// A job deletes a blob that no commit came to name; a commit after that job is refused with [ErrStale].
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

// DropToolkitBlob adds a job that deletes a blob, which the toolkit does not name after this unit of work.
func (tx *Tx) DropToolkitBlob(t Toolkit, key string) {
	tx.PutJob(Fresh(blobJob(t, key, tx.store.host.Now())))
}

func blobJob(t Toolkit, key string, due time.Time) Job {
	return Job{ID: DerivedID("blob", key), Organization: t.Organization, Kind: RemoveBlob, Subject: key, Due: due}
}

// RemoveBlob deletes a blob that nothing names. The errors are those of the blob store.
func (s *Store) RemoveBlob(ctx context.Context, key string) error {
	return s.blobs.Delete(ctx, key)
}

// ToolkitBlob reads a blob of a toolkit. It returns [ErrStale] when the blob does not exist, because the toolkit then
// names another one by now.
func (s *Store) ToolkitBlob(ctx context.Context, key string) ([]byte, error) {
	b, err := s.getBlob(ctx, key)
	if errors.Is(err, blob.ErrMissing) {
		return nil, fmt.Errorf("%w: %w", ErrStale, err)
	}
	return b, err
}

// BeginToolkitRemoval adds a job that deletes the blobs of a deleted toolkit.
func (tx *Tx) BeginToolkitRemoval(t Toolkit) {
	tx.PutJob(Fresh(Job{
		ID: DerivedID("toolkit", t.ID), Organization: t.Organization, Kind: RemoveToolkit, Subject: t.ID,
		Due: tx.store.host.Now(),
	}))
}

// DropToolkit deletes all blobs of a toolkit. The errors are those of the blob store.
func (s *Store) DropToolkit(ctx context.Context, id string) error {
	return s.dropBlobs(ctx, toolkitBlobs(id))
}

// EraseToolkit deletes a toolkit with its blobs. The errors are those of the blob store and of [Tx.Commit].
func (s *Store) EraseToolkit(ctx context.Context, t Toolkit, writeID string) error {
	if err := s.DropToolkit(ctx, t.ID); err != nil {
		return err
	}
	tx := s.Begin(writeID)
	deleteResource(tx, t, table.Always())
	return tx.Commit(ctx)
}
