package disktable

import (
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// paced is a file system on which the engine's flushes and compactions are spread over time. Each would take a core to
// itself for as long as it lasts, and commits would wait meanwhile. So it pauses after each piece that it has written,
// for a multiple of the time of that piece. (The rate limiter of RocksDB has the same purpose. It counts bytes a
// second, so it needs a figure of the disk.)
//
// There are no pauses when a flush or a compaction is late, so that writers do not have to wait for one. There are none
// while the store is opened, when nothing else runs.
type paced struct {
	vfs.FS

	closing <-chan struct{} // when it is closed, pauses end, and no further ones begin
	opened  atomic.Bool

	flushes  atomic.Int32 // since level 0 was last begun to be compacted
	flushing atomic.Bool
	late     atomic.Bool // more than one memtable is full
}

const (
	pieceBytes = 64 << 10
	pauseTimes = 3                     // so often the time that a piece took
	maxPause   = 20 * time.Millisecond // however long that was: it may have waited for the disk or for the processor
)

// The reasons for which the engine writes files, by its own names.
const (
	forFlush      vfs.DiskWriteCategory = "pebble-memtable-flush"
	forCompaction vfs.DiskWriteCategory = "pebble-compaction"
)

// listen makes the events of l keep p informed of how much work is waiting.
func (p *paced) listen(l *pebble.EventListener) {
	l.WALCreated = func(pebble.WALCreateInfo) { // each memtable has its own
		if p.flushing.Load() {
			p.late.Store(true)
		}
	}
	l.FlushBegin = func(i pebble.FlushInfo) {
		p.flushing.Store(true)
		p.late.Store(i.Input > 1)
	}
	l.FlushEnd = func(i pebble.FlushInfo) {
		p.flushing.Store(false)
		if i.Err == nil {
			p.flushes.Add(1)
		}
	}
	l.CompactionBegin = func(i pebble.CompactionInfo) {
		if len(i.Input) > 0 && i.Input[0].Level == 0 && i.Output.Level != 0 {
			p.flushes.Store(0)
		}
	}
}

// Create implements [vfs.FS].
func (p *paced) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := p.FS.Create(name, category)
	if err != nil || category != forFlush && category != forCompaction {
		return f, err
	}
	return &pacedFile{File: f, fs: p, flush: category == forFlush, began: time.Now()}, nil
}

type pacedFile struct {
	vfs.File

	fs      *paced
	flush   bool
	began   time.Time // the piece
	written int       // of it
}

// Write implements [vfs.File].
func (f *pacedFile) Write(b []byte) (int, error) {
	n, err := f.File.Write(b)
	f.written += n
	if err != nil || f.written < pieceBytes {
		return n, err
	}
	pause := min(maxPause, time.Duration(pauseTimes*f.ease()*float64(time.Since(f.began))))
	if pause > 0 && f.fs.opened.Load() {
		timer := time.NewTimer(pause)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-f.fs.closing:
		}
	}
	f.began, f.written = time.Now(), 0
	return n, nil
}

// ease is 1 if there is time, and 0 if there is none. There is none for a flush when another memtable waits behind it.
// There is none for a compaction when the next one of level 0 is due before this one has ended.
func (f *pacedFile) ease() float64 {
	switch {
	case !f.flush:
		return max(0, 1-float64(f.fs.flushes.Load())/compactedFiles)
	case f.fs.late.Load():
		return 0
	default:
		return 1
	}
}
