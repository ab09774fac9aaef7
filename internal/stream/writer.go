package stream

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"agentplatform/events"
)

const (
	gatherText   = 1 << 10           // bytes of text that are stored without waiting
	full         = 1 << 10           // bytes of text at which a frame stops growing
	chunk        = 32 << 10          // maximal bytes of text in a frame
	framesAtOnce = 20                // frames in a commit
	waitingSteps = 256               // steps that wait to be stored; readers get older ones from the journal
	refreshed    = frameLife * 3 / 4 // the whole text is stored again after this time, for new readers
)

// Writer stores the live output of one attempt of a run. The work only adds to it and never waits; Run stores the
// output in the background while the run has readers. What cannot be stored is stored again, and later output is joined
// meanwhile, so that the memory used is bounded by the text itself.
type Writer struct {
	hub     *Hub
	run     string
	attempt int
	base    int // bytes of text that the journal had when the attempt began; readers get them from there

	mu      sync.Mutex
	text    strings.Builder
	frames  frames
	pending []events.Frame // their storing failed; they are stored again as they are, before anything else
	seq     int64          // of the last frame; there are no gaps, as a reader looks for the next one by its number
	watched bool
	since   time.Duration // when text was last stored from its beginning
	due     time.Duration // when the next commit may be made
	failed  bool          // the last commit failed
	tail    tail
	open    []placed           // steps that are running; new readers are sent them
	asks    string             // the id to acknowledge next
	answers string             // the id acknowledged last
	wake    context.CancelFunc // wakes Run while it waits
}

// tail is the last frame stored, while it has text and is not full. If frames are not collected over time, it is
// stored again with the next text, so that the number of frames depends on the length of the text, not on the number
// of deltas.
type tail struct {
	kind     events.FrameKind
	seq      int64
	from, to int // of the text
}

// frames is the output that is not stored yet.
type frames struct {
	from  int  // the text from this offset on
	reach int  // length of the text that readers may have, of this or of a replaced text
	back  bool // some of that text was replaced, after from
	steps []placed
}

type placed struct {
	events.StepEvent

	at int // offset in the text
}

// Writer makes the writer of an attempt. text is what earlier attempts have journalled; watched says that the run has
// readers from the start.
func (h *Hub) Writer(run string, attempt int, text string, watched bool) *Writer {
	w := &Writer{hub: h, run: run, attempt: attempt, base: len(text), watched: watched, since: h.host.Elapsed()}
	w.text.WriteString(text)
	w.frames.from, w.frames.reach = len(text), len(text)
	return w
}

// Append adds to the text.
func (w *Writer) Append(_ context.Context, text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	before := w.waiting()
	w.text.WriteString(text)
	if !before || w.text.Len()-w.frames.from >= gatherText {
		w.wakeUp()
	}
}

// Replace replaces the text: a failed model call is retried, so its output since the last step is removed.
func (w *Writer) Replace(_ context.Context, text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.text.Len() == len(text) {
		return
	}
	w.text.Reset()
	w.text.WriteString(text)
	w.cutTo(len(text))
	w.wakeUp()
}

// cutTo adapts the waiting output to a shorter text.
func (w *Writer) cutTo(n int) {
	f := &w.frames
	f.from, f.back = min(f.from, n), f.back || f.reach > n
	for _, list := range [][]placed{f.steps, w.open} {
		for i := range list {
			list[i].at = min(list[i].at, n)
		}
	}
}

// Step adds a step.
func (w *Writer) Step(_ context.Context, e events.StepEvent) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.open = slices.DeleteFunc(w.open, func(s placed) bool { return s.Index == e.Index })
	if e.State == started && len(w.open) < waitingSteps {
		w.open = append(w.open, placed{e, w.text.Len()})
	}
	if !w.watched {
		return
	}
	f := &w.frames
	if len(f.steps) == waitingSteps {
		f.steps = f.steps[1:]
	}
	f.steps = append(f.steps, placed{e, w.text.Len()})
	w.wakeUp()
}

// waiting reports whether there is something to store.
func (w *Writer) waiting() bool {
	return w.watched && (len(w.pending) > 0 || w.text.Len() > w.frames.from || w.frames.back ||
		len(w.frames.steps) > 0 || w.asks != "")
}

func (w *Writer) wakeUp() {
	if w.watched && w.wake != nil {
		w.wake()
	}
}

// Run stores the output for readers, and polls every so often whether there are any, until ctx ends; then it stores
// the rest. Each call of the hub's table takes at most callTime.
func (w *Writer) Run(ctx context.Context, every time.Duration) {
	sub := w.hub.notifier.Subscribe(w.run)
	defer sub.Close()
	// A poll is cheap here, and later readers cause a notification. The first attempt of a run that is streamed from
	// its start has a reader who may not have said so yet.
	if w.hub.notifier.Gather() == 0 && (w.attempt > 1 || !w.isWatched()) && ctx.Err() == nil {
		w.poll(ctx)
	}
	looked := w.hub.host.Elapsed()
	for ctx.Err() == nil {
		early, cancel, wait := w.nextWait(ctx, looked+every)
		rung, _ := sub.Wait(early, wait)
		cancel()
		if now := w.hub.host.Elapsed(); ctx.Err() == nil && (rung || now-looked >= every) {
			w.poll(ctx)
			looked = w.hub.host.Elapsed()
		}
		w.flush(ctx)
	}
	w.flush(ctx)
}

