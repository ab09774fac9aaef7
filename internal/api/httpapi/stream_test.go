package httpapi_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/api/httpapi"
	"agentplatform/internal/api/httpapi/httpapitest"
	"agentplatform/internal/core/lifecycle"
	"agentplatform/internal/org/tenant"
	"agentplatform/internal/platform/host"
	"agentplatform/internal/platform/problem"
	"agentplatform/internal/platform/waiting"
	"agentplatform/internal/store/ratelimit"
	"agentplatform/internal/store/record"
	"agentplatform/internal/store/table"
	"agentplatform/internal/store/table/memtable"
)

// small is a server with operations of a test's own, for the tenants of a whole API.
func small(t *testing.T, change func(*httpapi.Config), routes func(*httpapi.Server)) httpapitest.API {
	t.Helper()
	e := httpapitest.New(t)
	c := e.Config
	c.Metrics = nil
	change(&c)
	e.Server = httpapi.New(c, routes)
	return e
}

// streaming is a server whose one operation streams the events of follow.
func streaming(
	t *testing.T, change func(*httpapi.Config), follow func(context.Context, *httpapi.Sink) error,
) httpapitest.API {
	t.Helper()
	return small(t, change, func(s *httpapi.Server) {
		s.Handle(
			"GET",
			"/stream",
			tenant.LevelRead,
			func(w http.ResponseWriter, r *http.Request, c *httpapi.Call) error {
				c.Run = "0123456789abcdef01234567"
				return s.Stream(r.Context(), w, c, httpapi.Stream{
					ContentType: "application/x-ndjson", Of: lifecycle.Whose{Agent: "a"}, Bounded: true, Follow: follow,
					Final: func(out *httpapi.Sink) { _ = out.Line("final") },
				})
			},
		)
	})
}

func get(e httpapitest.API, path string) *httptest.ResponseRecorder {
	return e.Do(httptest.NewRequest(http.MethodGet, httpapi.Base+path, nil))
}

func until(ctx context.Context, out *httpapi.Sink) error {
	if err := out.Line("begun"); err != nil {
		return err
	}
	<-ctx.Done()
	return ctx.Err()
}

// A stream that is a function's answer ends before the function would be ended, with a final event.
func TestABoundedStreamEndsInTime(t *testing.T) {
	e := streaming(t, func(c *httpapi.Config) { c.MaxStream = time.Second }, until)
	w := get(e, "/stream")
	assert.Equal(t, http.StatusOK, w.Code)
	assert.Equal(t, "\"begun\"\n\"final\"\n", w.Body.String())
	assert.Equal(t, "application/x-ndjson", w.Header().Get("Content-Type"))
	assert.Equal(t, "0123456789abcdef01234567", w.Header().Get("X-Agent-Run-Id"))
}

// A server that stops ends its streams with a final event, and begins none.
func TestAStopEndsStreams(t *testing.T) {
	begun := make(chan struct{})
	e := streaming(t, func(*httpapi.Config) {}, func(ctx context.Context, out *httpapi.Sink) error {
		close(begun)
		return until(ctx, out)
	})
	ended := make(chan string)
	go func() { ended <- get(e, "/stream").Body.String() }()
	<-begun
	assert.EqualValues(t, 1, e.OpenStreams())
	e.Stop()
	assert.Equal(t, "\"begun\"\n\"final\"\n", <-ended)
	assert.Zero(t, e.OpenStreams())
	assert.Equal(t, "\"final\"\n", get(e, "/stream").Body.String())
}

func TestWhatIsWrittenToAStream(t *testing.T) {
	e := streaming(t, func(*httpapi.Config) {}, func(_ context.Context, out *httpapi.Sink) error {
		value := map[string]string{"a": "b\n"}
		return errors.Join(
			out.Retry(), out.Heartbeat(), out.Event("init", 7, value), out.Data(value), out.Line(value),
		)
	})
	assert.Equal(t, "retry: 1000\n\n: heartbeat\n\n"+
		"event: init\nid: 7\ndata: {\"a\":\"b\\n\"}\n\ndata: {\"a\":\"b\\n\"}\n\n{\"a\":\"b\\n\"}\n",
		get(e, "/stream").Body.String())
	assert.Empty(t, e.Written.String())
}

// A value that JSON cannot represent breaks the stream off, and the log has the failure.
func TestAStreamThatBreaksOffIsLogged(t *testing.T) {
	e := streaming(t, func(*httpapi.Config) {}, func(_ context.Context, out *httpapi.Sink) error {
		return out.Line(func() {})
	})
	assert.Empty(t, get(e, "/stream").Body.String())
	assert.Contains(t, e.Written.String(), "a stream failed")
}

func TestAStreamOfWhatIsDeletedEndsWithoutAnError(t *testing.T) {
	e := streaming(t, func(*httpapi.Config) {}, func(context.Context, *httpapi.Sink) error {
		return problem.Missing("run 0123456789abcdef01234567")
	})
	assert.Empty(t, get(e, "/stream").Body.String())
	assert.Empty(t, e.Written.String())
}

