package feed

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
	gatherText   = 1 << 10           // bytes that are not held back any longer
	full         = 1 << 10           // bytes of text from which on a frame does not grow
	chunk        = 32 << 10          // bytes of text in a frame at the most
	framesAtOnce = 20                // in a commit
	waitingSteps = 256               // that no frame has brought yet; readers find older ones in the journal
	refreshed    = frameLife * 3 / 4 // after which text is stored again, for those who come later
)

// Writer is the live output of one attempt at a run. The work only adds to it and waits for nothing; Run, beside the
// work, stores it for those who watch. What cannot be stored is stored later, with what has come since: text joins, so
// that the text itself is the bound of what waits.
type Writer struct {
	feed    *Feed
	run     string
	attempt int
	base    int // bytes of text that the journal had when the attempt began: readers have them from there

	mu      sync.Mutex
	text    strings.Builder
	frames  frames
	seq     int64
	watched bool
	since   time.Duration // when text was last stored from its beginning
	due     time.Duration // when more may be stored
	failed  bool          // the last commit has
	tail    tail
	open    []placed           // steps that have begun and not ended: whoever comes is told
	asks    string             // what is still to be answered
	answers string             // what was answered last
	wake    context.CancelFunc // of Run, while it waits
}

// tail is the last frame that was stored, while it is one of text and not full: it is stored again with what comes next
// where frames are not gathered over time, so that there are as many as the text is long, however small its pieces
// were.
type tail struct {
	kind     events.FrameKind
	seq      int64
	from, to int // of the text
}

// frames is what no frame has brought yet.
type frames struct {
	from  int  // the text from here on
	reach int  // how much text readers may have, of the text as it is or was
	back  bool // some of that was taken back, behind from
	steps []placed
}

type placed struct {
	events.StepEvent

	at int // in the text
}

