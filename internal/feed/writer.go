package feed

import (
	"context"
	"strings"
	"sync"

	"agentplatform/events"
)

// Writer is the live output of one attempt at a run. A failure to write a frame is the readers' loss, never the run's:
// they see a gap and take a snapshot.
type Writer struct {
	feed    *Feed
	run     string
	attempt int

	mu      sync.Mutex
	text    strings.Builder
	seq     int64
	watched bool
}

// Writer makes the writer of an attempt. Text is what earlier attempts have journalled.
func (f *Feed) Writer(run string, attempt int, text string, watched bool) *Writer {
	w := &Writer{feed: f, run: run, attempt: attempt, watched: watched}
	w.text.WriteString(text)
	return w
}

// Watch looks whether somebody watches, and begins to write when somebody does, with a snapshot.
func (w *Writer) Watch(ctx context.Context) {
	watched := w.feed.Watched(ctx, w.run)
	w.mu.Lock()
	defer w.mu.Unlock()
	if watched && !w.watched {
		w.write(ctx, events.Frame{Kind: events.FrameText, Text: w.text.String()})
	}
	w.watched = watched
}

// Append adds to the text.
func (w *Writer) Append(ctx context.Context, text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	offset := w.text.Len()
	w.text.WriteString(text)
	if w.watched {
		w.write(ctx, events.Frame{Kind: events.FrameDelta, Text: text, Offset: offset})
	}
}

// Replace takes back what was said since the last step: a model call is made again.
func (w *Writer) Replace(ctx context.Context, text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.text.Len() == len(text) {
		return
	}
	w.text.Reset()
	w.text.WriteString(text)
	if w.watched {
		w.write(ctx, events.Frame{Kind: events.FrameText, Text: text})
	}
}

// Step tells of a step.
func (w *Writer) Step(ctx context.Context, e events.StepEvent) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.watched {
		w.write(ctx, events.Frame{Kind: events.FrameStep, Step: &e, Offset: w.text.Len()})
	}
}

func (w *Writer) write(ctx context.Context, frame events.Frame) {
	w.seq++
	frame.Attempt, frame.Seq = w.attempt, w.seq
	_ = w.feed.append(ctx, w.run, frame)
}
