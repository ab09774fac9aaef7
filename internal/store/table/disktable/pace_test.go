package disktable

import (
	"errors"
	"log/slog"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// slowDisk takes a millisecond for each write, and returns the purposes of the files that were made.
type slowDisk struct {
	vfs.FS

	mu     sync.Mutex
	writes map[vfs.DiskWriteCategory]int
}

func (d *slowDisk) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := d.FS.Create(name, category)
	return &slowFile{f, d, category}, err
}

type slowFile struct {
	vfs.File
	disk     *slowDisk
	category vfs.DiskWriteCategory
}

func (f *slowFile) Write(b []byte) (int, error) {
	time.Sleep(time.Millisecond)
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	f.disk.writes[f.category] += len(b)
	return f.File.Write(b)
}

func newSlowDisk() *slowDisk {
	return &slowDisk{FS: vfs.NewMem(), writes: map[vfs.DiskWriteCategory]int{}}
}

func TestBackgroundWritesLeaveTimeToOthers(t *testing.T) {
	const pieces = 10
	below := pebble.LevelInfo{Level: 6}
	flush := func(memtables, more int) func(*pebble.EventListener) {
		return func(l *pebble.EventListener) {
			l.WALCreated(pebble.WALCreateInfo{})
			l.FlushBegin(pebble.FlushInfo{Input: memtables})
			for range more {
				l.WALCreated(pebble.WALCreateInfo{})
			}
		}
	}
	flushed := func(files int) func(*pebble.EventListener) {
		return func(l *pebble.EventListener) {
			l.FlushEnd(pebble.FlushInfo{})
			l.CompactionBegin(pebble.CompactionInfo{Input: []pebble.LevelInfo{{Level: 0}, {Level: 6}}, Output: below})
			for range files {
				l.FlushEnd(pebble.FlushInfo{})
				l.FlushEnd(pebble.FlushInfo{Err: errors.New("the disk is full")})
			}
			l.CompactionBegin(pebble.CompactionInfo{Input: []pebble.LevelInfo{{Level: 5}}, Output: below})
			l.CompactionBegin(pebble.CompactionInfo{Input: []pebble.LevelInfo{{Level: 0}}}) // within level 0
		}
	}
	for name, c := range map[string]struct {
		category vfs.DiskWriteCategory
		before   func(*pebble.EventListener)
		takes    time.Duration
	}{
		"a flush":                             {forFlush, flush(1, 0), 4 * pieces * time.Millisecond},
		"a flush that is late":                {forFlush, flush(2, 0), pieces * time.Millisecond},
		"a flush that becomes late":           {forFlush, flush(1, 1), pieces * time.Millisecond},
		"a compaction":                        {forCompaction, flushed(0), 4 * pieces * time.Millisecond},
		"a compaction that is half late":      {forCompaction, flushed(compactedFiles / 2), 25 * time.Millisecond},
		"a compaction that is late":           {forCompaction, flushed(compactedFiles), pieces * time.Millisecond},
		"a compaction that is more than late": {forCompaction, flushed(9 * compactedFiles), pieces * time.Millisecond},
		"what is no background work":          {vfs.WriteCategoryUnspecified, flush(1, 0), pieces * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				disk := newSlowDisk()
				p := &paced{FS: disk, closing: make(chan struct{})}
				p.opened.Store(true)
				l := &pebble.EventListener{}
				p.listen(l)
				c.before(l)
				f, err := p.Create("file", c.category)
				require.NoError(t, err)
				began := time.Now()
				for range pieces {
					n, err := f.Write(make([]byte, pieceBytes))
					require.NoError(t, err)
					assert.Equal(t, pieceBytes, n)
				}
				assert.Equal(t, c.takes, time.Since(began))
				assert.Equal(t, pieces*pieceBytes, disk.writes[c.category])
			})
		})
	}
}

