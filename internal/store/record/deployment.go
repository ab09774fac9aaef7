package record

import (
	"context"
	"time"

	"agentplatform/internal/platform/problem"
	"agentplatform/internal/store/table"
)

// deployment has the time when the deployment began.
type deployment struct {
	CreatedAt time.Time `json:"created_at"`
}

func deploymentKey() table.Key { return table.Key{Part: "deployment", Sort: "began"} }

// oldSecretKey is the key of an item of versions before stored run tokens. It has the secret that signs them, and when
// the deployment began. The item is deleted: such a version, when it runs again, makes a new one.
func oldSecretKey() table.Key { return table.Key{Part: "deployment", Sort: "secret"} }

// EnsureDeployment stores, the first time, when the deployment began. It also deletes the secret that once signed run
// tokens. The errors are those of a read and of [Tx.Commit]. If the time is stored already, a failed write is not an
// error. A process that may not write only reads; it returns no error if nothing is stored yet, as others store it.
func (s *Store) EnsureDeployment(ctx context.Context) error {
	for range 3 {
		items, err := s.read(ctx, deploymentKey(), oldSecretKey())
		if err != nil || s.readOnly {
			return err
		}
		began, old := Fresh(deployment{CreatedAt: s.host.Now()}), items[1]
		tx := s.Begin(s.host.NewID())
		if old != nil {
			e, err := decode[deployment](old)
			if err != nil {
				return err
			}
			began.Value = e.Value
			tx.delete(oldSecretKey(), table.VersionIs(old.Version))
		}
		if items[0] == nil {
			put(tx, began, table.Item{Key: deploymentKey(), Owner: NoOrganization})
		}
		err = tx.Commit(ctx)
		if items[0] != nil {
			return nil //nolint:nilerr // not every process may write; another one deletes it
		}
		if !isConflict(err) {
			return err
		}
	}
	return problem.Retry(nil)
}
