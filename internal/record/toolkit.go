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

// PutToolkitBlob keeps a value of a toolkit. It returns where, and a write that belongs to the commit that names it: a job
// removes what no commit came to name, and a commit that comes after the job is [ErrStale].
func (s *Store) PutToolkitBlob(ctx context.Context, t Toolkit, what string, v []byte) (key string, named table.Op, err error) {
	key = toolkitBlobs(t.ID) + what + "/" + s.host.NewID()
	e := Fresh(blobJob(t, key, s.host.Now().Add(toolkitBlobLife)))
	move := s.host.NewID()
	op, err := PutJob(e, move)
	if err != nil {
		return "", table.Op{}, err
	}
	if err := s.Commit(ctx, move, op); err != nil {
		return "", table.Op{}, err
	}
	return key, DeleteJob(e.Written(e.Value, move)), s.putBlob(ctx, key, v)
}

// DropToolkitBlob is the write of the job that removes a value, for the commit after which its toolkit names it no more.
func (s *Store) DropToolkitBlob(t Toolkit, key, move string) (table.Op, error) {
	return PutJob(Fresh(blobJob(t, key, s.host.Now())), move)
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

// BeginToolkitRemoval is the write of the job that removes what a toolkit kept, once it is gone itself.
func (s *Store) BeginToolkitRemoval(t Toolkit, move string) ([]table.Op, error) {
	job := Job{ID: DerivedID("toolkit", t.ID), Organization: t.Organization, Kind: RemoveToolkit, Subject: t.ID, Due: s.host.Now()}
	op, err := PutJob(Fresh(job), move)
	return []table.Op{op}, err
}

// DropToolkit removes all values of a toolkit.
func (s *Store) DropToolkit(ctx context.Context, id string) error {
	return s.dropBlobs(ctx, toolkitBlobs(id))
}

// EraseToolkit removes a toolkit with all that it keeps.
func (s *Store) EraseToolkit(ctx context.Context, t Toolkit, move string) error {
	if err := s.DropToolkit(ctx, t.ID); err != nil {
		return err
	}
	return s.Commit(ctx, move, deleteResource(t, table.Always()))
}