// No operation writes to a stream once the reader's right has ended.
func TestAStreamWritesNothingAfterItsRightHasEnded(t *testing.T) {
	var e httpapitest.API
	e = small(t, func(*httpapi.Config) {}, func(s *httpapi.Server) {
		stream := func(w http.ResponseWriter, r *http.Request, c *httpapi.Call) error {
			follow := func(ctx context.Context, out *httpapi.Sink) error {
				assert.NoError(t, out.Line("before"))
				tenants := e.Tenants
				if err := tenants.RevokeKey(ctx, tenant.Platform(), record.System(), c.Principal.Key); err != nil {
					return err
				}
				tenants.Change(c.Principal)
				for i, err := range []error{
					out.Line("after"), out.Data("after"), out.Event("after", 1, "after"), out.Heartbeat(), out.Retry(),
				} {
					assert.Error(t, err, "write %d", i)
				}
				return nil
			}
			return s.Stream(r.Context(), w, c, httpapi.Stream{Follow: follow})
		}
		s.Handle("GET", "/stream", tenant.LevelRead, stream)
	})
	assert.Equal(t, "\"before\"\n", get(e, "/stream").Body.String())
}

// With any number of changes at the same time, the change that ends a right is not missed until the next check without
// a change.
func TestNoChangeOfRightsIsMissed(t *testing.T) {
	for range 10 {
		e := small(t, func(*httpapi.Config) {}, func(*httpapi.Server) {})
		p, err := e.Tenants.Authenticate(t.Context(), e.Key)
		require.NoError(t, err)
		began := time.Now()
		var changes sync.WaitGroup
		var last atomic.Bool
		err = e.WhileAllowed(t.Context(), p, lifecycle.Whose{}, func(ctx context.Context) error {
			changes.Go(func() {
				for !last.Load() {
					e.Tenants.Change(p)
				}
			})
			changes.Go(func() {
				assert.NoError(t, e.Tenants.RevokeKey(t.Context(), tenant.Platform(), record.System(), p.Key))
				last.Store(true)
				e.Tenants.Change(p)
			})
			<-ctx.Done()
			return ctx.Err()
		})
		changes.Wait()
		assert.True(t, problem.Is(err, "invalid_api_key"), err)
		assert.Less(t, time.Since(began), 15*time.Second, "after 20 s it is checked anyway")
	}
}

// broken is a table that panics while its member is is true.
type broken struct {
	table.Table
	is *atomic.Bool
}

func (b broken) Get(ctx context.Context, keys ...table.Key) ([]*table.Item, error) {
	if b.is.Load() {
		panic("a bug")
	}
	return b.Table.Get(ctx, keys...)
}

// A panic in the watch of a stream's right ends the stream, and nothing else.
func TestAPanicOfAWatchEndsTheStream(t *testing.T) {
	var is atomic.Bool
	var e httpapitest.API
	e = small(t, func(*httpapi.Config) {}, func(s *httpapi.Server) {
		s.Handle("GET", "/stream", tenant.LevelRead,
			func(w http.ResponseWriter, r *http.Request, c *httpapi.Call) error {
				follow := func(ctx context.Context, _ *httpapi.Sink) error {
					is.Store(true)
					e.Tenants.Change(c.Principal)
					<-ctx.Done()
					return ctx.Err()
				}
				return s.Stream(r.Context(), w, c, httpapi.Stream{Follow: follow})
			})
	})
	e.Items.Table = broken{e.Items.Table, &is}
	assert.Empty(t, get(e, "/stream").Body.String())
	assert.Contains(t, e.Written.String(), `panic="a bug"`)
	assert.Contains(t, e.Written.String(), "tenant.(*Right).Lasts", "the stack is the watch's")
	assert.Zero(t, e.OpenStreams())
}

// processes are two of the same deployment, which share the usage of keys.
func processes(t *testing.T, organization string, change func(*httpapi.Config)) (one, other httpapitest.API) {
	t.Helper()
	e := httpapitest.New(t)
	require.Equal(t, http.StatusOK, e.Send("PATCH", "/organization", organization).Code)
	machine := host.System()
	c := e.Config
	c.Metrics, c.Shared = nil, &ratelimit.Shared{Table: memtable.New(machine.Now), Host: machine}
	change(&c)
	server := func() httpapitest.API {
		e.Server = httpapi.New(c, func(s *httpapi.Server) {
			h := func(w http.ResponseWriter, r *http.Request, c *httpapi.Call) error {
				follow := until
				if r.URL.RawQuery == "glimpse" {
					follow = func(_ context.Context, out *httpapi.Sink) error { return out.Line("begun") }
				}
				stream := httpapi.Stream{ContentType: "text/plain", Of: lifecycle.Whose{Agent: "a"}, Follow: follow}
				return s.Stream(r.Context(), w, c, stream)
			}
			s.Handle("GET", "/x", tenant.LevelRead, h)
		})
		return e
	}
	return server(), server()
}

// glimpse opens a stream that ends immediately, and returns its status.
func glimpse(e httpapitest.API) int { return get(e, "/x?glimpse").Code }

