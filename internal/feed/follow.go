package feed

import (
	"context"
	"errors"
	"reflect"
	"strconv"
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
	store *record.Store
	scope record.Scope
	run   string
	sink  func(Event) error
	idle  time.Duration // silence after which a heartbeat is sent

	room     *room
	found    found
	seq      int64
	shown    record.RunEntity
	begun    bool
	attempt  int // whose frames are being read
	frameSeq int64
	text     int // bytes of text shown
	steps    map[string]bool
	parked   map[string]view.Parked
}

// Follow streams a run to sink: init, then what happens, done at the end. It returns nil after done or when sink said
// [ErrStop]; otherwise ctx's error, sink's, or a problem.
func (f *Feed) Follow(ctx context.Context, s *record.Store, scope record.Scope, run string, idle time.Duration, sink func(Event) error) error {
	w := &follower{feed: f, store: s, scope: scope, run: run, sink: sink, idle: idle}
	err := w.follow(ctx)
	if errors.Is(err, ErrStop) {
		return nil
	}
	return err
}

func (w *follower) follow(ctx context.Context) error {
	// Listen first, then look: whatever happens after the look rings.
	ear := w.feed.bell.Listen(w.run, framesPart(w.run))
	defer ear.Close()
	w.room = w.feed.enter(w.store, place{w.scope, w.run})
	defer w.room.leave()
	last := w.feed.host.Elapsed()
	rung := false
	for {
		w.room.keepWatch(ctx)
		before := w.seq
		ended, err := w.look(ctx, rung)
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
		if rung, err = ear.Wait(ctx, min(w.idle-(now-last), w.room.pace(), watchLife/2)); err != nil {
			return err
		}
	}
}

func (w *follower) emit(e Event) error {
	w.seq++
	e.RunID, e.Seq = w.run, w.seq
	return w.sink(e)
}

// look shows what has changed since the last look, and says whether the run has ended.
func (w *follower) look(ctx context.Context, rung bool) (ended bool, err error) {
	now, err := w.room.look(ctx, rung || !w.begun)
	if err != nil {
		if w.begun && problem.Is(err, "unavailable") {
			return false, nil // the store will be back
		}
		return false, err
	}
	w.found = now
	e := now.run
	r := e.Value
	if !w.begun || r.Attempt < w.attempt || (r.Attempt > w.attempt && r.Attempt > w.shown.Value.Attempt && w.shown.Value.Attempt > 0) {
		return w.snapshot(ctx, e)
	}
	w.attempt = r.Attempt
	// That a run began stands before what it says; that it paused or ended stands after.
	began := e.Version() != w.shown.Version() && (r.Status == lifecycle.Queued || r.Status == lifecycle.Running)
	if began {
		if _, err := w.changes(ctx, e); err != nil {
			return false, err
		}
	}
	if err := w.pieces(ctx); err != nil {
		return false, err
	}
	if e.Version() == w.shown.Version() {
		return false, nil
	}
	return w.changes(ctx, e)
}

// snapshot sends an init, which supersedes all before it.
func (w *follower) snapshot(ctx context.Context, e record.RunEntity) (ended bool, err error) {
	r := e.Value
	steps, err := w.store.Steps(ctx, r)
	if err != nil {
		return false, err
	}
	v, err := view.Of(ctx, w.store, e)
	if err != nil {
		return false, err
	}
	text, calls := view.Progress(steps)
	w.begun, w.shown, w.attempt, w.frameSeq, w.text = true, e, r.Attempt, 0, len(text)
	w.parked, w.steps = byID(v.Parked), map[string]bool{}
	for _, c := range calls {
		w.steps[stepKey(c)] = true
	}
	if err := w.emit(Event{Event: Init, Run: &v, Text: &text, Steps: &calls}); err != nil {
		return false, err
	}
	if r.Status.Terminal() {
		return true, w.emit(Event{Event: Done, Run: &v})
	}
	return false, w.pieces(ctx)
}

func byID(list []view.Parked) map[string]view.Parked {
	m := map[string]view.Parked{}
	for _, p := range list {
		m[p.ParkedID] = p
	}
	return m
}

