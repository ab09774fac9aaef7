package stream

import (
	"context"
	"time"

	"agentplatform/internal/record"
	"agentplatform/internal/waiting"
)

// inboxPace is the shortest time between two readings of an inbox in this process, however many wait for it, and
// between two changes that one who waits is told of.
const inboxPace = time.Second

// inbox is those who wait for the inbox of one organization in this process. One goroutine reads for all of them, as
// long as there are any. The hub's mutex guards it.
type inbox struct {
	waiters int
	stop    func() // ends the goroutine and waits for it
	begun   int    // number of readings begun
	last    int    // number of the last that ended
	mark    string // what it read
	err     error
}

// UntilInbox waits until an organization's runs that wait for a human differ from those of mark (see
// [record.Store.PausedRuns]), at least for a second, at most for d. The error is ctx's, or that of the store.
func (h *Hub) UntilInbox(ctx context.Context, s *record.Store, organization, mark string, d time.Duration) error {
	began := h.host.Elapsed()
	sub := h.inboxed.Subscribe(organization)
	defer sub.Close()
	in, since := h.joinInbox(ctx, s, organization)
	defer h.leaveInbox(in, organization)
	h.notifier.Notify(record.InboxOf(organization)) // what was read so far may be older than mark
	for {
		changed, err := h.differs(in, mark, since)
		elapsed := h.host.Elapsed() - began
		if changed {
			d = min(d, inboxPace)
		}
		if err != nil || elapsed >= d {
			return err
		}
		end := waiting.Start(ctx)
		_, err = sub.Wait(ctx, d-elapsed)
		if end(); err != nil {
			return err
		}
	}
}

// joinInbox adds the caller to those who wait. The caller must call leaveInbox when done. A reading later than since
// has begun after the call.
func (h *Hub) joinInbox(ctx context.Context, s *record.Store, organization string) (in *inbox, since int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	in = h.inboxes[organization]
	if in == nil {
		in = &inbox{}
		h.inboxes[organization] = in
		ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
		wait := h.host.Go(func() { h.readInbox(ctx, s, organization, in) })
		in.stop = func() { cancel(); wait() }
	}
	in.waiters++
	return in, in.begun
}

func (h *Hub) leaveInbox(in *inbox, organization string) {
	if h.lastOf(in, organization) {
		in.stop()
	}
}

func (h *Hub) lastOf(in *inbox, organization string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if in.waiters--; in.waiters > 0 {
		return false
	}
	delete(h.inboxes, organization)
	return true
}

// readInbox reads for all who wait, until ctx ends.
func (h *Hub) readInbox(ctx context.Context, s *record.Store, organization string, in *inbox) {
	sub := h.notifier.Subscribe(record.InboxOf(organization))
	defer sub.Close()
	for changed := h.host.Elapsed(); ; {
		reading := h.beginReading(in)
		_, mark, err := s.PausedRuns(ctx, organization)
		if h.endReading(in, reading, mark, err) {
			changed = h.host.Elapsed()
		}
		h.inboxed.Notify(organization)
		if h.host.Sleep(ctx, inboxPace) != nil {
			return
		}
		if _, err := sub.Wait(ctx, max(0, h.notifier.Pace(h.host.Elapsed()-changed)-inboxPace)); err != nil {
			return
		}
	}
}

func (h *Hub) beginReading(in *inbox) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	in.begun++
	return in.begun
}

// endReading keeps what was read, and reports whether it is new.
func (h *Hub) endReading(in *inbox, reading int, mark string, err error) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	changed := err == nil && mark != in.mark
	in.last, in.mark, in.err = reading, mark, err
	return changed
}

// differs reports whether what was read after since differs from a mark.
func (h *Hub) differs(in *inbox, mark string, since int) (bool, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if in.last <= since {
		return false, nil
	}
	return in.err == nil && in.mark != mark, in.err
}
