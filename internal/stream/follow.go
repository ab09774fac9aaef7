package stream

import (
	"context"
	"errors"
	"reflect"
	"time"

	"agentplatform/events"
	"agentplatform/internal/citation"
	"agentplatform/internal/lifecycle"
	"agentplatform/internal/problem"
	"agentplatform/internal/record"
	"agentplatform/internal/view"
	"agentplatform/internal/waiting"
)

// Event is an event of a stream. Its name says which of the other members are present.
type Event struct {
	Event      string              `json:"event" enum:"init,status,delta,step,parked,done,heartbeat"`
	RunID      string              `json:"run_id"`
	Seq        int64               `json:"seq"`
	Run        *view.Run           `json:"run,omitempty"`
	Text       *string             `json:"text,omitempty"`
	Steps      *[]events.StepEvent `json:"steps,omitempty"`
	Status     string              `json:"status,omitempty"`
	Interrupts *[]events.Interrupt `json:"interrupts,omitempty"`
	Step       *events.StepEvent   `json:"step,omitempty"`
	Parked     *view.Parked        `json:"parked,omitempty"`
}

// For is an event for a reader, with the result of its run, if it has one, as the reader may see it now. Its error is
// the reader's.
func (e Event) For(ctx context.Context, reader citation.Reader) (Event, error) {
	if e.Run == nil {
		return e, nil
	}
	v, err := e.Run.For(ctx, reader)
	e.Run = &v
	return e, err
}

// The names of events.
const (
	Init      = "init"
	Status    = "status"
	Delta     = "delta"
	StepEvent = "step"
	ParkedMsg = "parked"
	Done      = "done"
	Heartbeat = "heartbeat"
)

// ErrStop is returned by a sink to end a stream without an error.
var ErrStop = errors.New("stream: enough")

// follower sends the stream of one run to one reader.
type follower struct {
	hub   *Hub
	group *group
	sub   Subscription
	run   string
	sink  func(Event) error
	idle  time.Duration // silence after which a heartbeat is sent

	last time.Duration // when something was sent last, of Host.Elapsed
	must bool          // there is news, which the next step reads

	seq    int64
	begun  bool
	shown  head // what was sent last
	number int  // of the state that was sent last
	cut    int  // of its text
	text   int  // bytes of text sent
	steps  int  // number of steps sent
	parked map[string]view.Parked
}

// Follow streams a run to sink: an init event, the changes as they happen, and done at the end. Each event is for any
// reader; [Event.For] makes it one for a certain reader. After idle without an event it sends a heartbeat.
//
// It returns nil after done, or if sink returned [ErrStop]. Otherwise the error is ctx's, sink's, or that of the
// store: a [problem.Error], of the kind not found if there is no such run in the scope.
func (h *Hub) Follow(ctx context.Context, s *record.Store, scope record.Scope, run string, idle time.Duration,
	sink func(Event) error) error {
	w := &follower{hub: h, run: run, sink: sink, idle: idle}
	// Subscribe before the first read: a change after that read causes a notification.
	w.sub = h.notifier.Subscribe(run, framesPart(run))
	defer w.sub.Close() // after a panic, too
	w.group = h.join(ctx, s, place{scope, run})
	defer w.group.leave()
	for {
		wait, ended, err := w.step(ctx)
		if errors.Is(err, ErrStop) {
			return nil
		}
		if ended || err != nil {
			return err
		}
		if err := w.wait(ctx, wait); err != nil {
			return err
		}
	}
}

// step sends what there is to send. The next step is due with news, or after wait.
func (w *follower) step(ctx context.Context) (wait time.Duration, ended bool, err error) {
	w.group.keepWatch(ctx)
	if !w.begun {
		looked, err := w.greet(ctx, w.sub)
		if err != nil {
			return 0, false, err
		}
		w.last, w.must = w.hub.host.Elapsed(), !looked
	}
	before := w.seq
	if ended, err = w.sendChanges(ctx, w.must); err != nil || ended {
		return 0, ended, err
	}
	w.must = false
	now := w.hub.host.Elapsed()
	switch {
	case w.seq != before:
		w.last = now
	case now-w.last >= w.idle:
		if err := w.emit(Event{Event: Heartbeat}); err != nil {
			return 0, false, err
		}
		w.last = now
	}
	return min(w.idle-(now-w.last), w.group.pace(), watchLife/2), false, nil
}