func TestTheRateOfAKeyHoldsOverProcesses(t *testing.T) {
	one, other := processes(t, `{"rate_limit":{"requests_per_minute":1,"burst":2}}`, func(*httpapi.Config) {})
	assert.Equal(t, http.StatusOK, glimpse(one))
	assert.Equal(t, http.StatusOK, glimpse(other))
	assert.Equal(t, http.StatusTooManyRequests, glimpse(one), "the other one had the second")
	assert.Equal(t, http.StatusTooManyRequests, glimpse(other))
}

func TestStreamsOfAnOrganizationAreLimitedOverProcesses(t *testing.T) {
	one, other := processes(t, `{}`, func(c *httpapi.Config) { c.KeyChats, c.MaxStream = 1, time.Minute })
	s := httptest.NewServer(one.Server)
	defer s.Close()
	r, err := http.NewRequest(http.MethodGet, s.URL+httpapi.Base+"/x", nil)
	require.NoError(t, err)
	r.Header.Set("Authorization", "Bearer "+one.Key)
	open, err := s.Client().Do(r)
	require.NoError(t, err)
	assert.Equal(t, http.StatusOK, open.StatusCode)
	w := get(other, "/x")
	assert.Equal(t, http.StatusTooManyRequests, w.Code, w.Body.String())
	assert.Equal(t, "5", w.Header().Get("Retry-After"))
	_ = open.Body.Close()
	require.Eventually(t, func() bool { return glimpse(other) == http.StatusOK }, patience, 20*time.Millisecond,
		"a place is given back")
}

// Keys of one user have four fifths of the organization's slots. The rest is left to its colleagues.
func TestStreamsOfAUserLeaveColleaguesSomeOverProcesses(t *testing.T) {
	one, other := processes(t, `{}`, func(c *httpapi.Config) { c.KeyChats, c.MaxStream = 5, time.Minute })
	boss, err := one.Tenants.Authenticate(t.Context(), one.Key)
	require.NoError(t, err)
	admin := string(tenant.Admin)
	user := func(email string) (newKey func() httpapitest.API) {
		u, err := one.Tenants.CreateUser(t.Context(), tenant.Platform(), boss.Organization,
			tenant.UserEdit{Email: &email, Role: &admin})
		require.NoError(t, err)
		return func() httpapitest.API {
			_, text, err := one.Tenants.CreateKey(t.Context(), tenant.Platform(), record.Of(boss.Organization),
				tenant.NewKey{Name: "k", UserID: u.Value.ID, Level: tenant.LevelAdmin})
			require.NoError(t, err)
			return one.As(text)
		}
	}
	greedy, colleague := user("a@example.com"), user("b@example.com")()
	s := [2]*httptest.Server{served(t, one), served(t, other)}
	open := func(n int, e httpapitest.API) (net.Conn, int, refusal) { return ask(t, s[n%2], e, "/x") }
	refused := func(e httpapitest.API, why refusal) {
		t.Helper()
		for n := range 2 {
			_, status, got := open(n, e)
			assert.Equal(t, http.StatusTooManyRequests, status)
			assert.Equal(t, why, got)
		}
	}
	var first net.Conn
	for n := range 4 {
		c, status, why := open(n, greedy())
		require.Equal(t, http.StatusOK, status, why)
		first = c
	}
	refused(greedy(), refusal{"share_exceeded", "streams", "user", 4, 4})
	c, status, why := open(0, colleague)
	require.Equal(t, http.StatusOK, status, why)
	refused(colleague, refusal{"share_exceeded", "streams", "organization", 5, 5})
	require.NoError(t, c.Close())
	require.NoError(t, first.Close())
	for range 2 {
		require.Eventually(t, func() bool { _, status, _ := open(1, colleague); return status == http.StatusOK },
			patience, 20*time.Millisecond, "what ends or is refused keeps no place")
	}
}

// A request keeps its function for as long as it waits, so a long wait takes a stream slot. A wait without a slot is
// not refused: it ends.
func TestLongWaitsAreLimitedOverProcesses(t *testing.T) {
	const long = 5 * time.Second
	var left []time.Duration
	one, other := processes(t, `{}`, func(c *httpapi.Config) { c.KeyChats, c.MaxStream = 1, time.Minute })
	wait := func(_ http.ResponseWriter, r *http.Request, _ *httpapi.Call) error {
		left = append(left, waiting.Left(r.Context(), long))
		if inner := r.URL.Query().Get("then"); inner != "" {
			other.Send(inner, "/wait", "")
		}
		return nil
	}
	for _, e := range []httpapitest.API{one, other} {
		e.Handle("POST", "/wait", tenant.LevelRead, wait)
		e.Handle("GET", "/wait", tenant.LevelRead, wait)
	}
	one.Send("POST", "/wait?then=POST", "")
	require.Len(t, left, 2)
	assert.Greater(t, left[0], time.Hour)
	assert.Zero(t, left[1], "while the first one waits there is no other place")
	left = nil
	one.Send("POST", "/wait?then=GET", "")
	require.Len(t, left, 2)
	assert.Greater(t, left[0], time.Hour, "the place was given back")
	assert.Greater(t, left[1], time.Hour, "reads keep no function that answers messages")
}
