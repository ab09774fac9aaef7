// Package disktable is the table port over an embedded engine (Pebble) in one folder, for local use.
//
// One goroutine commits. It takes all waiting commits, and checks the conditions of each against the store and the
// commits queued before it. It writes the accepted ones as one batch, syncs once, and only then responds. So a commit
// is durable before its caller knows, many commits share one sync, and no reader sees data that a crash could lose. (A
// batch becomes visible after its sync.) A folder can be open in one process only.
//
// It imports its port, the engine and an LRU cache.
package disktable

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
	"github.com/cockroachdb/pebble/v2/vfs"

	"agentplatform/internal/store/table"
)

// format is the version of the store's layout. A folder with another one is refused.
const format = "1"

// ErrInUse is returned by Open if another process has the folder open.
var ErrInUse = errors.New("the folder is in use by another process")

var errClosed = &table.Error{Kind: table.Down, Err: errors.New("the store is closed")}

// compactedFiles is how many files of level 0 may have a key before they are compacted. More files mean fewer
// compactions, and slower reads: a reader may have to read all of them.
const compactedFiles = 8

// maxBatch bounds how many commits share one sync, and so how long the first of them waits.
const maxBatch = 256

// maxDead is how many removed and replaced rows the engine keeps in memory. A reader of a range steps over each of
// them. Those of due times are at the beginning of each read of due items. A flush drops the replaced rows. Of a
// removed row a mark is left, which goes with the next compaction. There is one flush a flushPause, as it costs a busy
// store a little.
const (
	maxDead    = 4096
	flushPause = time.Second
)

// Table is an open store. It must be closed.
type Table struct {
	db   *pebble.DB
	lock *os.File
	log  *slog.Logger
	now  func() time.Time
	free func() int64

	seen    sync.RWMutex // guards view and cache, so that readers see the same commits in both
	view    *view
	cache   *cache
	views   sync.WaitGroup // those that are not closed
	queue   chan *request
	closing chan struct{}
	stopped sync.WaitGroup

	// Used by the committing goroutine only.
	purgedAt time.Time       // when all that had expired was removed
	dead     int             // rows removed or replaced since the last flush
	flushAt  time.Time       // of the last flush
	flushed  <-chan struct{} // closed when the last flush has ended; nil: there was none

	sendMu sync.RWMutex // held for reading while sending to queue, so that Close can wait for the last send
	closed bool
}

type request struct {
	ops   []table.Op
	reply chan error
}

// Options are the options of Open. All may be zero.
type Options struct {
	Log *slog.Logger
	Now func() time.Time
	FS  vfs.FS
	// Free returns how many bytes the disk has left. Without it, a write to a full disk ends the process.
	Free func() int64
}

// minFree is how many bytes a commit must leave free on the disk: the engine ends the process when it cannot write.
const minFree = 8 << 20

// Usage is how many bytes the disk of a folder has left for this process, and how many in all.
func Usage(dir string) (free, all int64, err error) {
	usage, err := vfs.Default.GetDiskUsage(dir)
	return int64(usage.AvailBytes), int64(usage.TotalBytes), err
}

// Open opens the store in dir, and creates it if there is none. The error is [ErrInUse] if another process has it open.
// It is another error if the store has another format, or one of the file system or the engine.
func Open(dir string, o Options) (*Table, error) {
	t := &Table{
		log: cmp.Or(o.Log, slog.New(slog.DiscardHandler)), now: o.Now, free: o.Free,
		queue:   make(chan *request, 4*maxBatch),
		closing: make(chan struct{}), cache: newCache(),
	}
	if t.now == nil {
		t.now = time.Now
	}
	if o.FS == nil {
		if err := t.lockFolder(dir); err != nil {
			return nil, err
		}
	}
	if err := t.open(dir, o.FS); err != nil {
		t.unlockFolder()
		return nil, err
	}
	t.publish(nil)
	t.stopped.Add(1)
	go t.commitLoop()
	return t, nil
}

