package stream

import (
	"context"
	"errors"
	"reflect"
	"time"

	"agentplatform/events"
	"agentplatform/internal/core/lifecycle"
	"agentplatform/internal/platform/problem"
	"agentplatform/internal/run/view"
	"agentplatform/internal/store/citation"
	"agentplatform/internal/store/record"
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

const (
	// maxBehind is how many bytes a reader may be behind before it gets a new init event instead of deltas.
	maxBehind = 256 << 10
	// ackTimeout is how long a new reader waits for the worker to store output that is not journalled yet.
	ackTimeout = 250 * time.Millisecond
)

// reader sends the stream of one run: a snapshot, and then the differences to what was sent.
type reader struct {
	frames *frameTable
	topic  *topic
	sub    Subscription
	sink   func(Event) error
	idle   time.Duration // silence after which a heartbeat is sent

	lastSent time.Duration // of Host.Elapsed
	must     bool          // there is news, which the next step reads
	seq      int64         // of the last event

	// What was sent.
	begun  bool
	head   head
	number int // of the state
	cut    int // of its text
	text   int // bytes of text
	steps  int // number of steps
	parked map[string]view.Parked
}

func follow(ctx context.Context, b *broadcaster, s *record.Store, key topicKey, idle time.Duration,
	sink func(Event) error) error {
	r := &reader{frames: b.frames, sink: sink, idle: idle}
	// Subscribe before the first read: a change after that read causes a notification.
	r.sub = b.frames.notifier.Subscribe(key.run, framesPart(key.run))
	defer r.sub.Close()
	r.topic = b.join(ctx, s, key)
	defer b.leave(r.topic)
	for {
		wait, ended, err := r.step(ctx)
		if errors.Is(err, ErrStop) {
			return nil
		}
		if ended || err != nil {
			return err
		}
		if err := r.wait(ctx, wait); err != nil {
			return err
		}
	}
}

// step sends what there is to send. The next step is due with news, or after wait.
func (r *reader) step(ctx context.Context) (wait time.Duration, ended bool, err error) {
	r.topic.keepWatch(ctx)
	if !r.begun {
		hasRead, err := r.awaitAck(ctx)
		if err != nil {
			return 0, false, err
		}
		r.lastSent, r.must = r.frames.host.Elapsed(), !hasRead
	}
	before := r.seq
	if ended, err = r.sendChanges(ctx); err != nil || ended {
		return 0, ended, err
	}
	now := r.frames.host.Elapsed()
	if r.seq == before && now-r.lastSent >= r.idle {
		if err := r.emit(Event{Event: Heartbeat}); err != nil {
			return 0, false, err
		}
	}
	if r.seq != before {
		r.lastSent = now
	}
	return min(r.idle-(now-r.lastSent), r.topic.pace(), watchLife/2), false, nil
}

// wait waits for news, at most for d. The error is ctx's.
func (r *reader) wait(ctx context.Context, d time.Duration) (err error) {
	if r.frames.polls() { // for news that this reader is to read, or that another has read
		r.must, err = r.topic.await(ctx, r.number, d)
	} else {
		r.must, err = r.sub.Wait(ctx, d)
	}
	return err
}

// awaitAck waits for the worker's acknowledgement where notifications reach the worker immediately. It reports whether
// it has read the run. With polling it does not wait: deltas bring the rest.
func (r *reader) awaitAck(ctx context.Context) (hasRead bool, err error) {
	if r.frames.polls() {
		return false, nil
	}
	for began := r.frames.host.Elapsed(); ; {
		now, err := r.topic.current(ctx, true)
		left := ackTimeout - (r.frames.host.Elapsed() - began)
		if err != nil || now.asked == r.topic.ask || left <= 0 || !r.mayMiss(now.head) {
			return err == nil, nil // the next read returns the error
		}
		if _, err := r.sub.Wait(ctx, left); err != nil {
			return false, err
		}
	}
}

// mayMiss reports whether a run may have output that is not stored. A worker executes it, and it is not so young that
// its first reader cannot have missed anything.
func (r *reader) mayMiss(h head) bool {
	return h.status == lifecycle.Running && (!h.watched || r.frames.host.Now().Sub(h.accepted) >= ackTimeout)
}

func (r *reader) emit(e Event) error {
	r.seq++
	e.RunID, e.Seq = r.topic.key.run, r.seq
	return r.sink(e)
}

// sendChanges sends the differences to what was sent, and reports whether the run has ended.
func (r *reader) sendChanges(ctx context.Context) (ended bool, err error) {
	now, err := r.topic.current(ctx, r.must)
	switch {
	case err != nil && r.begun && problem.Is(err, "unavailable"):
		r.must = false
		return false, nil // retried with the next poll
	case err != nil:
		return false, err
	}
	r.must = false
	if !r.begun || now.cut != r.cut || len(now.text)-r.text > maxBehind {
		return r.sendSnapshot(now)
	}
	before := r.head
	r.head, r.number = now.head, now.number
	if now.version == before.version {
		return false, r.sendOutput(now)
	}
	// The event that a run has begun comes before its output. That it paused or ended comes after it.
	if now.status == lifecycle.Queued || now.status == lifecycle.Running {
		if err := r.sendStatus(now, before); err != nil {
			return false, err
		}
		return false, r.sendOutput(now)
	}
	if err := r.sendOutput(now); err != nil {
		return false, err
	}
	if err := r.sendStatus(now, before); err != nil || !now.status.Terminal() {
		return false, err
	}
	return true, r.emit(Event{Event: Done, Run: now.view})
}

// sendSnapshot sends an init event, which supersedes all earlier events.
func (r *reader) sendSnapshot(now state) (ended bool, err error) {
	all := r.topic.snapshot(now)
	r.begun, r.head, r.number, r.cut = true, now.head, now.number, now.cut
	r.text, r.steps, r.parked = len(now.text), len(now.steps), byID(now.view.Parked)
	if err := r.emit(Event{Event: Init, Run: now.view, Text: &all.text, Steps: &all.calls}); err != nil {
		return false, err
	}
	if now.status.Terminal() {
		return true, r.emit(Event{Event: Done, Run: now.view})
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

// sendOutput sends the new text and steps in their order.
func (r *reader) sendOutput(now state) error {
	for ; r.steps < len(now.steps); r.steps++ {
		step := now.steps[r.steps]
		if err := r.sendText(now, step.at); err != nil {
			return err
		}
		if err := r.emit(Event{Event: StepEvent, Step: &step.StepEvent}); err != nil {
			return err
		}
	}
	return r.sendText(now, len(now.text))
}

// sendText sends the text up to an offset.
func (r *reader) sendText(now state, end int) error {
	if end <= r.text {
		return nil
	}
	piece := string(now.text[r.text:end])
	r.text = end
	return r.emit(Event{Event: Delta, Text: &piece})
}

// sendStatus sends the other changes of a new version of the run: parked messages and its status.
func (r *reader) sendStatus(now state, before head) error {
	for _, p := range now.view.Parked {
		if known, there := r.parked[p.ParkedID]; !there || !reflect.DeepEqual(known.RunID, p.RunID) {
			if err := r.emit(Event{Event: ParkedMsg, Parked: &p}); err != nil {
				return err
			}
		}
	}
	r.parked = byID(now.view.Parked)
	if now.status.Terminal() || now.status == before.status && now.pause == before.pause {
		return nil
	}
	return r.emit(Event{Event: Status, Status: string(now.status), Interrupts: &now.view.Interrupts})
}
