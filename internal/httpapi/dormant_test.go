package httpapi_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/hangup"
	"agentplatform/internal/httpapi"
	"agentplatform/internal/httpapi/httpapitest"
	"agentplatform/internal/record"
	"agentplatform/internal/tenant"
)

// talk is a stream that says what a test has it say.
type talk struct {
	out *httpapi.Sink

	mu     sync.Mutex
	say    []string
	ended  bool
	fails  error
	panics string // where there is a bug
	ring   func()
	rung   chan struct{}
	due    time.Duration
	steps  int
	before func() // is called once, at the begin of a step
	late   func() // the same, when it is about to sleep
	closed chan struct{}
}

func newTalk() *talk {
	return &talk{rung: make(chan struct{}, 1), due: time.Hour, closed: make(chan struct{})}
}

// then changes what it does next, and wakes it.
func (k *talk) then(change func()) {
	k.mu.Lock()
	defer k.mu.Unlock()
	change()
	select {
	case k.rung <- struct{}{}:
	default:
	}
	if k.ring != nil {
		k.ring()
	}
}

func (k *talk) Step(ctx context.Context) (ended bool, err error) {
	if ctx.Err() != nil {
		return false, ctx.Err()
	}
	k.mu.Lock()
	before := k.before
	k.before = nil
	k.mu.Unlock()
	if before != nil {
		before()
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.steps++
	if k.panics == "step" {
		panic("a bug")
	}
	for _, line := range k.say {
		if err := k.out.Line(line); err != nil {
			return false, err
		}
	}
	k.say = nil
	return k.ended, k.fails
}

func (k *talk) Wait(ctx context.Context, most time.Duration) (due bool, err error) {
	d := k.Due()
	select {
	case <-k.rung:
		return true, nil
	case <-time.After(min(most, d)):
		return d <= most, nil
	case <-ctx.Done():
		return false, ctx.Err()
	}
}

func (k *talk) Sleep(wake func()) (awake func(bool)) {
	k.mu.Lock()
	if k.panics == "sleep" {
		k.mu.Unlock()
		panic("a bug")
	}
	late := k.late
	k.late = nil
	k.mu.Unlock()
	if late != nil {
		late()
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.ring = wake; len(k.rung) > 0 {
		wake()
	}
	return func(bool) {
		k.mu.Lock()
		defer k.mu.Unlock()
		k.ring = nil
		select {
		case <-k.rung:
		default:
		}
	}
}

// atStep is how many steps it has taken.
func (k *talk) atStep() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.steps
}

func (k *talk) Due() time.Duration {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.due
}

func (k *talk) Close() {
	close(k.closed)
	if k.panics == "close" {
		panic("a bug")
	}
}

// talking is a server of one stream, and its listener.
func talking(t *testing.T, k *talk, stall time.Duration) (httpapitest.API, *httptest.Server) {
	t.Helper()
	e := small(t, func(c *httpapi.Config) { c.KeyStreams, c.Stall = 1, stall }, func(s *httpapi.Server) {
		h := func(w http.ResponseWriter, r *http.Request, c *httpapi.Call) error {
			c.Run = "0123456789abcdef01234567"
			return s.Stream(r.Context(), w, c, httpapi.Stream{
				ContentType: "application/x-ndjson", Agent: "a", Bounded: r.URL.RawQuery == "bounded",
				Open: func(_ context.Context, out *httpapi.Sink) httpapi.Steps {
					k.out = out
					return k
				},
				Farewell: func(out *httpapi.Sink) { _ = out.Line("farewell") },
			})
		}
		s.Handle("GET", "/stream", tenant.LevelRead, h)
		s.Handle("POST", "/stream", tenant.LevelRead, h)
	})
	return e, served(t, e)
}

// asleep opens the stream, and waits until it is dormant and has said "hello".
func asleep(t *testing.T, k *talk) (httpapitest.API, *http.Response) {
	t.Helper()
	return asleepFor(t, k, patience)
}

// asleepFor is asleep on a server whose clients may stall for a while.
func asleepFor(t *testing.T, k *talk, stall time.Duration) (httpapitest.API, *http.Response) {
	t.Helper()
	e, s := talking(t, k, stall)
	k.say = []string{"hello"}
	r, err := http.NewRequest(http.MethodGet, s.URL+httpapi.Base+"/stream", nil)
	require.NoError(t, err)
	r.Header.Set("Authorization", "Bearer "+e.Key)
	w, err := s.Client().Do(r)
	require.NoError(t, err)
	t.Cleanup(func() { _ = w.Body.Close() })
	require.Equal(t, http.StatusOK, w.StatusCode)
	assert.True(t, w.Close, "the connection is of no further use")
	hear(t, w.Body, "hello")
	require.Eventually(t, func() bool { return e.Dormant() == 1 }, patience, time.Millisecond)
	return e, w
}

// hear reads a line.
func hear(t *testing.T, from io.Reader, line string) {
	t.Helper()
	b := make([]byte, len(line)+3)
	_, err := io.ReadFull(from, b)
	require.NoError(t, err)
	assert.Equal(t, `"`+line+"\"\n", string(b))
}

// over waits until a stream has given back all that it had.
func over(t *testing.T, e httpapitest.API, k *talk) {
	t.Helper()
	ended(t, k)
	require.Eventually(t, func() bool { return e.OpenStreams() == 0 }, patience, time.Millisecond)
	assert.Zero(t, e.Kept())
}

// another opens the one stream again that the key may have.
func another(t *testing.T, e httpapitest.API, k *talk) {
	t.Helper()
	k.closed, k.ended = make(chan struct{}), true
	w := get(e, "/stream")
	assert.Equal(t, http.StatusOK, w.Code, w.Body)
}

// A dormant stream says what there is to say, in time and in order, and ends as others do.
func TestADormantStreamGoesOn(t *testing.T) {
	k := newTalk()
	e, w := asleep(t, k)
	for _, word := range []string{"one", "two"} {
		k.then(func() { k.say = append(k.say, word) })
		hear(t, w.Body, word)
	}
	require.Eventually(t, func() bool { return e.Dormant() == 1 }, patience, time.Millisecond, "it sleeps again")
	k.then(func() { k.say = append(k.say, strings.Repeat("x", 3<<20)) })
	hear(t, w.Body, strings.Repeat("x", 3<<20))
	k.then(func() { k.say, k.ended = []string{"bye"}, true })
	rest, err := io.ReadAll(w.Body)
	require.NoError(t, err, "its end is told from a connection that broke")
	assert.Equal(t, "\"bye\"\n", string(rest))
	another(t, e, k) // at once: who has seen the end of a stream has its place back
	over(t, e, k)
	assert.Empty(t, e.Written.String())
}

// What comes just when a stream is about to sleep is said at once.
func TestNewsAtTheLastMomentIsNotSleptThrough(t *testing.T) {
	k := newTalk()
	_, w := asleep(t, k)
	k.then(func() {
		k.say = []string{"one"}
		k.late = func() { k.then(func() { k.say = []string{"two"} }) }
	})
	hear(t, w.Body, "one")
	began := time.Now()
	hear(t, w.Body, "two")
	assert.Less(t, time.Since(began), 15*time.Second, "after 20 s its right is due, which wakes it, too")
}

// lookout counts the connections that are watched.
type lookout struct {
	hangup.Watcher
	n atomic.Int64
}

func (c *lookout) Watch(conn net.Conn, gone func()) (stop func(), err error) {
	inner, err := c.Watcher.Watch(conn, gone)
	c.n.Add(1)
	return func() { c.n.Add(-1); inner() }, err
}

// Without news its time wakes it.
func TestADormantStreamIsWokenByTime(t *testing.T) {
	k := newTalk()
	k.due = 400 * time.Millisecond // longer than the lull after which it goes to sleep
	e, _ := asleep(t, k)
	require.Eventually(t, func() bool { return k.atStep() >= 4 }, patience, time.Millisecond)
	e.Stop()
	over(t, e, k)
}

// ended waits for the end of a stream whose server has stopped.
func ended(t *testing.T, k *talk) {
	t.Helper()
	select {
	case <-k.closed:
	case <-time.After(patience):
		require.FailNow(t, "the stream does not end")
	}
}

func TestADormantStreamEndsWithItsClient(t *testing.T) {
	k := newTalk()
	e, w := asleep(t, k)
	require.NoError(t, w.Body.Close())
	over(t, e, k)
	another(t, e, k)
	assert.Empty(t, e.Written.String())
}

// A change of rights is looked for at once, and so is the end of a key; what has been said meanwhile is not shown.
func TestADormantStreamEndsWithItsRight(t *testing.T) {
	for name, c := range map[string]struct {
		by     func(p tenant.Principal) tenant.Principal // who has changed rights
		inStep bool                                      // just while something is said
	}{
		"by its organization":   {by: func(p tenant.Principal) tenant.Principal { return p }},
		"by an operator":        {by: func(tenant.Principal) tenant.Principal { return tenant.Platform() }},
		"while it is at a step": {by: func(p tenant.Principal) tenant.Principal { return p }, inStep: true},
	} {
		t.Run(name, func(t *testing.T) {
			k := newTalk()
			e, w := asleep(t, k)
			p, err := e.Tenants.Authenticate(t.Context(), e.Key)
			require.NoError(t, err)
			began := time.Now()
			revoke := func() {
				err := e.Tenants.RevokeKey(t.Context(), tenant.Platform(), record.System(), p.Key)
				assert.NoError(t, err)
				e.Tenants.Change(c.by(p))
			}
			if c.inStep {
				k.then(func() { k.before, k.say = revoke, []string{"a secret"} })
			} else {
				k.mu.Lock()
				k.say = []string{"a secret"}
				k.mu.Unlock()
				revoke()
			}
			rest, err := io.ReadAll(w.Body)
			require.NoError(t, err)
			assert.Empty(t, rest)
			over(t, e, k)
			assert.Less(t, time.Since(began), 15*time.Second, "after 20 s its right is due without a change, too")
			assert.Empty(t, e.Written.String())
		})
	}
}

// Without a change the right is looked for when it is due, whatever the stream is due for.
func TestADormantStreamEndsWhenItsKeyExpires(t *testing.T) {
	k := newTalk()
	e, w := asleep(t, k)
	p, err := e.Tenants.Authenticate(t.Context(), e.Key)
	require.NoError(t, err)
	soon := time.Now().Add(time.Second)
	at := &soon
	_, err = e.Tenants.EditKey(t.Context(), tenant.Platform(), record.System(), p.Key, 0, nil, &at, nil)
	require.NoError(t, err)
	began := time.Now()
	e.Tenants.Change(p)
	_, err = io.ReadAll(w.Body)
	require.NoError(t, err)
	over(t, e, k)
	assert.Less(t, time.Since(began), 15*time.Second, "after 20 s it is due anyway")
}

func TestAStopEndsDormantStreams(t *testing.T) {
	k := newTalk()
	e, w := asleep(t, k)
	e.Stop()
	ended(t, k)
	rest, err := io.ReadAll(w.Body)
	require.NoError(t, err)
	assert.Equal(t, "\"farewell\"\n", string(rest))
	assert.Zero(t, e.OpenStreams())
}

// What a stream fails of is in the log, and so is a bug, wherever it is; a stream that is not whole does not look so.
// All is given back.
func TestADormantStreamFails(t *testing.T) {
	for name, c := range map[string]struct {
		then   func(k *talk)
		whole  bool
		logged string
	}{
		"an error":         {func(k *talk) { k.fails = errors.New("no such luck") }, true, "no such luck"},
		"a panic":          {func(k *talk) { k.panics = "step" }, false, `panic="a bug"`},
		"a panic in sleep": {func(k *talk) { k.panics = "sleep" }, false, `panic="a bug"`},
		"a panic in close": {func(k *talk) { k.panics, k.ended = "close", true }, true, `panic="a bug"`},
	} {
		t.Run(name, func(t *testing.T) {
			k := newTalk()
			e, w := asleep(t, k)
			k.then(func() { c.then(k) })
			rest, err := io.ReadAll(w.Body)
			assert.Equal(t, c.whole, err == nil)
			assert.Empty(t, rest)
			over(t, e, k)
			assert.Contains(t, e.Written.String(), c.logged)
			k.panics, k.fails = "", nil
			another(t, e, k)
		})
	}
}

// stuck has a dormant stream say more than its client, who takes nothing, and the buffers of both sides have room for.
func stuck(t *testing.T, k *talk, e httpapitest.API) {
	t.Helper()
	at := make(chan struct{})
	k.then(func() { k.before, k.say = func() { close(at) }, []string{strings.Repeat("x", 32<<20)} })
	<-at
	assert.EqualValues(t, 1, e.OpenStreams())
	require.Never(t, func() bool { return e.Dormant() > 0 }, time.Second, 10*time.Millisecond, "it is at work")
}

// A client that takes nothing holds up no stop.
func TestAStopWaitsForNoClientOfADormantStream(t *testing.T) {
	k := newTalk()
	e, _ := asleep(t, k)
	stuck(t, k, e)
	began := time.Now()
	e.Stop()
	over(t, e, k)
	assert.Less(t, time.Since(began), patience/2, "not as long as an answer may stall")
}

// A client that takes nothing is cut off, as from every answer.
func TestADormantStreamWaitsForItsClientAWhile(t *testing.T) {
	k := newTalk()
	e, _ := asleepFor(t, k, 3*time.Second)
	stuck(t, k, e)
	over(t, e, k)
	another(t, e, k)
}

// The end of a dormant stream is counted and noted as that of every answer.
func TestADormantStreamIsNoted(t *testing.T) {
	k := newTalk()
	e, w := asleep(t, k)
	var b bytes.Buffer
	*e.Log = *slog.New(slog.NewJSONHandler(&b, &slog.HandlerOptions{Level: slog.LevelDebug}))
	k.then(func() { k.ended = true })
	_, err := io.ReadAll(w.Body)
	require.NoError(t, err)
	over(t, e, k)
	var line struct {
		Route  string `json:"route"`
		Status int    `json:"status"`
		MS     int    `json:"ms"`
		OwnMS  int    `json:"own_ms"`
		Run    string `json:"run_id"`
	}
	require.NoError(t, json.Unmarshal(b.Bytes(), &line), b.String())
	assert.Equal(t, "/api/v1/stream", line.Route)
	assert.Equal(t, http.StatusOK, line.Status)
	assert.Equal(t, "0123456789abcdef01234567", line.Run)
	assert.GreaterOrEqual(t, line.MS, 100, "until its end, so that the time in which it left is in it")
	assert.Less(t, line.OwnMS, line.MS)
}

// What cannot leave its connection behind stays as it is: another method, an old version, a body that nobody reads, and
// what must end in time.
func TestWhatDoesNotGoDormant(t *testing.T) {
	const key = "Host: h\r\nAuthorization: Bearer KEY\r\n"
	for name, head := range map[string]string{
		"a body":      "GET /api/v1/stream HTTP/1.1\r\n" + key + "Content-Length: 1\r\n\r\nx",
		"HTTP/1.0":    "GET /api/v1/stream HTTP/1.0\r\n" + key + "\r\n",
		"bounded":     "GET /api/v1/stream?bounded HTTP/1.1\r\n" + key + "\r\n",
		"only a head": "HEAD /api/v1/stream HTTP/1.1\r\n" + key + "\r\n",
		"POST":        "POST /api/v1/stream HTTP/1.1\r\n" + key + "Content-Length: 0\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := newTalk()
			k.due = time.Second // longer than a lull
			e, s := talking(t, k, patience)
			c := say(t, s, strings.ReplaceAll(head, "KEY", e.Key))
			require.Eventually(t, func() bool { return k.atStep() > 2 }, patience, time.Millisecond)
			assert.Zero(t, e.Dormant())
			assert.EqualValues(t, 1, e.OpenStreams())
			_ = c.Close()
			ended(t, k)
		})
	}
}