func (t *Table) open(dir string, fs vfs.FS) error {
	cache := pebble.NewCache(64 << 20) // the engine takes its memtables out of it
	defer cache.Unref()
	onDisk := fs == nil
	if onDisk {
		fs = vfs.Default
	}
	spread := &paced{FS: fs, closing: t.closing}
	options := &pebble.Options{
		FS:                          spread,
		Cache:                       cache,
		MemTableSize:                16 << 20,
		MemTableStopWritesThreshold: 4,                  // 64 MB
		L0CompactionThreshold:       2 * compactedFiles, // the engine counts each twice
		L0StopWritesThreshold:       96,
		FormatMajorVersion:          pebble.FormatNewest,
		Logger:                      quiet{t.log},
		EventListener: &pebble.EventListener{WriteStallBegin: func(i pebble.WriteStallBeginInfo) {
			t.log.Warn("the store has writers wait", "reason", i.Reason)
		}, DiskSlow: func(i pebble.DiskSlowInfo) {
			t.log.Warn("the disk is slow", "operation", i.OpType.String(), "so_far_ms", i.Duration.Milliseconds())
		}},
	}
	spread.listen(options.EventListener)
	for i := range options.Levels {
		options.Levels[i].FilterPolicy = bloom.FilterPolicy(10)
	}
	if onDisk {
		options.WithFSDefaults() // the engine's default without a file system: it reports a slow disk
	}
	db, err := pebble.Open(dir, options)
	if err != nil {
		return fmt.Errorf("disktable: open %s: %w", dir, err)
	}
	if err := checkFormat(db); err != nil {
		return errors.Join(err, db.Close())
	}
	t.db = db
	spread.opened.Store(true)
	return nil
}

func checkFormat(db *pebble.DB) error {
	key := []byte{metaPrefix, 'f'}
	stored, closer, err := db.Get(key)
	if errors.Is(err, pebble.ErrNotFound) {
		return db.Set(key, []byte(format), pebble.Sync)
	}
	if err != nil {
		return fmt.Errorf("disktable: read the format: %w", err)
	}
	defer func() { _ = closer.Close() }()
	if string(stored) != format {
		return fmt.Errorf("disktable: the store has format %q and this program knows %q; use the program that "+
			"wrote it", stored, format)
	}
	return nil
}

