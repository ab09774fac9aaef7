// Package stream streams the live output of a run from its worker to its readers. The output is frames in a short-lived
// table, and notifications.
//
// Frames are stored only while a run has readers. A reader announces itself by a watch row. The worker's [Writer] polls
// that row, stores the text so far, and continues with deltas. Deltas in quick succession share a frame. On AWS a frame
// has those of a quarter of a second. On a laptop a frame is overwritten until it has a kilobyte.
//
// Readers pull. The readers of a run in one process share a topic: it reads the tables once for all, and keeps one copy
// of the text so far. Each reader gets the differences at its own pace. So a slow reader needs no buffer and never
// slows a run. Without notifications, one poll loop of the process, the broadcaster's, polls for all topics. The work
// never waits for a stream: its output is stored in the background.
//
// Each file knows the ones below it:
//
//	stream.go                    the public Hub
//	reader.go       writer.go    one reader; one writer
//	broadcaster.go  encoder.go   the shared reads of a process, and its poll loop; frames of output
//	topic.go        inbox.go     the shared state of a run's readers; paused runs
//	state.go        until.go     a run with its output so far; a wait for one run
//	progress.go     feed.go      text and steps; a value that is read once for all its followers
//	frames.go                    rows
//	notifier.go
//
// The package must not know HTTP or models. It imports the table port, events, citation, lifecycle, problem, record,
// view, host and waiting.
package stream

import (
	"log/slog"

	"agentplatform/internal/platform/host"
	"agentplatform/internal/store/table"
)

// Hub gives access to the live output of all runs of one store. It is safe for concurrent use.
type Hub struct {
	frames      *frameTable
	broadcaster *broadcaster
}

// New makes a hub over a table. No other data is in this table.
func New(t table.Table, n Notifier, h host.Host, log *slog.Logger) *Hub {
	frames := &frameTable{table: t, notifier: n, host: h}
	return &Hub{frames: frames, broadcaster: newBroadcaster(frames, log)}
}

// Subscribe subscribes to notifications of any of the names. The caller must close the subscription.
func (h *Hub) Subscribe(what ...string) *Subscription {
	return subscribe(h.frames.notifier, h.frames.host, what...)
}
