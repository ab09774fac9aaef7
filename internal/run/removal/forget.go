package removal

import (
	"context"
	"time"

	"agentplatform/internal/platform/problem"
	"agentplatform/internal/store/record"
)

// The longest waits of a job until it looks again whether its run has ended. A run that is active for less than an hour
// may end at any moment; one that waits for a person may wait for days.
const (
	maxForget     = 3 * time.Minute
	maxForgetLong = 15 * time.Minute
)

// forget deletes the chat of an ended run together with the run, [record.ForgetAfter] after its end. If the chat has
// other runs by now, it deletes only the run, and keeps its link between them.
func (r *Remover) forget(ctx context.Context, j *record.Job) (wait time.Duration, err error) {
	e, err := r.Store.Run(ctx, record.System(), j.Subject)
	if problem.Is(err, "not_found") {
		return done, nil
	}
	if err != nil {
		return 0, err
	}
	now := r.Host.Now()
	if e.Value.Status.Active() {
		age, most := now.Sub(e.Value.CreatedAt), maxForget
		if age >= time.Hour {
			most = maxForgetLong
		}
		return min(max(age/4, record.ForgetAfter), most), nil
	}
	if left := e.Value.FinishedAt.Add(record.ForgetAfter).Sub(now); left > 0 {
		return left, nil
	}
	chat, found, err := r.Store.ChatOf(ctx, e.Value.RunSpec)
	if err != nil {
		return 0, err
	}
	c := &chat.Value
	if found && !c.Deleted && c.ActiveRun == "" && c.LastRun == j.Subject && e.Value.Previous == "" {
		tx := r.Store.Begin(r.Host.NewID())
		c.Delete()
		tx.PutChat(chat)
		if err := tx.Commit(ctx); err != nil {
			return 0, err
		}
	}
	return done, r.erase(ctx, e, found && !c.Deleted)
}
