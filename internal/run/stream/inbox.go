package stream

import (
	"context"
	"time"

	"agentplatform/internal/platform/waiting"
	"agentplatform/internal/store/record"
)

// inboxPace is the shortest time between two reads of an inbox in this process. It is also the shortest time between
// two changes that are returned to one caller.
const inboxPace = time.Second

// inbox is the mark of the paused runs of an organization, for all requests of this process that wait for another mark.
type inbox = feed[string]

func newInbox(ctx context.Context, f *frameTable, s *record.Store, organization string) *inbox {
	in := &inbox{frames: f, rest: inboxPace}
	in.fetch = func(ctx context.Context, known string) (mark string, news bool, err error) {
		_, mark, err = s.PausedRuns(ctx, organization)
		return mark, err == nil && mark != known, err
	}
	in.begin(ctx, record.InboxOf(organization))
	return in
}

// UntilInbox waits until the paused runs of an organization differ from those of mark (see [record.Store.PausedRuns]).
// It waits at least a second, and at most d or as long as the request may wait (package waiting). The error is ctx's,
// or that of the store.
func (h *Hub) UntilInbox(ctx context.Context, s *record.Store, organization, mark string, d time.Duration) error {
	began := h.frames.host.Elapsed()
	in, leave := join(ctx, h.broadcaster, organization, func() *inbox {
		return newInbox(ctx, h.frames, s, organization)
	})
	defer leave()
	f := in.follow() // earlier reads may be older than mark
	defer f.leave()
	for {
		now, fresh, err := f.latest()
		if fresh && err == nil && now != mark {
			d = min(d, inboxPace)
		}
		elapsed := h.frames.host.Elapsed() - began
		if fresh && err != nil {
			return err
		}
		longer := min(d-elapsed, waiting.Left(ctx, elapsed))
		if longer <= 0 {
			return nil
		}
		end := waiting.Start(ctx)
		_, err = f.Wait(ctx, longer)
		if end(); err != nil {
			return err
		}
	}
}
