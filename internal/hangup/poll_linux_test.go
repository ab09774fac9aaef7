package hangup

import (
	"net"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const patience = 20 * time.Second

// watching has f called with a watcher.
func watching(t *testing.T, f func(w Watcher)) {
	t.Helper()
	w, err := New()
	require.NoError(t, err)
	defer w.Close()
	f(w)
}

// pair is a connection over TCP, and its other side.
func pair(t *testing.T) (here, there *net.TCPConn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { _ = l.Close() }()
	c, other, err := connect(l)
	require.NoError(t, err)
	t.Cleanup(func() { _, _ = c.Close(), other.Close() })
	return c.(*net.TCPConn), other.(*net.TCPConn)
}

// connect makes a connection to a listener that nobody else connects to.
func connect(l net.Listener) (here, there net.Conn, err error) {
	if there, err = net.Dial(l.Addr().Network(), l.Addr().String()); err != nil {
		return nil, nil, err
	}
	here, err = l.Accept()
	return here, there, err
}

// told is what a watcher has told.
type told chan struct{}

func (c told) tell() { c <- struct{}{} }

func (c told) wait(t *testing.T) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(patience):
		require.FailNow(t, "nothing was told")
	}
}

func TestAnEndIsToldOnce(t *testing.T) {
	for name, end := range map[string]func(c *net.TCPConn) error{
		"closed":                  (*net.TCPConn).Close,
		"closed in one direction": (*net.TCPConn).CloseWrite,
		"reset": func(c *net.TCPConn) error {
			_ = c.SetLinger(0)
			return c.Close()
		},
		"after some words": func(c *net.TCPConn) error {
			_, _ = c.Write([]byte("is anybody there?"))
			return c.Close()
		},
	} {
		t.Run(name, func(t *testing.T) {
			watching(t, func(w Watcher) {
				here, there := pair(t)
				gone := make(told, 2)
				stop, err := w.Watch(here, gone.tell)
				require.NoError(t, err)
				require.NoError(t, end(there))
				gone.wait(t)
				stop()
				w.Close()
				assert.Empty(t, gone)
			})
		})
	}
}

// An end before anybody watched is told as well.
func TestAnEndOfBeforeIsTold(t *testing.T) {
	watching(t, func(w Watcher) {
		here, there := pair(t)
		require.NoError(t, there.Close())
		gone := make(told, 1)
		stop, err := w.Watch(here, gone.tell)
		require.NoError(t, err)
		gone.wait(t)
		stop()
	})
}

// Who says something stays, and what is written to it arrives; who says too much is gone.
func TestWhoTalksStaysForAWhile(t *testing.T) {
	watching(t, func(w Watcher) {
		here, there := pair(t)
		gone := make(told, 1)
		stop, err := w.Watch(here, gone.tell)
		require.NoError(t, err)
		defer stop()
		other, end := pair(t)
		later := make(told, 1)
		stopOther, err := w.Watch(other, later.tell)
		require.NoError(t, err)
		defer stopOther()
		_, err = there.Write(make([]byte, maxSent/2))
		require.NoError(t, err)
		require.NoError(t, end.Close())
		later.wait(t)
		assert.Empty(t, gone)
		_, err = here.Write([]byte("yes"))
		require.NoError(t, err)
		var b [3]byte
		_, err = there.Read(b[:])
		require.NoError(t, err)
		assert.Equal(t, "yes", string(b[:]))
		_, _ = there.Write(make([]byte, maxSent))
		gone.wait(t)
	})
}

// After stop nothing is told, and the connection is read from again.
func TestAStopEndsIt(t *testing.T) {
	watching(t, func(w Watcher) {
		here, there := pair(t)
		gone := make(told, 1)
		stop, err := w.Watch(here, gone.tell)
		require.NoError(t, err)
		stop()
		_, err = there.Write([]byte("now"))
		require.NoError(t, err)
		var b [3]byte
		_, err = here.Read(b[:])
		require.NoError(t, err)
		assert.Equal(t, "now", string(b[:]))
		require.NoError(t, there.Close())
		w.Close()
		assert.Empty(t, gone)
		_, err = w.Watch(here, gone.tell)
		assert.ErrorIs(t, err, ErrClosed)
	})
}

// Of many that come and go, on descriptors that are used again, each is told of its own end and of no other's. They are
// no connections of TCP, which keep their ports for a minute.
func TestManyComeAndGo(t *testing.T) {
	watching(t, func(w Watcher) {
		var wg sync.WaitGroup
		var ends, stops atomic.Int64
		for n := range 8 {
			l, err := net.Listen("unix", filepath.Join(t.TempDir(), strconv.Itoa(n)))
			require.NoError(t, err)
			defer func() { _ = l.Close() }() //nolint:revive // at the end of the test
			wg.Go(func() {
				for i := range 50 {
					here, there, err := connect(l)
					if !assert.NoError(t, err) {
						return
					}
					gone := make(told, 1)
					stop, err := w.Watch(here, gone.tell)
					if !assert.NoError(t, err) {
						return
					}
					if i%2 == 0 {
						_ = there.Close()
						gone.wait(t)
						ends.Add(1)
					} else {
						stops.Add(1)
					}
					stop()
					_, _ = here.Close(), there.Close()
					assert.Empty(t, gone)
				}
			})
		}
		wg.Wait()
		assert.EqualValues(t, 200, ends.Load())
		assert.EqualValues(t, 200, stops.Load())
	})
}