// wait waits for news, at most for d. The error is ctx's.
func (w *follower) wait(ctx context.Context, d time.Duration) (err error) {
	if w.hub.polls() { // for news that this reader is to read, or that another has read
		w.must, err = w.group.await(ctx, w.number, d)
	} else {
		w.must, err = w.sub.Wait(ctx, d)
	}
	return err
}

// maxBehind is how many bytes a reader may be behind before it gets a new init event instead of deltas.
const maxBehind = 256 << 10

// greetTimeout is how long the first reader waits for the worker to store output that is not journalled yet.
const greetTimeout = 250 * time.Millisecond

// greet waits for the worker's acknowledgement if notifications reach it at once, and reports whether it has read the
// run. With polling it does not wait: deltas bring what is missing.
func (w *follower) greet(ctx context.Context, sub Subscription) (looked bool, err error) {
	if w.hub.notifier.Gather() > 0 {
		return false, nil
	}
	for began := w.hub.host.Elapsed(); ; {
		now, err := w.group.current(ctx, true)
		left := greetTimeout - (w.hub.host.Elapsed() - began)
		if err != nil || now.asked == w.group.asks || left <= 0 || !w.mayMiss(now.head) {
			return err == nil, nil // the next read returns the error
		}
		if _, err := sub.Wait(ctx, left); err != nil {
			return false, err
		}
	}
}

// mayMiss reports whether a run may have said what is not stored: a worker executes it, unless it is so young that the
// reader for whom it was accepted has missed nothing.
func (w *follower) mayMiss(r head) bool {
	return r.status == lifecycle.Running && (!r.watched || w.hub.host.Now().Sub(r.accepted) >= greetTimeout)
}

func (w *follower) emit(e Event) error {
	w.seq++
	e.RunID, e.Seq = w.run, w.seq
	return w.sink(e)
}

// sendChanges sends what has changed since the last read, and reports whether the run has ended.
func (w *follower) sendChanges(ctx context.Context, must bool) (ended bool, err error) {
	now, err := w.group.current(ctx, must)
	if err != nil {
		if w.begun && problem.Is(err, "unavailable") {
			return false, nil // retried with the next poll
		}
		return false, err
	}
	if w.superseded(now) {
		return w.snapshot(now)
	}
	before := w.shown
	w.shown, w.number = now.head, now.number
	if now.version == before.version {
		return false, w.sendOutput(now)
	}
	// The event that a run has begun comes before its output; that it paused or ended comes after it.
	if now.status == lifecycle.Queued || now.status == lifecycle.Running {
		if err := w.sendStatus(now, before); err != nil {
			return false, err
		}
		return false, w.sendOutput(now)
	}
	if err := w.sendOutput(now); err != nil {
		return false, err
	}
	if err := w.sendStatus(now, before); err != nil || !now.status.Terminal() {
		return false, err
	}
	return true, w.emit(Event{Event: Done, Run: now.view})
}

// superseded reports whether what was sent so far is to be superseded by an init event, if anything was.
func (w *follower) superseded(now state) bool {
	return !w.begun || now.cut != w.cut || len(now.text)-w.text > maxBehind
}

// snapshot sends an init event, which supersedes all earlier events.
func (w *follower) snapshot(now state) (ended bool, err error) {
	told := w.group.snapshot(now)
	w.begun, w.shown, w.number, w.cut = true, now.head, now.number, now.cut
	w.text, w.steps, w.parked = len(now.text), len(now.steps), byID(now.view.Parked)
	if err := w.emit(Event{Event: Init, Run: now.view, Text: &told.text, Steps: &told.calls}); err != nil {
		return false, err
	}
	if now.status.Terminal() {
		return true, w.emit(Event{Event: Done, Run: now.view})
	}
	return false, nil
}

func byID(list []view.Parked) map[string]view.Parked {
	if len(list) == 0 { // as in most streams, of which there are many
		return nil
	}
	m := map[string]view.Parked{}
	for _, p := range list {
		m[p.ParkedID] = p
	}
	return m
}

