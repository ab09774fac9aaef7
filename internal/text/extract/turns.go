package extract

import (
	"cmp"
	"context"

	"agentplatform/internal/platform/share"
)

// newTurns limits how many files are read at the same time, and how many of a group. Groups take turns, and within a
// group its users.
func newTurns(all, ofGroup int64) *share.Pool {
	return share.New(share.Limits{All: all, Organization: ofGroup})
}

// take waits for a turn of a group and returns the function that ends it. The error is ctx's, or [ErrBusy] after
// maxWait.
func take(ctx context.Context, turns *share.Pool, group string) (leave func(), err error) {
	wait, stop := context.WithTimeout(ctx, maxWait)
	defer stop()
	part := turns.Part(share.Holder{Organization: group, User: share.Of(ctx).User})
	if err := part.Wait(wait); err != nil {
		return nil, cmp.Or(ctx.Err(), ErrBusy)
	}
	return part.Give, nil
}
