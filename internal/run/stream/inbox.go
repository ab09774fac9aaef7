package stream

import (
	"context"
	"sync"
	"time"

	"agentplatform/internal/platform/host"
	"agentplatform/internal/platform/waiting"
	"agentplatform/internal/store/record"
)

// inboxPace is the shortest time between two readings of an inbox in this process, and between two changes that are
// returned to one caller.
const inboxPace = time.Second

// inboxes are the inboxes of organizations that requests of this process wait for.
type inboxes struct {
	notifier Notifier
	host     host.Host
	read     *LocalNotifier // notifies the requests that an organization's inbox was read

	mu sync.Mutex
	of map[string]*inbox // by organization
}

// inbox is what those who wait for the inbox of one organization share: one goroutine reads for all of them. The mutex
// of inboxes guards it.
type inbox struct {
	waiters int
	stop    func() // ends the goroutine and waits for it
	begun   int    // number of readings begun
	last    int    // number of the last that ended
	mark    string // what it read
	err     error
}

func newInboxes(n Notifier, h host.Host) *inboxes {
	return &inboxes{notifier: n, host: h, read: NewLocalNotifier(), of: map[string]*inbox{}}
}

func (x *inboxes) until(ctx context.Context, s *record.Store, organization, mark string, d time.Duration) error {
	began := x.host.Elapsed()
	sub := x.read.Subscribe(organization)
	defer sub.Close()
	in, since := x.join(ctx, s, organization)
	defer x.leave(in, organization)
	x.notifier.Notify(record.InboxOf(organization)) // what was read so far may be older than mark
	for {
		changed, err := x.differs(in, mark, since)
		elapsed := x.host.Elapsed() - began
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

// join adds the caller to those who wait. The caller must call leave when done. A reading with a number above since has
// begun after the call.
func (x *inboxes) join(ctx context.Context, s *record.Store, organization string) (in *inbox, since int) {
	x.mu.Lock()
	defer x.mu.Unlock()
	in = x.of[organization]
	if in == nil {
		in = &inbox{}
		x.of[organization] = in
		ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
		wait := x.host.Go(func() { x.readAll(ctx, s, organization, in) })
		in.stop = func() { cancel(); wait() }
	}
	in.waiters++
	return in, in.begun
}

func (x *inboxes) leave(in *inbox, organization string) {
	x.mu.Lock()
	in.waiters--
	last := in.waiters == 0
	if last {
		delete(x.of, organization)
	}
	x.mu.Unlock()
	if last {
		in.stop()
	}
}

// readAll reads for all who wait, until ctx ends.
func (x *inboxes) readAll(ctx context.Context, s *record.Store, organization string, in *inbox) {
	sub := x.notifier.Subscribe(record.InboxOf(organization))
	defer sub.Close()
	for changed := x.host.Elapsed(); ; {
		x.mu.Lock()
		in.begun++
		reading := in.begun
		x.mu.Unlock()
		_, mark, err := s.PausedRuns(ctx, organization)
		x.mu.Lock()
		if err == nil && mark != in.mark {
			changed = x.host.Elapsed()
		}
		in.last, in.mark, in.err = reading, mark, err
		x.mu.Unlock()
		x.read.Notify(organization)
		if x.host.Sleep(ctx, inboxPace) != nil {
			return
		}
		if _, err := sub.Wait(ctx, max(0, x.notifier.Pace(x.host.Elapsed()-changed)-inboxPace)); err != nil {
			return
		}
	}
}

// differs reports whether a reading that began after since differs from a mark.
func (x *inboxes) differs(in *inbox, mark string, since int) (bool, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if in.last <= since {
		return false, nil
	}
	return in.err == nil && in.mark != mark, in.err
}
