package removal

import (
	"context"
	"time"

	"agentplatform/internal/store/record"
)

// file deletes a file that no run refers to. The last run with the file was deleted, or no run ever used it.
func (r *Remover) file(ctx context.Context, id string) error {
	now := r.Host.Now()
	return r.Store.RemoveFile(ctx, id,
		func(f record.File) bool { return f.References > 0 || f.CreatedAt.Add(record.UnusedLife).After(now) })
}

// filesOf deletes a page of an organization's files, except those for which wanted returns true.
func (r *Remover) filesOf(
	ctx context.Context, scope record.Scope, after string, wanted func(record.File) bool,
) (next string, err error) {
	page, err := record.Resources[record.File](ctx, r.Store, scope, after, pageSize)
	return walk(page, err, func(e record.Entity[record.File]) error {
		if wanted(e.Value) {
			return nil
		}
		return r.Store.RemoveFile(ctx, e.Value.ID, wanted)
	})
}

// body deletes the blobs of a message that did not become a run, or of a run that no longer exists. The cursor is
// written before the first deletion: after that write, a message that is still being accepted cannot become a run.
func (r *Remover) body(ctx context.Context, j *record.Job) (wait time.Duration, err error) {
	there, err := r.Store.HasBody(ctx, j.Subject)
	if err != nil || there {
		return done, err
	}
	switch j.Cursor {
	case "":
		j.Cursor = "removing"
		return 0, nil
	case "removing":
		j.Cursor = record.BodiesRemoved
		return record.LateWrites, r.Store.DropBodies(ctx, j.Organization, j.Subject)
	default:
		return done, r.Store.DropBodies(ctx, j.Organization, j.Subject)
	}
}
