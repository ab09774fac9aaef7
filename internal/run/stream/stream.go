// Package stream streams the live output of a run from its worker to its readers. The output is frames in a
// short-lived table, and notifications.
//
// Frames are stored only while a run has readers. A reader announces itself by a watch row. The worker's [Writer]
// polls that row, stores the text so far, and continues with deltas. Deltas that follow quickly share a frame. On AWS
// a frame has those of a quarter of a second. On a laptop a frame is overwritten until it has a kilobyte.
//
// Readers pull. The readers of a run in one process share a topic: one of them reads the tables for all, and the text
// so far is held once. Each reader gets the differences at its own pace, so a slow one needs no buffer and never slows
// a run. Where nothing notifies, one poll loop of the process, the broadcaster's, looks for news of all topics. The
// work never waits for a stream: its output is stored in the background.
//
// Each file knows the ones below it:
//
//	stream.go                                 the public Hub
//	reader.go        writer.go                one reader; one writer
//	broadcaster.go   encoder.go   inbox.go    the topics of a process, and the poll loop
//	topic.go                      until.go    what the readers of a run share
//	state.go                                  a run with its output so far
//	progress.go      frames.go                text and steps; rows
//	notifier.go
//
// The package must not know HTTP or models. It imports the table port, events, citation, lifecycle, problem, record,
// view, host and waiting.
package stream

import (
	"context"
	"log/slog"
	"time"

	"agentplatform/internal/platform/host"
	"agentplatform/internal/store/record"
	"agentplatform/internal/store/table"
)

// Hub gives access to the live output of all runs of one store. It is safe for concurrent use.
type Hub struct {
	frames      *frameTable
	broadcaster *broadcaster
	inboxes     *inboxes
}

// New makes a hub over a table of its own.
func New(t table.Table, n Notifier, h host.Host, log *slog.Logger) *Hub {
	frames := &frameTable{table: t, notifier: n, host: h}
	return &Hub{frames: frames, broadcaster: newBroadcaster(frames, log), inboxes: newInboxes(n, h)}
}

// Notifier returns the notifier of the hub.
func (h *Hub) Notifier() Notifier { return h.frames.notifier }

// Writer makes the writer of an attempt. text is what earlier attempts have journalled. watched says that the run has
// readers from the start.
func (h *Hub) Writer(run string, attempt int, text string, watched bool) *Writer {
	return newWriter(h.frames, run, attempt, text, watched)
}

// Follow streams a run to sink: an init event, the changes as they happen, and done at the end. Each event is for any
// reader; [Event.For] makes it one for a certain reader. After idle without an event it sends a heartbeat.
//
// It returns nil after done, or if sink returned [ErrStop]. Otherwise the error is ctx's, sink's, or that of the
// store: a [problem.Error], of the kind not found if there is no such run in the scope.
func (h *Hub) Follow(ctx context.Context, s *record.Store, scope record.Scope, run string, idle time.Duration,
	sink func(Event) error) error {
	return follow(ctx, h.broadcaster, s, topicKey{scope, run}, idle, sink)
}

// Until waits until enough returns true for a run, or for d, or for as long as the request may wait (package waiting).
// It returns the run as it is then. seen is a version of it that is not enough, 0 for none. The error is ctx's, or that
// of the store: not found, if there is no such run in the scope.
func (h *Hub) Until(
	ctx context.Context, s *record.Store, scope record.Scope, run string, seen int64, d time.Duration,
	enough func(record.Run) bool,
) (record.RunEntity, error) {
	return runWait{h.frames.notifier, h.frames.host, s, scope, run, run, enough}.until(ctx, seen, d)
}

// UntilEnd is Until for a run that has ended or waits for a human. No other change of the run wakes the caller.
func (h *Hub) UntilEnd(
	ctx context.Context, s *record.Store, scope record.Scope, run string, seen int64, d time.Duration,
) (record.RunEntity, error) {
	enough := func(r record.Run) bool { return r.Status.EndedOrWaiting() }
	return runWait{h.frames.notifier, h.frames.host, s, scope, run, record.EndOf(run), enough}.until(ctx, seen, d)
}

// UntilInbox waits until an organization's runs that wait for a human differ from those of mark (see
// [record.Store.PausedRuns]), at least for a second, at most for d. The error is ctx's, or that of the store.
func (h *Hub) UntilInbox(ctx context.Context, s *record.Store, organization, mark string, d time.Duration) error {
	return h.inboxes.until(ctx, s, organization, mark, d)
}