// sendOutput sends the new text and steps in their order.
func (w *follower) sendOutput(now state) error {
	for ; w.steps < len(now.steps); w.steps++ {
		step := now.steps[w.steps]
		if err := w.upTo(now, step.at); err != nil {
			return err
		}
		if err := w.emit(Event{Event: StepEvent, Step: &step.StepEvent}); err != nil {
			return err
		}
	}
	return w.upTo(now, len(now.text))
}

func (w *follower) upTo(now state, end int) error {
	if end <= w.text {
		return nil
	}
	piece := string(now.text[w.text:end])
	w.text = end
	return w.emit(Event{Event: Delta, Text: &piece})
}

// sendStatus sends the other changes of a new version of the run: parked messages and its status.
func (w *follower) sendStatus(now state, before head) error {
	for _, p := range now.view.Parked {
		if known, there := w.parked[p.ParkedID]; !there || !reflect.DeepEqual(known.RunID, p.RunID) {
			if err := w.emit(Event{Event: ParkedMsg, Parked: &p}); err != nil {
				return err
			}
		}
	}
	w.parked = byID(now.view.Parked)
	if now.status.Terminal() || now.status == before.status && now.pause == before.pause {
		return nil
	}
	return w.emit(Event{Event: Status, Status: string(now.status), Interrupts: &now.view.Interrupts})
}

// UntilEnd is Until, for a run that has ended or waits for a human: nothing else that happens to it wakes the caller.
func (h *Hub) UntilEnd(
	ctx context.Context, s *record.Store, scope record.Scope, run string, seen int64, d time.Duration,
) (record.RunEntity, error) {
	return h.until(ctx, s, scope, run, record.EndOf(run), seen, d,
		func(r record.Run) bool { return r.Status.EndedOrWaiting() })
}

// Until waits until enough returns true for a run, or for d, or for as long as the request may wait (package
// waiting), and returns the run as it is then. seen is a version of it that is not enough, 0 for none. The error is
// ctx's, or that of the store (not found, if there is no such run in the scope).
func (h *Hub) Until(
	ctx context.Context, s *record.Store, scope record.Scope, run string, seen int64, d time.Duration,
	enough func(record.Run) bool,
) (record.RunEntity, error) {
	return h.until(ctx, s, scope, run, run, seen, d, enough)
}

// until reads the run at each notification of a name, unless that hands it over. Where nothing notifies it polls by
// itself: those processes wait for one run at a time, so that there is nothing to share. A poll looks whether the run
// has changed, which costs half of a read, and may see it a moment late; what is returned then has been read.
//
// What is handed over may be older than what the caller has seen; it is not returned then. If it is newer, it was
// committed since, so that the run was like that while the caller waited.
func (h *Hub) until(
	ctx context.Context, s *record.Store, scope record.Scope, run, name string, seen int64, d time.Duration,
	enough func(record.Run) bool,
) (record.RunEntity, error) {
	sub := h.notifier.Subscribe(name)
	defer sub.Close()
	began := h.host.Elapsed()
	var e record.RunEntity
	var err error
	for notified := false; ; {
		if ended := sub.Ended(); ended != nil && seen > 0 && ended.Version() > seen &&
			scope.Includes(ended.Value.Organization) && enough(ended.Value) {
			return *ended, nil
		}
		over, changed := h.host.Elapsed()-began >= d, true
		if seen > 0 && !notified && !over {
			if now, failed := s.Versions(ctx, run); failed == nil { // else the read tells what is wrong
				changed = now[0] != seen
			}
		}
		if changed {
			if e, err = s.LiveRun(ctx, scope, run); err != nil || over || enough(e.Value) {
				return e, err
			}
			seen = e.Version()
		}
		elapsed := h.host.Elapsed() - began
		longer := waiting.Left(ctx, elapsed)
		switch {
		case longer == 0 && changed:
			return e, nil
		case longer == 0:
			return s.LiveRun(ctx, scope, run)
		}
		end := waiting.Start(ctx)
		notified, err = sub.Wait(ctx, max(0, min(d-elapsed, longer, h.notifier.Pace(elapsed))))
		if end(); err != nil {
			return e, err
		}
	}
}