func TestAPauseOfBackgroundWritesIsShortAndEndsWithTheTable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		closing := make(chan struct{})
		p := &paced{FS: vfs.NewMem(), closing: closing}
		p.opened.Store(true)
		f, err := p.Create("file", forCompaction)
		require.NoError(t, err)
		write := func() time.Duration {
			began := time.Now()
			_, err := f.Write(make([]byte, pieceBytes))
			require.NoError(t, err)
			return time.Since(began)
		}
		time.Sleep(time.Hour)
		assert.Equal(t, maxPause, write())

		time.AfterFunc(time.Hour+time.Millisecond, func() { close(closing) })
		time.Sleep(time.Hour)
		assert.Equal(t, time.Millisecond, write(), "the pause under way")
		time.Sleep(time.Hour)
		assert.Zero(t, write(), "further ones")
	})
}

// The names of the purposes of files are the engine's, which may change them.
func TestTheEngineNamesTheFilesOfTheBackground(t *testing.T) {
	disk := newSlowDisk()
	tab, err := Open("", Options{FS: disk})
	require.NoError(t, err)
	defer func() { require.NoError(t, tab.Close()) }()
	for n := range byte(4) {
		require.NoError(t, tab.db.Set([]byte{'x', n}, make([]byte, 1000), pebble.Sync))
		require.NoError(t, tab.db.Set([]byte{'x', n + 1}, make([]byte, 1000), pebble.Sync))
		require.NoError(t, tab.db.Flush())
	}
	require.NoError(t, tab.db.Compact(t.Context(), []byte{'x'}, []byte{'y'}, false))
	disk.mu.Lock()
	defer disk.mu.Unlock()
	assert.Positive(t, disk.writes[forFlush])
	assert.Positive(t, disk.writes[forCompaction])
	assert.Positive(t, disk.writes["pebble-wal"], "what commits wait for, under a name of its own")
}

func TestTheEngineReportsItsWaitingWork(t *testing.T) {
	p := &paced{FS: vfs.NewMem(), closing: make(chan struct{})}
	l := &pebble.EventListener{}
	p.listen(l)
	db, err := pebble.Open("", &pebble.Options{
		FS: p, EventListener: l, Logger: quiet{slog.New(slog.DiscardHandler)}, DisableAutomaticCompactions: true,
	})
	require.NoError(t, err)
	defer func() { require.NoError(t, db.Close()) }()
	p.flushes.Store(0)
	for n := range byte(2) {
		require.NoError(t, db.Set([]byte{'x', n}, make([]byte, 1000), pebble.Sync))
		require.NoError(t, db.Set([]byte{'x', n + 1}, make([]byte, 1000), pebble.Sync))
		require.NoError(t, db.Flush())
	}
	assert.EqualValues(t, 2, p.flushes.Load())
	assert.False(t, p.flushing.Load())
	assert.False(t, p.late.Load())
	require.NoError(t, db.Compact(t.Context(), []byte{'x'}, []byte{'y'}, false))
	assert.Zero(t, p.flushes.Load())
}

func TestTheOpeningOfAStoreIsNotPaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := newSlowDisk()
		p := &paced{FS: disk, closing: make(chan struct{})}
		f, err := p.Create("file", forFlush)
		require.NoError(t, err)
		began := time.Now()
		_, err = f.Write(make([]byte, pieceBytes))
		require.NoError(t, err)
		assert.Equal(t, time.Millisecond, time.Since(began))
	})
}

func TestAnErrorOfTheDiskIsReturned(t *testing.T) {
	p := &paced{FS: vfs.NewMem(), closing: make(chan struct{})}
	p.opened.Store(true)
	f, err := p.Create("file", forFlush)
	require.NoError(t, err)
	require.NoError(t, f.Close())
	f.(*pacedFile).File = full{}
	n, err := f.Write(make([]byte, pieceBytes))
	assert.ErrorIs(t, err, syscall.ENOSPC)
	assert.Equal(t, 10, n)
}

// full is a file on a disk that has room for ten bytes.
type full struct{ vfs.File }

func (full) Write([]byte) (int, error) { return 10, syscall.ENOSPC }