func (t *Table) lockFolder(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("disktable: %w", err)
	}
	f, err := os.OpenFile(filepath.Join(dir, "IN_USE"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return fmt.Errorf("disktable: %w", err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = f.Close()
		return fmt.Errorf("disktable: %s: %w", dir, ErrInUse)
	}
	t.lock = f
	return nil
}

func (t *Table) unlockFolder() {
	if t.lock != nil {
		_ = t.lock.Close() // closing releases the lock
	}
}

// Close waits for the calls under way and closes the store; further calls of its methods fail with [table.Down].
// The error is one of the engine. A second Close does nothing.
func (t *Table) Close() error {
	t.sendMu.Lock()
	if t.closed {
		t.sendMu.Unlock()
		return nil
	}
	t.closed = true
	close(t.queue)
	t.sendMu.Unlock()
	close(t.closing)
	t.stopped.Wait()
	err := t.view.release()
	t.views.Wait() // readers release theirs; no others begin
	err = errors.Join(err, t.db.Close())
	t.unlockFolder()
	return err
}

// view is a snapshot of the store as of the last sync. The engine shows a batch to readers before its sync has ended.
// Readers of a view do not see it until it can no longer be lost.
type view struct {
	*pebble.Snapshot
	users  atomic.Int64 // reference count: 1 for the newest view, plus its readers
	closed func()       // to be called when it is closed
}

func (v *view) release() error {
	if v.users.Add(-1) == 0 {
		defer v.closed()
		return v.Close()
	}
	return nil
}

// publish makes all commits so far visible in one step. written are the writes of the last batch, nil for deleted
// items.
func (t *Table) publish(written map[table.Key]*table.Item) {
	t.views.Add(1)
	next := &view{Snapshot: t.db.NewSnapshot(), closed: t.views.Done}
	next.users.Store(1)
	t.seen.Lock()
	t.cache.replace(written)
	old := t.view
	t.view = next
	t.seen.Unlock()
	if old != nil {
		_ = old.release()
	}
}

// newest returns the newest view. The caller holds seen, and must release the view.
func (t *Table) newest() *view {
	t.view.users.Add(1)
	return t.view
}

// whenOpen returns the newest view, which the caller must release. It also returns the partitions of these keys that
// the cache holds, as they are in that view. The error is errClosed.
func (t *Table) whenOpen(keys ...table.Key) (*view, map[string]*partition, error) {
	t.sendMu.RLock()
	defer t.sendMu.RUnlock()
	if t.closed {
		return nil, nil, errClosed
	}
	t.seen.RLock()
	defer t.seen.RUnlock()
	parts := make(map[string]*partition, len(keys))
	for _, k := range keys {
		if p := t.cache.get(k.Part); p != nil {
			parts[k.Part] = p
		}
	}
	return t.newest(), parts, nil
}

// partition returns a partition as it is in a view. If parts does not have it, it reads it from the view and adds it to
// parts and to the cache.
func (t *Table) partition(v *view, parts map[string]*partition, name string) *partition {
	p := parts[name]
	if p == nil {
		p = load(v, name)
		parts[name] = p
		t.remember(v, name, p)
	}
	return p
}

// remember adds a partition that was read from a view to the cache, unless there is a newer view.
func (t *Table) remember(v *view, name string, p *partition) {
	t.seen.RLock()
	defer t.seen.RUnlock()
	if t.view == v {
		t.cache.add(name, p)
	}
}

// Get implements [table.Table].
func (t *Table) Get(_ context.Context, keys ...table.Key) ([]*table.Item, error) {
	v, parts, err := t.whenOpen(keys...)
	if err != nil {
		return nil, err
	}
	defer func() { _ = v.release() }()
	found := make([]*table.Item, len(keys))
	for i, k := range keys {
		item, err := t.partition(v, parts, k.Part).read(v, k)
		if err != nil {
			return nil, err
		}
		found[i] = t.live(item)
	}
	return found, nil
}

func read(r pebble.Reader, k table.Key) (*table.Item, error) {
	var buf [128]byte
	stored, closer, err := r.Get(appendItemKey(buf[:0], k))
	if errors.Is(err, pebble.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("disktable: read %s: %w", k, err)
	}
	defer func() { _ = closer.Close() }()
	return decodeItem(k, stored)
}

// live returns the item, or nil if there is none or it has expired.
func (t *Table) live(i *table.Item) *table.Item {
	if i != nil && !i.Expires.IsZero() && !i.Expires.After(t.now()) {
		return nil
	}
	return i
}

// Query implements [table.Table].
func (t *Table) Query(_ context.Context, r table.Range) ([]*table.Item, error) {
	v, parts, err := t.whenOpen(table.Key{Part: r.Part})
	if err != nil {
		return nil, err
	}
	defer func() { _ = v.release() }()
	if p := t.partition(v, parts, r.Part); !p.large {
		return p.query(r, t.live), nil
	}
	prefix := appendItemKey(nil, table.Key{Part: r.Part})
	var found []*table.Item
	err = scan(v, prefix, r, func(key, value []byte) (bool, error) {
		k, ok := splitItemKey(key)
		if !ok {
			return false, errCorrupt
		}
		item, err := decodeItem(k, value)
		if err != nil {
			return false, err
		}
		if t.live(item) != nil {
			found = append(found, item)
		}
		return len(found) < r.Limit, nil
	})
	return found, err
}

// List implements [table.Table]. The index never lags.
func (t *Table) List(_ context.Context, index table.Index, r table.Range) ([]table.Entry, error) {
	prefix := append(appendNames([]byte{listPrefix}, string(index), r.Part), 0)
	v, _, err := t.whenOpen()
	if err != nil {
		return nil, err
	}
	defer func() { _ = v.release() }()
	var found []table.Entry
	err = scan(v, prefix, r, func(key, _ []byte) (bool, error) {
		e, ok := splitEntry(key[len(prefix):])
		if !ok {
			return false, errCorrupt
		}
		found = append(found, e)
		return len(found) < r.Limit, nil
	})
	return found, err
}

// Due implements [table.Table]. The index never lags.
func (t *Table) Due(_ context.Context, shard int, until time.Time, limit int) ([]table.Entry, error) {
	v, _, err := t.whenOpen()
	if err != nil {
		return nil, err
	}
	defer func() { _ = v.release() }()
	var found []table.Entry
	last := binary.BigEndian.AppendUint64(nil, uint64(until.UnixMilli()))
	err = scan(v, []byte{duePrefix, byte(shard)}, table.Range{}, func(key, _ []byte) (bool, error) {
		at := key[2:10]
		if bytes.Compare(at, last) > 0 {
			return false, nil
		}
		k, ok := splitItemKey(key[9:])
		if !ok {
			return false, errCorrupt
		}
		found = append(found, table.Entry{Key: k, At: string(at)})
		return len(found) < limit, nil
	})
	return found, err
}

// scan visits the rows of a view or the engine below prefix that the range selects, in its direction.
func scan(from pebble.Reader, prefix []byte, r table.Range, visit func(key, value []byte) (bool, error)) error {
	low := slices.Concat(prefix, []byte(r.Prefix))
	high := above(low)
	if r.After != "" {
		after := slices.Concat(prefix, []byte(r.After))
		// above the row of After, and above index entries, where a zero byte follows
		if next := slices.Concat(after, []byte{1}); !r.Reverse && bytes.Compare(next, low) > 0 {
			low = next
		} else if r.Reverse && bytes.Compare(after, high) < 0 {
			high = after
		}
	}
	it, err := from.NewIter(&pebble.IterOptions{LowerBound: low, UpperBound: high})
	if err != nil {
		return fmt.Errorf("disktable: %w", err)
	}
	defer func() { _ = it.Close() }()
	step, ok := it.Next, it.First()
	if r.Reverse {
		step, ok = it.Prev, it.Last()
	}
	for ; ok; ok = step() {
		value, err := it.ValueAndErr()
		if err != nil {
			return fmt.Errorf("disktable: %w", err)
		}
		more, err := visit(it.Key(), value)
		if err != nil || !more {
			return err
		}
	}
	return it.Error()
}

// above returns the lowest key that is above all keys with a prefix. The prefix must have a byte below 0xff.
func above(prefix []byte) []byte {
	end := len(prefix)
	for prefix[end-1] == 0xff {
		end--
	}
	high := bytes.Clone(prefix[:end])
	high[end-1]++
	return high
}

// Commit implements [table.Table]. It returns when the operations are on disk. The error is that of [table.Validate], a
// [table.Refused], or a [table.Error]. Its kind is [table.Down] if the store is closed or ctx ended before the write.
// It is [table.Full] if the disk is full, and [table.Unknown] if the write failed.
func (t *Table) Commit(ctx context.Context, _ string, ops ...table.Op) error {
	if err := table.Validate(ops); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return &table.Error{Kind: table.Down, Err: err}
	}
	r := &request{ops: ops, reply: make(chan error, 1)}
	t.sendMu.RLock()
	if t.closed {
		t.sendMu.RUnlock()
		return errClosed
	}
	t.queue <- r
	t.sendMu.RUnlock()
	// The committing goroutine responds to every request; returning early would make a known outcome unknown.
	return <-r.reply
}