// nextWait is how long to wait: until the next poll, or until the waiting output may be stored. Its context ends if
// that changes.
func (w *Writer) nextWait(ctx context.Context,
	poll time.Duration) (context.Context, context.CancelFunc, time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	early, cancel := context.WithCancel(ctx)
	w.wake = cancel
	now := w.hub.host.Elapsed()
	wait := poll - now
	switch {
	case w.ready(now):
		wait = 0
	case w.waiting():
		wait = min(wait, w.due-now)
	}
	return early, cancel, max(wait, 0)
}

// ready reports whether to store the waiting output now.
func (w *Writer) ready(now time.Duration) bool {
	return w.waiting() && (now >= w.due || !w.failed && w.text.Len()-w.frames.from >= gatherText)
}

func (w *Writer) isWatched() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.watched
}

// poll checks whether the run has readers. If it is the first one, the text since the journal is stored for it.
func (w *Writer) poll(ctx context.Context) {
	watched, asks, err := w.hub.watched(ctx, w.run, w.isWatched())
	if err != nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	f, now := &w.frames, w.hub.host.Elapsed()
	if watched && (!w.watched || now-w.since >= refreshed) {
		f.from, w.since, w.tail = min(w.base, w.text.Len()), now, tail{}
		f.steps = append(slices.DeleteFunc(slices.Clone(w.open), func(s placed) bool {
			return slices.ContainsFunc(f.steps, func(other placed) bool { return other.Index == s.Index })
		}), f.steps...)
	}
	if !watched {
		f.steps = nil
	}
	if w.watched = watched; asks != w.answers {
		w.asks = asks
	}
}

// flush stores what may be stored now, or everything if ctx has ended.
func (w *Writer) flush(ctx context.Context) {
	for whole := false; ; {
		list := w.take(whole || ctx.Err() != nil)
		if len(list) == 0 {
			return
		}
		err := w.hub.append(context.WithoutCancel(ctx), w.run, list...)
		if w.stored(list, err); err != nil {
			return
		}
		whole = len(list) == framesAtOnce // the rest did not fit and need not wait
	}
}

// take makes frames of the waiting output, in its order, or returns those whose storing failed.
func (w *Writer) take(atOnce bool) (list []events.Frame) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.wake = nil
	if !w.waiting() || !atOnce && !w.ready(w.hub.host.Elapsed()) {
		return nil
	}
	if len(w.pending) > 0 {
		return w.pending
	}
	f, text := &w.frames, w.text.String()
	add := func(frame events.Frame) {
		w.seq++
		frame.Attempt, frame.Seq = w.attempt, w.seq
		list = append(list, frame)
	}
	say := func(kind events.FrameKind, from, to int) {
		for len(list) < framesAtOnce && (from < to || kind == events.FrameText) {
			t := w.tail
			if grows := kind == events.FrameDelta && t.seq == w.seq && t.seq > 0 && t.to == from &&
				t.to-t.from < full && len(list) == 0 && w.hub.notifier.Gather() == 0; grows {
				w.seq--
			} else {
				t = tail{kind: kind, from: from}
			}
			piece := cut(text[t.from:to], chunk)
			add(events.Frame{Kind: t.kind, Text: piece, Offset: t.from})
			from, kind = t.from+len(piece), events.FrameDelta
			t.seq, t.to = w.seq, from
			w.tail = t
		}
		f.from = from
	}
	if f.back {
		say(events.FrameText, 0, f.from)
		f.back, f.reach = false, 0 // readers have no other text now
	}
	n := 0
	for ; n < len(f.steps) && len(list) < framesAtOnce; n++ {
		if say(events.FrameDelta, f.from, f.steps[n].at); f.from < f.steps[n].at || len(list) == framesAtOnce {
			break
		}
		add(events.Frame{Kind: events.FrameStep, Step: &f.steps[n].StepEvent, Offset: f.from})
	}
	if f.steps = f.steps[n:]; len(f.steps) == 0 {
		say(events.FrameDelta, f.from, len(text))
	}
	if w.asks != "" && len(f.steps) == 0 && f.from == len(text) && len(list) < framesAtOnce {
		if len(list) == 0 || w.hub.notifier.Gather() == 0 { // the last one may grow, and is another frame then
			add(events.Frame{Kind: events.FrameDelta, Offset: f.from})
		}
		list[len(list)-1].Asked = w.asks
		w.answers, w.asks = w.asks, ""
	}
	f.reach = max(f.reach, f.from)
	return list
}

// cut is the beginning of a text, at most n bytes, without a partial character.
func cut(text string, n int) string {
	if len(text) <= n {
		return text
	}
	for at := n; at > max(0, n-utf8.UTFMax); at-- {
		if utf8.RuneStart(text[at]) {
			return text[:at]
		}
	}
	return text[:n] // only if the text is not UTF-8
}

// stored records the result of storing frames. If it failed, it is unknown whether they are stored, and they are stored
// again.
func (w *Writer) stored(list []events.Frame, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	pause := w.hub.notifier.Gather()
	w.pending = nil
	if w.failed = err != nil; w.failed {
		w.pending, pause = list, max(pause, callTime)
	}
	w.due = w.hub.host.Elapsed() + pause
}
