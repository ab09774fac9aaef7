package stream

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"agentplatform/events"
	"agentplatform/internal/platform/host"
	"agentplatform/internal/store/record"
	"agentplatform/internal/store/table"
)

// Lifetimes of the rows of the streams.
const (
	watchLife = time.Minute // a watch row; renewed at half of it
	frameLife = 5 * time.Minute
)

// gatherText is the number of bytes of text that a writer stores without waiting for more.
const gatherText = 1 << 10

// callTime bounds each call of the frame table: neither work nor streams wait longer for data that may be lost.
const callTime = time.Second

// frameTable is the table of the live output. A run has a watch row while it has readers, and numbered frames.
type frameTable struct {
	table    table.Table
	notifier Notifier
	host     host.Host
}

// polls reports whether readers must poll for changes, because there are no notifications.
func (f *frameTable) polls() bool { return f.notifier.Interval() > 0 }

// pace returns the wait before the next read without a notification. quiet is the time since the last change. With
// polling it is an eighth of quiet, at least the notifier's interval, and at most eight times that. So a change is read
// after at most an eighth more of the time that it took, and a wait of a minute costs 48 polls. With notifications such
// reads are hardly needed.
func (f *frameTable) pace(quiet time.Duration) time.Duration {
	if every := f.notifier.Interval(); every > 0 {
		return min(max(quiet/8, every), 8*every)
	}
	return watchLife / 2
}

func framesPart(run string) string { return "run/" + run }

func watchKey(run string) table.Key { return table.Key{Part: framesPart(run), Sort: "watch"} }

func frameSort(attempt int, seq int64) string { return fmt.Sprintf("f/%06d/%012d", attempt, seq) }

func frameKey(run string, attempt int, seq int64) table.Key {
	return table.Key{Part: framesPart(run), Sort: frameSort(attempt, seq)}
}

// watching is the body of a watch row.
type watching struct {
	Asks string `json:"asks,omitempty"` // an id that the worker must acknowledge in a frame
}

// watch stores the watch row of a run for watchLife and notifies its worker.
func (f *frameTable) watch(ctx context.Context, run, ask string) error {
	body, err := json.Marshal(watching{ask})
	if err != nil {
		return err
	}
	ctx, cancel := f.host.WithTimeout(ctx, callTime)
	defer cancel()
	if err := f.table.Commit(ctx, "watch", f.put(watchKey(run), "watch", watchLife, body)); err != nil {
		return err
	}
	f.notifier.Notify(run)
	return nil
}

func (f *frameTable) put(key table.Key, kind string, life time.Duration, body []byte) table.Op {
	return table.Put(table.Item{
		Key: key, Owner: record.NoOrganization, WriteID: kind, Expires: f.host.Now().Add(life), Body: body,
	}, table.Always())
}

// watched reports whether a run has readers, and returns the id that they want acknowledged. before is the result of
// the last call. If it is false, watched first checks only that the row exists, which costs half of a read: most runs
// never have a reader.
func (f *frameTable) watched(ctx context.Context, run string, before bool) (watched bool, ask string, err error) {
	ctx, cancel := f.host.WithTimeout(ctx, callTime)
	defer cancel()
	if !before {
		if marks, err := table.Poll(ctx, f.table, watchKey(run)); err != nil || !marks[0].There {
			return false, "", err
		}
	}
	items, err := f.table.Get(ctx, watchKey(run))
	if err != nil || items[0] == nil {
		return false, "", err
	}
	var row watching
	return true, row.Asks, json.Unmarshal(items[0].Body, &row)
}

// append stores frames and notifies the readers.
func (f *frameTable) append(ctx context.Context, run string, frames ...events.Frame) error {
	ops := make([]table.Op, 0, len(frames))
	for _, frame := range frames {
		body, err := json.Marshal(frame)
		if err != nil {
			return err
		}
		ops = append(ops, f.put(frameKey(run, frame.Attempt, frame.Seq), "frame", frameLife, body))
	}
	ctx, cancel := f.host.WithTimeout(ctx, callTime)
	defer cancel()
	if err := f.table.Commit(ctx, "frame", ops...); err != nil {
		return err
	}
	f.notifier.Notify(framesPart(run))
	return nil
}

// framesInPage is the number of frames that a reader reads in one call.
const framesInPage = 200

// page reads frames of an attempt after a sequence number, and reports whether there are more.
func (f *frameTable) page(ctx context.Context, run string, attempt int, after int64) ([]events.Frame, bool, error) {
	ctx, cancel := f.host.WithTimeout(ctx, callTime)
	defer cancel()
	items, err := f.table.Query(ctx, table.Range{
		Part: framesPart(run), Prefix: fmt.Sprintf("f/%06d/", attempt), After: frameSort(attempt, after),
		Limit: framesInPage,
	})
	if err != nil {
		return nil, false, err
	}
	list := make([]events.Frame, 0, len(items))
	for _, item := range items {
		frame, err := decodeFrame(item)
		if err != nil {
			return nil, false, err
		}
		list = append(list, frame)
	}
	return list, len(items) == framesInPage, nil
}

// get reads rows by their keys; a missing row is nil.
func (f *frameTable) get(ctx context.Context, keys []table.Key) ([]*table.Item, error) {
	ctx, cancel := f.host.WithTimeout(ctx, callTime)
	defer cancel()
	return f.table.Get(ctx, keys...)
}

func decodeFrame(item *table.Item) (frame events.Frame, err error) {
	if err := json.Unmarshal(item.Body, &frame); err != nil {
		return frame, fmt.Errorf("stream: %s: %w", item.Key, err)
	}
	return frame, nil
}