// pieces shows the frames that have come.
func (w *follower) pieces(ctx context.Context) error {
	for _, frame := range w.found.after(w.attempt, w.frameSeq) {
		w.frameSeq = frame.Seq
		if err := w.piece(ctx, frame); err != nil {
			return err
		}
	}
	return nil
}

func (w *follower) piece(ctx context.Context, frame events.Frame) error {
	switch frame.Kind {
	case events.FrameStep:
		if w.steps[stepKey(*frame.Step)] || w.steps[stepKey(events.StepEvent{Index: frame.Step.Index, State: "finished"})] ||
			w.steps[stepKey(events.StepEvent{Index: frame.Step.Index, State: "failed"})] {
			return nil // shown already, or it has begun what is shown as ended
		}
		w.steps[stepKey(*frame.Step)] = true
		return w.emit(Event{Event: StepEvent, Step: frame.Step})
	case events.FrameText:
		if len(frame.Text) < w.text {
			return w.restart(ctx, frame)
		}
		return w.more(frame.Text[w.text:])
	case events.FrameDelta:
		if frame.Offset > w.text {
			return nil // a piece is missing; a snapshot or the end brings it
		}
		if end := frame.Offset + len(frame.Text); end > w.text {
			return w.more(frame.Text[w.text-frame.Offset:])
		}
	}
	return nil
}

// restart shows that text was taken back: a model call is made again.
func (w *follower) restart(ctx context.Context, frame events.Frame) error {
	v, err := view.Of(ctx, w.store, w.shown)
	if err != nil {
		return err
	}
	steps, err := w.store.Journal(ctx, w.run)
	if err != nil {
		return err
	}
	_, calls := view.Progress(steps)
	w.text = len(frame.Text)
	return w.emit(Event{Event: Init, Run: &v, Text: &frame.Text, Steps: &calls})
}

func (w *follower) more(text string) error {
	if text == "" {
		return nil
	}
	w.text += len(text)
	return w.emit(Event{Event: Delta, Text: &text})
}

func stepKey(e events.StepEvent) string { return strconv.Itoa(e.Index) + "/" + e.State }

// changes shows what a new version of the run brings.
func (w *follower) changes(ctx context.Context, e record.RunEntity) (ended bool, err error) {
	before := w.shown.Value
	w.shown = e
	v, err := view.Of(ctx, w.store, e)
	if err != nil {
		return false, err
	}
	for _, p := range v.Parked {
		if known, there := w.parked[p.ParkedID]; !there || !reflect.DeepEqual(known.RunID, p.RunID) {
			p := p
			if err := w.emit(Event{Event: ParkedMsg, Parked: &p}); err != nil {
				return false, err
			}
		}
	}
	w.parked = byID(v.Parked)
	if e.Value.Status.Terminal() {
		if err := w.rest(ctx); err != nil {
			return false, err
		}
		return true, w.emit(Event{Event: Done, Run: &v})
	}
	if e.Value.Status == before.Status && e.Value.Pause == before.Pause {
		return false, nil
	}
	if e.Value.Status == lifecycle.AwaitingInput {
		if err := w.rest(ctx); err != nil {
			return false, err
		}
	}
	return false, w.emit(Event{Event: Status, Status: string(e.Value.Status), Interrupts: &v.Interrupts})
}

// rest shows the steps and the text that the journal has and no frame has brought: of a run that was too short for its
// worker to see that it is watched, that is all of them.
func (w *follower) rest(ctx context.Context) error {
	steps, err := w.store.Steps(ctx, w.shown.Value)
	if err != nil {
		return err
	}
	text, calls := view.Progress(steps)
	for _, call := range calls {
		if w.steps[stepKey(call)] {
			continue
		}
		w.steps[stepKey(call)] = true
		if err := w.emit(Event{Event: StepEvent, Step: &call}); err != nil {
			return err
		}
	}
	if len(text) <= w.text {
		return nil
	}
	return w.more(text[w.text:])
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
