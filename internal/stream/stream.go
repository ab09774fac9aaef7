// Package stream streams the live output of a run from its worker to the readers: frames in a short-lived table, and
// notifications.
//
// Frames are stored only while a run has readers. A reader announces itself with a watch row; the worker reads it,
// stores the text so far and continues with deltas. Deltas that follow quickly share a frame: on AWS those of a
// quarter of a second, on a laptop those of a kilobyte, in a frame that is overwritten as it grows.
//
// The readers of a run in one process form a group: one of them reads the tables for all, the text so far is held
// once, and each reader is sent the difference to what it was sent before, at its own pace. Where no notification tells
// of news, one goroutine glances at the runs of all groups: it reads what those say that speak all the time, and has a
// reader of each other read it when there is news. A slow reader never slows a run and needs no buffer. Those who wait
// for an organization's inbox share its readings, too. The work itself never waits for the streams: its output is
// collected and stored in the background.
//
// The package must not know HTTP or models. It imports the table port, events, lifecycle, problem, record, view,
// host and waiting.
package stream

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"agentplatform/events"
	"agentplatform/internal/host"
	"agentplatform/internal/record"
	"agentplatform/internal/table"
)

// Lifetimes of the rows of the streams.
const (
	watchLife = time.Minute // a watch row; renewed at half of it
	frameLife = 5 * time.Minute
)

// callTime bounds each call of the hub's table, so that neither work nor streams wait longer for data that may be
// lost.
const callTime = time.Second

// Hub gives access to the frames of all runs. It is safe for concurrent use.
type Hub struct {
	table    table.Table
	notifier Notifier
	host     host.Host
	log      *slog.Logger

	mu       sync.Mutex
	groups   map[place]*group
	joined   int // groups so far
	glancers map[*record.Store]*glancer
	inboxes  map[string]*inbox // by organization
	inboxed  *LocalNotifier    // notifies those who wait for an organization's inbox that it was read
}

// New makes a hub over its own table.
func New(t table.Table, b Notifier, h host.Host, log *slog.Logger) *Hub {
	return &Hub{table: t, notifier: b, host: h, log: log, groups: map[place]*group{},
		glancers: map[*record.Store]*glancer{}, inboxes: map[string]*inbox{}, inboxed: NewLocalNotifier()}
}

// Notifier returns the notifier of the hub.
func (h *Hub) Notifier() Notifier { return h.notifier }

func framesPart(run string) string { return "run/" + run }

func watchKey(run string) table.Key { return table.Key{Part: framesPart(run), Sort: "watch"} }

// watching is the body of a watch row.
type watching struct {
	Asks string `json:"asks,omitempty"` // an id that the worker is to acknowledge in a frame
}

// watch stores the watch row of a run for watchLife and notifies its worker.
func (h *Hub) watch(ctx context.Context, run, asks string) error {
	body, err := json.Marshal(watching{asks})
	if err != nil {
		return err
	}
	item := table.Item{
		Key: watchKey(run), Owner: record.NoOrganization, WriteID: "watch", Expires: h.host.Now().Add(watchLife),
		Body: body,
	}
	ctx, cancel := h.host.WithTimeout(ctx, callTime)
	defer cancel()
	if err := h.table.Commit(ctx, "watch", table.Put(item, table.Always())); err != nil {
		return err
	}
	h.notifier.Notify(run)
	return nil
}

// watched reports whether a run has readers, and the id that they want to be acknowledged. Where it had none, that is a
// look, which costs half of a read: most runs never have one.
func (h *Hub) watched(ctx context.Context, run string, before bool) (watched bool, asks string, err error) {
	ctx, cancel := h.host.WithTimeout(ctx, callTime)
	defer cancel()
	if !before {
		if seen, err := table.Glance(ctx, h.table, watchKey(run)); err != nil || !seen[0].There {
			return false, "", err
		}
	}
	items, err := h.table.Get(ctx, watchKey(run))
	if err != nil || items[0] == nil {
		return false, "", err
	}
	var row watching
	return true, row.Asks, json.Unmarshal(items[0].Body, &row)
}

func frameSort(attempt int, seq int64) string { return fmt.Sprintf("f/%06d/%012d", attempt, seq) }

func frameKey(run string, attempt int, seq int64) table.Key {
	return table.Key{Part: framesPart(run), Sort: frameSort(attempt, seq)}
}

func (h *Hub) append(ctx context.Context, run string, frames ...events.Frame) error {
	ops := make([]table.Op, 0, len(frames))
	expires := h.host.Now().Add(frameLife)
	for _, frame := range frames {
		body, err := json.Marshal(frame)
		if err != nil {
			return err
		}
		ops = append(ops, table.Put(table.Item{
			Key:     frameKey(run, frame.Attempt, frame.Seq),
			Owner:   record.NoOrganization,
			WriteID: "frame",
			Expires: expires, Body: body,
		}, table.Always()))
	}
	ctx, cancel := h.host.WithTimeout(ctx, callTime)
	defer cancel()
	if err := h.table.Commit(ctx, "frame", ops...); err != nil {
		return err
	}
	h.notifier.Notify(framesPart(run))
	return nil
}

// pageOfFrames is how many frames a reader reads at a time.
const pageOfFrames = 200

// frames reads frames of an attempt after a sequence number, and reports whether there are more.
func (h *Hub) frames(ctx context.Context, run string, attempt int, after int64) ([]events.Frame, bool, error) {
	ctx, cancel := h.host.WithTimeout(ctx, callTime)
	defer cancel()
	items, err := h.table.Query(ctx, table.Range{
		Part: framesPart(run), Prefix: fmt.Sprintf("f/%06d/", attempt), After: frameSort(attempt, after),
		Limit: pageOfFrames,
	})
	if err != nil {
		return nil, false, err
	}
	list, err := decoded(items)
	return list, len(items) == pageOfFrames, err
}

// decoded are the frames of items.
func decoded(items []*table.Item) ([]events.Frame, error) {
	list := make([]events.Frame, 0, len(items))
	for _, item := range items {
		var frame events.Frame
		if err := json.Unmarshal(item.Body, &frame); err != nil {
			return nil, fmt.Errorf("stream: %s: %w", item.Key, err)
		}
		list = append(list, frame)
	}
	return list, nil
}
