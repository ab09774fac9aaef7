package stream

import (
	"cmp"
	"context"
	"errors"
	"reflect"
	"slices"
	"time"

	"agentplatform/events"
	"agentplatform/internal/core/lifecycle"
	"agentplatform/internal/platform/problem"
	"agentplatform/internal/run/view"
	"agentplatform/internal/store/citation"
	"agentplatform/internal/store/record"
)

// Event is an event of a stream. Its name determines which of the other members are present.
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

// For returns an event for a reader. If it has a run with a result, the result is as the reader may see it now. The
// error is the reader's.
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

const (
	// maxBehind is the number of bytes that a reader may be behind. Beyond it the reader gets a new init event.
	maxBehind = 256 << 10
	// ackTimeout is the longest wait of a new reader for the worker to store output that is not journalled yet.
	ackTimeout = 250 * time.Millisecond
)

// reader sends the stream of one run: a snapshot, and then the changes.
type reader struct {
	topic *topic
	sink  func(Event) error
	idle  time.Duration // silence after which a heartbeat is sent

	began  time.Duration // of Host.Elapsed
	sentAt time.Duration // when something was sent last
	seq    int64         // of the last event
	err    error         // ends the stream, ErrStop after its last event; nothing is sent after it

	sent state // the last state that was sent; zero before the first
}

// Follow streams a run to sink: an init event, the changes as they happen, and done at the end. The events have no
// reader yet; [Event.For] completes one for a certain reader. After idle without an event it sends a heartbeat.
//
// Follow returns nil after done, or if sink returned [ErrStop]. Otherwise the error is ctx's, sink's, or that of the
// store: a [problem.Error], of the kind not found if there is no such run in the scope.
func (h *Hub) Follow(ctx context.Context, s *record.Store, scope record.Scope, run string, idle time.Duration,
	sink func(Event) error) error {
	key := topicKey{scope, run}
	t, leave := join(ctx, h.broadcaster, key, func() *topic { return newTopic(ctx, h.frames, s, key) })
	defer leave()
	states := t.follow()
	defer states.leave()
	r := &reader{topic: t, sink: sink, idle: idle, began: t.frames.host.Elapsed()}
	for r.err == nil {
		now, fresh, err := states.latest()
		if wait := r.step(now, fresh, err); r.err == nil {
			_, err = states.Wait(ctx, wait)
			r.err = cmp.Or(ctx.Err(), err) // a stream ends with its context, also if there are changes
		}
	}
	if errors.Is(r.err, ErrStop) {
		return nil
	}
	return r.err
}

// step sends the changes of a state, or ends the stream with an error of the store. fresh means that the state was read
// after the reader began. The next step is due with the next state, or after wait.
func (r *reader) step(now state, fresh bool, err error) (wait time.Duration) {
	begun := r.sent.run != ""
	if !begun {
		r.sentAt = r.topic.frames.host.Elapsed()
		switch left := ackTimeout - (r.sentAt - r.began); {
		case !fresh:
			return r.idle
		case err == nil && left > 0 && r.topic.mayMiss(now):
			return left
		}
	}
	before := r.seq
	switch {
	case err == nil, begun && problem.Is(err, "unavailable"): // the earlier state is still good
		r.send(now)
	default:
		r.err = err
	}
	at := r.topic.frames.host.Elapsed()
	if r.seq == before && at-r.sentAt >= r.idle {
		r.emit(Event{Event: Heartbeat})
	}
	if r.seq != before {
		r.sentAt = at
	}
	return r.idle - (at - r.sentAt)
}

// mayMiss reports whether the run may have output that is not stored, and notifications reach the worker immediately. A
// worker executes the run and has not acknowledged the ask. The run is old enough for its first reader to have missed
// output. With polling no reader waits for the worker: deltas bring the rest.
func (t *topic) mayMiss(now state) bool {
	return !t.frames.polls() && now.acknowledged != t.ask && now.status == lifecycle.Running &&
		(!now.watched || t.frames.host.Now().Sub(now.accepted) >= ackTimeout)
}

func (r *reader) emit(e Event) {
	if r.err != nil {
		return
	}
	r.seq++
	e.RunID, e.Seq = r.topic.key.run, r.seq
	r.err = r.sink(e)
}

// send sends the differences to the last state that was sent.
func (r *reader) send(now state) {
	before := r.sent
	r.sent = now
	switch {
	case before.run == "" || now.cut != before.cut || len(now.text)-len(before.text) > maxBehind:
		text, calls := now.text, now.calls()
		r.emit(Event{Event: Init, Run: now.view, Text: &text, Steps: &calls}) // replaces all earlier events
	case now.status == lifecycle.Queued || now.status == lifecycle.Running: // a start is sent before its output
		r.sendStatus(before, now)
		r.sendOutput(before, now)
	default: // a pause or an end is sent after it
		r.sendOutput(before, now)
		r.sendStatus(before, now)
	}
	if now.status.Terminal() {
		r.emit(Event{Event: Done, Run: now.view})
		r.err = cmp.Or(r.err, ErrStop)
	}
}

// sendOutput sends the new text and steps in their order.
func (r *reader) sendOutput(before, now state) {
	from := len(before.text)
	upTo := func(end int) {
		if piece := now.text[from:max(from, end)]; piece != "" {
			from = end
			r.emit(Event{Event: Delta, Text: &piece})
		}
	}
	for _, step := range now.steps[len(before.steps):] {
		upTo(step.at)
		r.emit(Event{Event: StepEvent, Step: &step.StepEvent})
	}
	upTo(len(now.text))
}

// sendStatus sends the other changes of a new version of the run: parked messages and its status.
func (r *reader) sendStatus(before, now state) {
	if now.version == before.version {
		return
	}
	for _, p := range now.view.Parked {
		if !slices.ContainsFunc(before.view.Parked, func(known view.Parked) bool {
			return known.ParkedID == p.ParkedID && reflect.DeepEqual(known.RunID, p.RunID)
		}) {
			r.emit(Event{Event: ParkedMsg, Parked: &p})
		}
	}
	if !now.status.Terminal() && (now.status != before.status || now.pause != before.pause) {
		r.emit(Event{Event: Status, Status: string(now.status), Interrupts: &now.view.Interrupts})
	}
}