func (t *Table) commitLoop() {
	defer t.stopped.Done()
	for first := range t.queue {
		t.commitBatch(t.collect(first))
	}
}

func (t *Table) collect(first *request) []*request {
	batch := append(make([]*request, 0, 16), first)
	for len(batch) < maxBatch {
		select {
		case r, open := <-t.queue:
			if !open {
				return batch
			}
			batch = append(batch, r)
		default:
			return batch
		}
	}
	return batch
}

// commitBatch checks the requests in order, each against the store and the requests accepted before it. It writes the
// accepted ones with one sync.
func (t *Table) commitBatch(requests []*request) {
	b := &batch{table: t, write: t.db.NewBatch(), queued: map[table.Key]*table.Item{}}
	defer func() { _ = b.write.Close() }()
	replies := make([]error, len(requests))
	accepted := 0
	for i, r := range requests {
		replies[i] = b.add(r.ops)
		if replies[i] == nil {
			accepted++
		}
	}
	if accepted > 0 {
		if err := t.write(b); err != nil {
			t.log.Error("the store could not write", "error", err)
			for i := range replies {
				if replies[i] == nil {
					replies[i] = err
				}
			}
		} else {
			t.publish(b.queued)
			t.flush(b.dead)
		}
	}
	for i, r := range requests {
		r.reply <- replies[i]
	}
}

// write writes a batch. The error is a [table.Error].
func (t *Table) write(b *batch) error {
	if t.free != nil && t.free() < minFree {
		return &table.Error{Kind: table.Full}
	}
	if err := b.purge(); err != nil {
		t.log.Error("the store could not remove what has expired", "error", err)
	}
	if err := b.write.Commit(pebble.Sync); err != nil {
		return &table.Error{Kind: table.Unknown, Err: err}
	}
	return nil
}

// flush makes the engine drop dead rows, when there are many and the last flush was a while ago.
func (t *Table) flush(dead int) {
	t.dead += dead
	now := t.now()
	if t.dead < maxDead || now.Sub(t.flushAt).Abs() < flushPause {
		return
	}
	if t.flushed != nil {
		select {
		case <-t.flushed:
		default:
			return
		}
	}
	flushed, err := t.db.AsyncFlush()
	if err != nil {
		t.log.Error("the store could not flush", "error", err)
		return
	}
	t.dead, t.flushAt, t.flushed = 0, now, flushed
}

// quiet logs the engine's errors and drops its other messages.
type quiet struct{ log *slog.Logger }

func (quiet) Infof(string, ...any) {}
func (q quiet) Errorf(format string, args ...any) {
	q.log.Error("store: " + fmt.Sprintf(format, args...))
}

// Fatalf ends the process. A write may have been applied that was not published, and that the cache does not have.
func (q quiet) Fatalf(format string, args ...any) { panic("store: " + fmt.Sprintf(format, args...)) }
