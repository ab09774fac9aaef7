package stream

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"agentplatform/events"
	"agentplatform/internal/store/record"
)

// refreshed is the time after which the whole text is stored again, for new readers.
const refreshed = frameLife * 3 / 4

// Writer stores the live output of one attempt of a run. The work only adds to it and never waits. Run stores the
// output in the background while the run has readers. After a failure it stores the output again, together with later
// output. So the text itself bounds the memory used.
type Writer struct {
	table *frameTable
	run   string
	more  *Subscription // to the run; there is more to store, or a reader
	base  int           // bytes of text in the journal when the attempt began; readers get the text after them

	notified atomic.Bool // of the run, since Run has checked for readers

	mu      sync.Mutex
	encoder *encoder
	pending []events.Frame // their storing failed; they are stored again unchanged, before any other
	watched bool           // only Run changes it
	since   time.Duration  // when text was last stored from its beginning
	due     time.Duration  // when the next commit may be made
}

// Writer makes the writer of an attempt. text is the text that earlier attempts have journalled. watched means that the
// run has readers from the start.
func (h *Hub) Writer(run string, attempt int, text string, watched bool) *Writer {
	w := &Writer{
		table: h.frames, run: run, more: &Subscription{host: h.frames.host}, base: len(text), watched: watched,
		encoder: newEncoder(attempt, text, !h.frames.polls()), since: h.frames.host.Elapsed(),
	}
	w.more.stop = h.frames.notifier.OnNotify(func(*record.RunEntity) {
		w.notified.Store(true)
		w.more.Ring()
	}, run)
	return w
}

// Append adds to the text.
func (w *Writer) Append(_ context.Context, text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	before := w.waiting()
	w.encoder.text.WriteString(text)
	if !before || w.encoder.waitingText() >= gatherText {
		w.wakeUp()
	}
}

// Replace replaces the text. A failed model call is retried, so its output since the last step is removed.
func (w *Writer) Replace(_ context.Context, text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.encoder.replace(text) {
		w.wakeUp()
	}
}

// Step adds a step.
func (w *Writer) Step(_ context.Context, e events.StepEvent) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.encoder.step(e, w.watched)
	w.wakeUp()
}

// waiting reports whether there is something to store.
func (w *Writer) waiting() bool { return w.watched && (len(w.pending) > 0 || w.encoder.waiting()) }

func (w *Writer) wakeUp() {
	if w.watched {
		w.more.Ring()
	}
}

// Run stores the output for readers until ctx ends, and checks for readers at the interval every. At the end it stores
// the rest. Each call of the table takes at most callTime.
func (w *Writer) Run(ctx context.Context, every time.Duration) {
	defer w.more.Close()
	// Without polling a check is cheap, and later readers cause a notification. If a run is streamed from its start,
	// its first attempt has a reader whose watch row may not be stored yet.
	if !w.table.polls() && (w.encoder.attempt > 1 || !w.watched) && ctx.Err() == nil {
		w.poll(ctx)
	}
	polled := w.table.host.Elapsed()
	for ctx.Err() == nil {
		_, _ = w.more.Wait(ctx, w.nextWait(polled+every))
		reader := w.notified.Swap(false) // there may be a new reader
		if now := w.table.host.Elapsed(); ctx.Err() == nil && (reader || now-polled >= every) {
			w.poll(ctx)
			polled = w.table.host.Elapsed()
		}
		w.flush(ctx)
	}
	w.flush(ctx)
}

// nextWait is the wait for more: until the next poll, or until the waiting output may be stored.
func (w *Writer) nextWait(poll time.Duration) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := w.table.host.Elapsed()
	wait := poll - now
	switch {
	case w.ready(now):
		wait = 0
	case w.waiting():
		wait = min(wait, w.due-now)
	}
	return max(wait, 0)
}

// ready reports whether to store the waiting output now.
func (w *Writer) ready(now time.Duration) bool {
	return w.waiting() && (now >= w.due || len(w.pending) == 0 && w.encoder.waitingText() >= gatherText)
}

// poll checks whether the run has readers. For the first reader, the text since the journal is stored.
func (w *Writer) poll(ctx context.Context) {
	watched, ask, err := w.table.watched(ctx, w.run, w.watched)
	if err != nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	now := w.table.host.Elapsed()
	if watched && (!w.watched || now-w.since >= refreshed) {
		w.since = now
		w.encoder.restart(w.base)
	}
	if !watched {
		w.encoder.steps = nil
	}
	if w.watched = watched; ask != w.encoder.acked {
		w.encoder.ask = ask
	}
}

// flush stores the output that may be stored now, or all of it if ctx has ended.
func (w *Writer) flush(ctx context.Context) {
	for all := false; ; {
		list := w.take(all || ctx.Err() != nil)
		if len(list) == 0 {
			return
		}
		err := w.table.append(context.WithoutCancel(ctx), w.run, list...)
		if w.written(list, err); err != nil {
			return
		}
		all = len(list) == framesInCommit // the rest did not fit and need not wait
	}
}

// take returns the frames to store: those that could not be stored before, or else those of the waiting output.
func (w *Writer) take(all bool) []events.Frame {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case !w.waiting() || !all && !w.ready(w.table.host.Elapsed()):
		return nil
	case len(w.pending) > 0:
		return w.pending
	}
	return w.encoder.next()
}

// written records the result of storing frames. After a failure it is unknown whether they are stored, so they are
// stored again.
func (w *Writer) written(list []events.Frame, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	pause := w.table.notifier.Interval()
	if w.pending = nil; err != nil {
		w.pending, pause = list, max(pause, callTime)
	}
	w.due = w.table.host.Elapsed() + pause
}
