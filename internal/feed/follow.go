package feed

import (
	"context"
	"errors"
	"reflect"
	"time"

	"agentplatform/events"
	"agentplatform/internal/lifecycle"
	"agentplatform/internal/problem"
	"agentplatform/internal/record"
	"agentplatform/internal/view"
)

// Event is a line of a stream. Which of its members are there depends on its name.
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

// ErrStop is what a sink returns to end a stream without an error.
var ErrStop = errors.New("feed: enough")

// follower reads one run's stream.
type follower struct {
	feed  *Feed
	group *group
	run   string
	sink  func(Event) error
	idle  time.Duration // silence after which a heartbeat is sent

	seq    int64
	begun  bool
	shown  state // the run that is shown, and how often something was taken back
	text   int   // bytes of text shown
	steps  int   // how many of the steps
	parked map[string]view.Parked
}

// Follow streams a run to sink: init, then what happens, done at the end. It returns nil after done or when sink said
// [ErrStop]; otherwise ctx's error, sink's, or a problem.
func (f *Feed) Follow(ctx context.Context, s *record.Store, scope record.Scope, run string, idle time.Duration, sink func(Event) error) error {
	w := &follower{feed: f, run: run, sink: sink, idle: idle}
	err := w.follow(ctx, s, scope)
	if errors.Is(err, ErrStop) {
		return nil
	}
	return err
}

func (w *follower) follow(ctx context.Context, s *record.Store, scope record.Scope) error {
	// Listen first, then look: whatever happens after the look rings.
	ear := w.feed.bell.Listen(w.run, framesPart(w.run))
	defer ear.Close()
	w.group = w.feed.join(s, place{scope, w.run})
	defer w.group.leave()
	w.group.keepWatch(ctx)
	looked, err := w.greet(ctx, ear)
	if err != nil {
		return err
	}
	last := w.feed.host.Elapsed()
	must := !looked // rung, later
	for {
		before := w.seq
		ended, err := w.look(ctx, must)
		if err != nil || ended {
			return err
		}
		now := w.feed.host.Elapsed()
		switch {
		case w.seq != before:
			last = now
		case now-last >= w.idle:
			if err := w.emit(Event{Event: Heartbeat}); err != nil {
				return err
			}
			last = now
		}
		if must, err = ear.Wait(ctx, min(w.idle-(now-last), w.group.pace(), watchLife/2)); err != nil {
			return err
		}
		w.group.keepWatch(ctx)
	}
}

// behind is how many bytes of text a reader may fall behind before it is told all anew.
const behind = 256 << 10

// greeting is how long a reader that comes first waits for the worker to tell what no journal has yet.
const greeting = 250 * time.Millisecond

// greet waits for the worker's answer where a ring reaches it at once, and says whether it has looked. Elsewhere the
// first deltas bring what is missing.
func (w *follower) greet(ctx context.Context, ear Listener) (looked bool, err error) {
	if w.feed.bell.Gather() > 0 {
		return false, nil
	}
	for began := w.feed.host.Elapsed(); ; {
		now, err := w.group.look(ctx, true)
		left := greeting - (w.feed.host.Elapsed() - began)
		if err != nil || now.run.Value.Status != lifecycle.Running || now.asked == w.group.asks || left <= 0 {
			return err == nil, nil // the first look tells the error
		}
		if _, err := ear.Wait(ctx, left); err != nil {
			return false, err
		}
	}
}

func (w *follower) emit(e Event) error {
	w.seq++
	e.RunID, e.Seq = w.run, w.seq
	return w.sink(e)
}

// look shows what has changed since the last look, and says whether the run has ended.
func (w *follower) look(ctx context.Context, must bool) (ended bool, err error) {
	now, err := w.group.look(ctx, must)
	if err != nil {
		if w.begun && problem.Is(err, "unavailable") {
			return false, nil // the store will be back
		}
		return false, err
	}
	if !w.begun || now.cut != w.shown.cut || len(now.text)-w.text > behind {
		return w.snapshot(now)
	}
	before := w.shown.run
	w.shown = now
	if now.run.Version() == before.Version() {
		return false, w.pieces(now)
	}
	// That a run began stands before what it says; that it paused or ended stands after.
	if status := now.run.Value.Status; status == lifecycle.Queued || status == lifecycle.Running {
		if err := w.changes(now, before.Value); err != nil {
			return false, err
		}
		return false, w.pieces(now)
	}
	if err := w.pieces(now); err != nil {
		return false, err
	}
	if err := w.changes(now, before.Value); err != nil || !now.run.Value.Status.Terminal() {
		return false, err
	}
	return true, w.emit(Event{Event: Done, Run: &now.view})
}

// snapshot sends an init, which supersedes all before it.
func (w *follower) snapshot(now state) (ended bool, err error) {
	told := w.group.snapshot(now)
	w.begun, w.shown, w.text, w.steps, w.parked = true, now, len(now.text), len(now.steps), byID(now.view.Parked)
	if err := w.emit(Event{Event: Init, Run: &now.view, Text: &told.text, Steps: &told.calls}); err != nil {
		return false, err
	}
	if now.run.Value.Status.Terminal() {
		return true, w.emit(Event{Event: Done, Run: &now.view})
	}
	return false, nil
}

func byID(list []view.Parked) map[string]view.Parked {
	m := map[string]view.Parked{}
	for _, p := range list {
		m[p.ParkedID] = p
	}
	return m
}

// pieces shows the text and the steps that have come, in their order.
func (w *follower) pieces(now state) error {
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

// changes shows what a new version of the run brings beside its text and its steps.
func (w *follower) changes(now state, before record.Run) error {
	for _, p := range now.view.Parked {
		if known, there := w.parked[p.ParkedID]; !there || !reflect.DeepEqual(known.RunID, p.RunID) {
			if err := w.emit(Event{Event: ParkedMsg, Parked: &p}); err != nil {
				return err
			}
		}
	}
	w.parked = byID(now.view.Parked)
	r := now.run.Value
	if r.Status.Terminal() || r.Status == before.Status && r.Pause == before.Pause {
		return nil
	}
	return w.emit(Event{Event: Status, Status: string(r.Status), Interrupts: &now.view.Interrupts})
}

// Until waits until a run is as the caller wants it, or for d, and returns it as it is then.
func (f *Feed) Until(
	ctx context.Context, s *record.Store, scope record.Scope, run string, d time.Duration, enough func(record.Run) bool,
) (record.RunEntity, error) {
	ear := f.bell.Listen(run)
	defer ear.Close()
	began := f.host.Elapsed()
	for {
		e, err := s.LiveRun(ctx, scope, run)
		if err != nil {
			return e, err
		}
		left := d - (f.host.Elapsed() - began)
		if enough(e.Value) || left <= 0 {
			return e, nil
		}
		elapsed := d - left
		if _, err := ear.Wait(ctx, min(left, f.bell.Pace(elapsed))); err != nil {
			return e, err
		}
	}
}
