package stream

import (
	"context"
	"errors"
	"math"
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

// Follower sends the stream of one run to one reader, a step at a time. Between two steps it needs no goroutine. It is
// not safe for concurrent use.
type Follower struct {
	hub   *Hub
	store *record.Store
	group *group
	sub   Subscription
	run   string
	sink  func(context.Context, Event) error
	idle  time.Duration // silence after which a heartbeat is sent

	last time.Duration // when something was sent last, of Host.Elapsed
	next time.Duration // when the next step is due without news
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
	w := h.Open(ctx, s, scope, run, idle, func(_ context.Context, e Event) error { return sink(e) })
	defer w.Close()
	for {
		if ended, err := w.Step(ctx); ended || err != nil {
			return err
		}
		if _, err := w.Wait(ctx, math.MaxInt64); err != nil {
			return err
		}
	}
}

// Open is Follow for a caller that takes its steps. sink is called with the context of the step. The caller must call
// Close.
func (h *Hub) Open(ctx context.Context, s *record.Store, scope record.Scope, run string, idle time.Duration,
	sink func(context.Context, Event) error) *Follower {
	w := &Follower{hub: h, store: s, run: run, sink: sink, idle: idle}
	// Subscribe before the first read: a change after that read causes a notification.
	w.sub = h.notifier.Subscribe(run, framesPart(run))
	w.group = h.join(ctx, s, place{scope, run})
	return w
}

// Close ends the stream.
func (w *Follower) Close() {
	defer w.sub.Close() // after a panic, too
	w.group.leave()
}

// Step sends what there is to send. When it has not ended the stream, the next is to be taken when Wait says so, or
// what Sleep was given is called, or at Due. Its errors are Follow's.
func (w *Follower) Step(ctx context.Context) (ended bool, err error) {
	if ended, err = w.step(ctx); errors.Is(err, ErrStop) {
		return true, nil
	}
	return ended, err
}

func (w *Follower) step(ctx context.Context) (ended bool, err error) {
	w.group.keepWatch(ctx)
	if !w.begun {
		looked, err := w.greet(ctx, w.sub)
		if err != nil {
			return false, err
		}
		w.last, w.must = w.hub.host.Elapsed(), !looked
	}
	before := w.seq
	if ended, err = w.sendChanges(ctx, w.must); err != nil || ended {
		return ended, err
	}
	w.must = false
	now := w.hub.host.Elapsed()
	switch {
	case w.seq != before:
		w.last = now
	case now-w.last >= w.idle:
		if err := w.emit(ctx, Event{Event: Heartbeat}); err != nil {
			return false, err
		}
		w.last = now
	}
	w.next = now + min(w.idle-(now-w.last), w.group.pace(), watchLife/2)
	return false, nil
}

// Due is for how long nothing is to be done without news; 0 or less: a step is due.
func (w *Follower) Due() time.Duration { return w.next - w.hub.host.Elapsed() }

// Wait waits until a step is to be taken, at most for the time most. The error is ctx's.
func (w *Follower) Wait(ctx context.Context, most time.Duration) (due bool, err error) {
	var must bool
	d := min(w.Due(), most)
	if w.hub.polls() { // for news that this reader is to read, or that another has read
		must, due, err = w.group.await(ctx, w.number, d)
	} else {
		must, err = w.sub.Wait(ctx, d)
	}
	w.must = w.must || must
	return due || w.must || w.Due() <= 0, err
}

// Sleep has wake called once there is news, at once if there is some, from whatever goroutine has brought it: wake must
// return at once. It may be called again and again. The caller must call awake before anything else, and say whether it
// stays: what it was woken for is another reader's to read, if it does not.
func (w *Follower) Sleep(wake func()) (awake func(stays bool)) {
	w.group.doze(w.number)
	if w.hub.polls() {
		me := &sleeper{wake}
		if !w.group.fallAsleep(me, w.number) {
			wake()
		}
		return func(stays bool) { w.must = w.group.awake(me, stays) || w.must }
	}
	w.sub.Ring(wake)
	return func(bool) {
		w.sub.Ring(nil)
		rung, _ := w.sub.Wait(context.Background(), 0) // does not wait
		w.must = w.must || rung
	}
}

// maxBehind is how many bytes a reader may be behind before it gets a new init event instead of deltas.
const maxBehind = 256 << 10

// greetTimeout is how long the first reader waits for the worker to store output that is not journalled yet.
const greetTimeout = 250 * time.Millisecond

// greet waits for the worker's acknowledgement if notifications reach it at once, and reports whether it has read the
// run. With polling it does not wait: deltas bring what is missing.
func (w *Follower) greet(ctx context.Context, sub Subscription) (looked bool, err error) {
	if w.hub.notifier.Gather() > 0 {
		return false, nil
	}
	for began := w.hub.host.Elapsed(); ; {
		now, err := w.group.current(ctx, true, true)
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
func (w *Follower) mayMiss(r head) bool {
	return r.status == lifecycle.Running && (!r.watched || w.hub.host.Now().Sub(r.accepted) >= greetTimeout)
}

func (w *Follower) emit(ctx context.Context, e Event) error {
	w.seq++
	e.RunID, e.Seq = w.run, w.seq
	return w.sink(ctx, e)
}

// sendChanges sends what has changed since the last read, and reports whether the run has ended.
func (w *Follower) sendChanges(ctx context.Context, must bool) (ended bool, err error) {
	now, err := w.group.current(ctx, must, !w.begun)
	if err == nil && now.view == nil && (w.superseded(now) || now.version != w.shown.version) {
		now, err = w.group.current(ctx, true, true)
	}
	if err != nil {
		if w.begun && problem.Is(err, "unavailable") {
			return false, nil // retried with the next poll
		}
		return false, err
	}
	if w.superseded(now) {
		return w.snapshot(ctx, now)
	}
	before := w.shown
	w.shown, w.number = now.head, now.number
	if now.version == before.version {
		return false, w.sendOutput(ctx, now)
	}
	// The event that a run has begun comes before its output; that it paused or ended comes after it.
	if now.status == lifecycle.Queued || now.status == lifecycle.Running {
		if err := w.sendStatus(ctx, now, before); err != nil {
			return false, err
		}
		return false, w.sendOutput(ctx, now)
	}
	if err := w.sendOutput(ctx, now); err != nil {
		return false, err
	}
	if err := w.sendStatus(ctx, now, before); err != nil || !now.status.Terminal() {
		return false, err
	}
	return true, w.emit(ctx, Event{Event: Done, Run: now.view})
}

// superseded reports whether what was sent so far is to be superseded by an init event, if anything was.
func (w *Follower) superseded(now state) bool {
	return !w.begun || now.cut != w.cut || len(now.text)-w.text > maxBehind
}

// snapshot sends an init event, which supersedes all earlier events.
func (w *Follower) snapshot(ctx context.Context, now state) (ended bool, err error) {
	told := w.group.snapshot(now)
	w.begun, w.shown, w.number, w.cut = true, now.head, now.number, now.cut
	w.text, w.steps, w.parked = len(now.text), len(now.steps), byID(now.view.Parked)
	if err := w.emit(ctx, Event{Event: Init, Run: now.view, Text: &told.text, Steps: &told.calls}); err != nil {
		return false, err
	}
	if now.status.Terminal() {
		return true, w.emit(ctx, Event{Event: Done, Run: now.view})
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
func (w *Follower) sendOutput(ctx context.Context, now state) error {
	for ; w.steps < len(now.steps); w.steps++ {
		step := now.steps[w.steps]
		if err := w.upTo(ctx, now, step.at); err != nil {
			return err
		}
		if err := w.emit(ctx, Event{Event: StepEvent, Step: &step.StepEvent}); err != nil {
			return err
		}
	}
	return w.upTo(ctx, now, len(now.text))
}

func (w *Follower) upTo(ctx context.Context, now state, end int) error {
	if end <= w.text {
		return nil
	}
	piece := string(now.text[w.text:end])
	w.text = end
	return w.emit(ctx, Event{Event: Delta, Text: &piece})
}

// sendStatus sends the other changes of a new version of the run: parked messages and its status.
func (w *Follower) sendStatus(ctx context.Context, now state, before head) error {
	for _, p := range now.view.Parked {
		if known, there := w.parked[p.ParkedID]; !there || !reflect.DeepEqual(known.RunID, p.RunID) {
			if err := w.emit(ctx, Event{Event: ParkedMsg, Parked: &p}); err != nil {
				return err
			}
		}
	}
	w.parked = byID(now.view.Parked)
	if now.status.Terminal() || now.status == before.status && now.pause == before.pause {
		return nil
	}
	return w.emit(ctx, Event{Event: Status, Status: string(now.status), Interrupts: &now.view.Interrupts})
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