// Writer makes the writer of an attempt. Text is what earlier attempts have journalled.
func (f *Feed) Writer(run string, attempt int, text string, watched bool) *Writer {
	w := &Writer{feed: f, run: run, attempt: attempt, base: len(text), watched: watched, since: f.host.Elapsed()}
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

// Replace takes back what was said since the last step: a model call is made again.
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

// cutTo makes what waits fit a text that is shorter now.
func (w *Writer) cutTo(n int) {
	f := &w.frames
	f.from, f.back = min(f.from, n), f.back || f.reach > n
	for _, list := range [][]placed{f.steps, w.open} {
		for i := range list {
			list[i].at = min(list[i].at, n)
		}
	}
}

// Step tells of a step.
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

// waiting says whether there is something to store.
func (w *Writer) waiting() bool {
	return w.watched && (w.text.Len() > w.frames.from || w.frames.back || len(w.frames.steps) > 0 || w.asks != "")
}

func (w *Writer) wakeUp() {
	if w.watched && w.wake != nil {
		w.wake()
	}
}

// Run stores what is there for readers, and looks every so often whether there are any, until ctx ends; then it stores
// the rest. No call of the feed's table holds it up for long.
func (w *Writer) Run(ctx context.Context, every time.Duration) {
	ear := w.feed.bell.Listen(w.run)
	defer ear.Close()
	if w.feed.bell.Gather() == 0 && ctx.Err() == nil { // a look costs nothing; who comes later rings
		w.look(ctx)
	}
	looked := w.feed.host.Elapsed()
	for ctx.Err() == nil {
		early, cancel, wait := w.rest(ctx, looked+every)
		rung, _ := ear.Wait(early, wait)
		cancel()
		if now := w.feed.host.Elapsed(); ctx.Err() == nil && (rung || now-looked >= every) {
			w.look(ctx)
			looked = w.feed.host.Elapsed()
		}
		w.flush(ctx)
	}
	w.flush(ctx)
}

// rest is how long to wait: until the next look, or until what is there may be stored. Its context ends when that
// changes.
func (w *Writer) rest(ctx context.Context, look time.Duration) (context.Context, context.CancelFunc, time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	early, cancel := context.WithCancel(ctx)
	w.wake = cancel
	now := w.feed.host.Elapsed()
	wait := look - now
	switch {
	case w.ready(now):
		wait = 0
	case w.waiting():
		wait = min(wait, w.due-now)
	}
	return early, cancel, max(wait, 0)
}

// ready says whether to store now what is there.
func (w *Writer) ready(now time.Duration) bool {
	return w.waiting() && (now >= w.due || !w.failed && w.text.Len()-w.frames.from >= gatherText)
}

// look looks whether somebody watches. Who begins to is told all, but for what the journal tells.
func (w *Writer) look(ctx context.Context) {
	watched, asks, err := w.feed.watched(ctx, w.run)
	if err != nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	f, now := &w.frames, w.feed.host.Elapsed()
	if watched && (!w.watched || now-w.since >= refreshed) {
		f.from, w.since, w.tail = min(w.base, w.text.Len()), now, tail{}
		f.steps = append(slices.DeleteFunc(slices.Clone(w.open), func(s placed) bool {
			return slices.ContainsFunc(f.steps, func(other placed) bool { return other.Index == s.Index })
		}), f.steps...)
	}
	if !watched {
		f.steps = nil
	}
	if w.watched = watched; asks != w.answers && w.feed.bell.Gather() == 0 { // elsewhere nobody waits for it
		w.asks = asks
	}
}

// flush stores what is there: all that may be stored now, or, when ctx has ended, all.
func (w *Writer) flush(ctx context.Context) {
	for whole := false; ; {
		sending, list := w.take(whole || ctx.Err() != nil)
		if len(list) == 0 {
			return
		}
		err := w.feed.append(context.WithoutCancel(ctx), w.run, list...)
		if w.stored(sending, err); err != nil {
			return
		}
		whole = len(list) == framesAtOnce // what had no room in them is not news
	}
}

// take makes frames of what waits, in the order in which it came. Sending is what waits again if they are not stored.
func (w *Writer) take(atOnce bool) (sending frames, list []events.Frame) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.wake = nil
	if !w.waiting() || !atOnce && !w.ready(w.feed.host.Elapsed()) {
		return sending, nil
	}
	f, text := &w.frames, w.text.String()
	sending = *f
	add := func(frame events.Frame) {
		w.seq++
		frame.Attempt, frame.Seq = w.attempt, w.seq
		list = append(list, frame)
	}
	say := func(kind events.FrameKind, from, to int) {
		for len(list) < framesAtOnce && (from < to || kind == events.FrameText) {
			t := w.tail
			if grows := kind == events.FrameDelta && t.seq == w.seq && t.seq > 0 && t.to == from && t.to-t.from < full && len(list) == 0 && w.feed.bell.Gather() == 0; grows {
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
		f.back, f.reach = false, 0 // who reads on has no more than this
	}
	n := 0
	for ; n < len(f.steps) && len(list) < framesAtOnce; n++ {
		if say(events.FrameDelta, f.from, f.steps[n].at); f.from < f.steps[n].at || len(list) == framesAtOnce {
			break
		}
		add(events.Frame{Kind: events.FrameStep, Step: &f.steps[n].StepEvent, Offset: f.from})
	}
	if sending.steps, f.steps = f.steps[:n], f.steps[n:]; len(f.steps) == 0 {
		say(events.FrameDelta, f.from, len(text))
	}
	if w.asks != "" && len(f.steps) == 0 && f.from == len(text) && len(list) < framesAtOnce {
		add(events.Frame{Kind: events.FrameDelta, Offset: f.from, Asked: w.asks})
		w.answers, w.asks = w.asks, ""
	}
	f.reach = max(f.reach, f.from)
	return sending, list
}

// cut is at most n bytes of a text, none of its characters cut in two.
func cut(text string, n int) string {
	if len(text) <= n {
		return text
	}
	for at := n; at > max(0, n-utf8.UTFMax); at-- {
		if utf8.RuneStart(text[at]) {
			return text[:at]
		}
	}
	return text[:n] // no text has so long a character
}

// stored notes what came of frames. Those of which it is not known wait again, with what has come since.
func (w *Writer) stored(sent frames, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	pause := w.feed.bell.Gather()
	if w.failed = err != nil; w.failed {
		pause = max(pause, callTime)
		w.tail, w.answers = tail{}, "" // nobody knows what is stored
		f := &w.frames
		f.from, f.reach = min(f.from, sent.from), max(f.reach, sent.reach)
		for i := range sent.steps {
			sent.steps[i].at = min(sent.steps[i].at, w.text.Len()) // the text may have been taken back meanwhile
		}
		f.steps = slices.Concat(sent.steps, f.steps)
		f.steps = f.steps[max(0, len(f.steps)-waitingSteps):]
		f.back = f.back || sent.back
	}
	w.due = w.feed.host.Elapsed() + pause
}