// Without a connection of its own an answer goes on where it is.
func TestAStreamWithoutAConnectionStays(t *testing.T) {
	k := newTalk()
	k.due = 300 * time.Millisecond
	e, _ := talking(t, k, patience)
	said := make(chan string)
	go func() { said <- get(e, "/stream").Body.String() }()
	require.Eventually(t, func() bool { return k.atStep() >= 3 }, patience, time.Millisecond)
	k.then(func() { k.say, k.ended = []string{"bye"}, true })
	assert.Equal(t, "\"bye\"\n", <-said)
	ended(t, k)
}

// However news, time, changes of rights and the end of a client come together, a stream ends once, and nothing of it
// stays.
func TestDormantStreamsInDisorder(t *testing.T) {
	var mu sync.Mutex
	var all []*talk
	e := small(t, func(*httpapi.Config) {}, func(s *httpapi.Server) {
		s.Handle("GET", "/stream", tenant.LevelRead,
			func(w http.ResponseWriter, r *http.Request, c *httpapi.Call) error {
				return s.Stream(r.Context(), w, c, httpapi.Stream{
					ContentType: "application/x-ndjson", Agent: "a",
					Open: func(_ context.Context, out *httpapi.Sink) httpapi.Steps {
						k := newTalk()
						k.out, k.due = out, 300*time.Millisecond
						mu.Lock()
						defer mu.Unlock()
						all = append(all, k)
						return k
					},
				})
			})
	})
	s := served(t, e)
	watcher, err := hangup.New()
	require.NoError(t, err)
	watched := &lookout{Watcher: watcher}
	e.WatchBy(watched)
	var connections []net.Conn
	const streams = 40
	for range streams { // one after the other: they stand in both lists in the same order
		connections = append(connections, say(t, s, e.Head("GET", "/api/v1/stream", "")))
		require.Eventually(t, func() bool {
			mu.Lock()
			defer mu.Unlock()
			return len(all) == len(connections)
		}, patience, time.Millisecond)
	}
	require.Eventually(t, func() bool { return e.Dormant() > streams/2 }, patience, time.Millisecond)
	p, err := e.Tenants.Authenticate(t.Context(), e.Key)
	require.NoError(t, err)
	var wg sync.WaitGroup
	mu.Lock()
	for i, k := range all {
		wg.Go(func() {
			for n := range 20 {
				k.then(func() { k.say = append(k.say, "word") })
				if i%4 == 0 && n == 10 {
					_ = connections[i].Close()
				}
				if i%4 == 1 && n == 15 {
					k.then(func() { k.ended = true })
				}
				e.Tenants.Change(p)
			}
		})
	}
	mu.Unlock()
	wg.Wait()
	mu.Lock()
	defer mu.Unlock()
	assert.Len(t, all, streams)
	for i, k := range all {
		if i%4 == 1 {
			ended(t, k)
		}
	}
	require.Eventually(t, func() bool { return e.OpenStreams() == streams/2 }, patience, time.Millisecond,
		"half of them have ended or lost their client")
	require.Eventually(t, func() bool { return watched.n.Load() == streams/2 }, patience, time.Millisecond)
	e.Stop()
	for _, k := range all {
		ended(t, k)
	}
	assert.Zero(t, e.OpenStreams())
	assert.Zero(t, e.Kept())
	assert.Zero(t, watched.n.Load())
	assert.Empty(t, e.Written.String())
}
