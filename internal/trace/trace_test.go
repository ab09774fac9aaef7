package trace_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/trace"
)

const (
	run   = "6925112233445566778899aa"
	other = "692511ffffffffffffffffff"
)

type sink struct {
	mu   sync.Mutex
	list []trace.Ended
}

func (s *sink) take(e trace.Ended) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.list = append(s.list, e)
}

func (s *sink) named(t *testing.T, name string) trace.Ended {
	t.Helper()
	for _, e := range s.list {
		if e.Name == name {
			return e
		}
	}
	require.Failf(t, "no span", "%s", name)
	return trace.Ended{}
}

func tracer(share float64) (*trace.Tracer, *sink) {
	s := &sink{}
	return trace.New(share, time.Now, s.take), s
}

// What is off costs nothing: a use case that starts spans allocates nothing where no tracer is in its context.
func TestWithoutATracerNothingIsMadeOrAllocated(t *testing.T) {
	ctx := trace.With(t.Context(), nil)
	temperature := 0.5
	assert.Zero(t, testing.AllocsPerRun(100, func() {
		ctx, span := (*trace.Tracer)(nil).Door(ctx, nil)
		trace.Root(ctx, run)
		ctx, of := trace.StartOf(ctx, run, trace.Consumer, "invoke_agent", "")
		_, part := trace.Start(ctx, trace.Client, "chat", "a model")
		part.Set("a", "b")
		part.SetInt("n", 7)
		part.SetList("l", "x")
		part.SetFloat("f", &temperature)
		part.Fail("code")
		part.End()
		of.End()
		span.Rename("x")
		span.End()
	}))
}

func TestTheTraceOfAThingFollowsFromItsID(t *testing.T) {
	id, root, ok := trace.Of(run)
	require.True(t, ok)
	assert.Equal(t, run+run[16:], id.String())
	assert.Equal(t, run[8:], root.String())
	for _, bad := range []string{"", "x", strings.ToUpper(run), run + "0", "zz25112233445566778899aa",
		strings.Repeat("0", 24)} {
		_, _, ok := trace.Of(bad)
		assert.False(t, ok, bad)
	}
}

// A request that makes a run is the root of the run's trace; one that changes it is a part of that root; what is done
// later, in another process, is so, too, though nothing was sent along.
func TestEveryHopOfARunIsInOneTrace(t *testing.T) {
	made, spans := tracer(1)
	ctx, post := made.Door(t.Context(), nil)
	trace.Root(ctx, run)
	trace.Join(ctx, other) // another run that the same request changes: the first counts
	_, send := trace.StartOf(ctx, run, trace.Producer, "send", "run")
	send.End()
	post.Rename("POST /chat")
	post.End()

	ctx, attempt := trace.StartOf(trace.With(t.Context(), made), run, trace.Consumer, "invoke_agent", "")
	_, call := trace.Start(ctx, trace.Client, "chat", "m")
	call.End()
	_, next := trace.StartOf(ctx, other, trace.Producer, "send", "next")
	next.End()
	attempt.End()

	ctx, resume := made.Door(t.Context(), nil)
	trace.Join(ctx, run)
	resume.Rename("resume")
	resume.End()

	id, root, _ := trace.Of(run)
	elsewhere, its, _ := trace.Of(other)
	for name, parent := range map[string]trace.SpanID{
		"POST /chat": {}, "send run": root, "invoke_agent": root, "resume": root,
		"chat m": spans.named(t, "invoke_agent").Span,
	} {
		e := spans.named(t, name)
		assert.Equal(t, id, e.Trace, name)
		assert.Equal(t, parent, e.Parent, name)
		assert.Empty(t, e.Links, name)
	}
	assert.Equal(t, root, spans.named(t, "POST /chat").Span)
	handed := spans.named(t, "send next")
	assert.Equal(t, []any{elsewhere, its}, []any{handed.Trace, handed.Parent})
	assert.Equal(t, []trace.Link{spans.named(t, "invoke_agent").Link}, handed.Links, "who handed on is found")
}

// Whether a trace is sampled depends on its id, not on who asks: a stranger's flag turns on no cost.
func TestSamplingFollowsFromTheTraceAlone(t *testing.T) {
	none, spans := tracer(0)
	ctx, door := none.Door(t.Context(), []string{"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"})
	trace.Root(ctx, run)
	ctx, of := trace.StartOf(ctx, run, trace.Internal, "a", "")
	assert.Nil(t, of)
	_, part := trace.Start(ctx, trace.Internal, "b", "")
	assert.Nil(t, part)
	door.End()
	assert.Empty(t, spans.list)

	half, some := tracer(0.5)
	const n = 2000
	for range n {
		_, s := trace.Start(trace.With(t.Context(), half), trace.Internal, "x", "")
		s.End()
	}
	assert.InDelta(t, n/2, len(some.list), n/8)
}

func TestACallersTraceIsALinkAndNotOurTrace(t *testing.T) {
	made, spans := tracer(1)
	const theirs = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00"
	for _, c := range []struct {
		sent  []string
		links int
	}{{[]string{theirs}, 1}, {nil, 0}, {[]string{theirs, theirs}, 0}, {[]string{"x"}, 0}} {
		spans.list = nil
		_, s := made.Door(t.Context(), c.sent)
		s.End()
		require.Len(t, spans.list, 1)
		assert.Len(t, spans.list[0].Links, c.links)
		assert.NotEqual(t, "4bf92f3577b34da6a3ce929d0e0e4736", spans.list[0].Trace.String())
	}
}

func TestTraceparentIsReadStrictly(t *testing.T) {
	const good = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	for text, want := range map[string]bool{
		good: true, "cc" + good[2:]: true, "cc" + good[2:] + "-more": true,
		"": false, good + "-more": false, good + "0": false, "cc" + good[2:] + "0": false, "ff" + good[2:]: false,
		strings.ToUpper(good): false, " " + good: false, good + " ": false, good[1:]: false,
		"00-00000000000000000000000000000000-00f067aa0ba902b7-01": false,
		"00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01": false,
		"00-4bf92f3577b34da6a3ce929d0e0e473g-00f067aa0ba902b7-01": false,
		"00_4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01": false,
	} {
		_, ok := trace.ParseParent(text)
		assert.Equal(t, want, ok, text)
	}
}

func FuzzTraceparent(f *testing.F) {
	f.Add("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")
	f.Add("cc-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-x")
	f.Add("")
	f.Fuzz(func(t *testing.T, text string) {
		from, ok := trace.ParseParent(text)
		if !ok {
			return
		}
		if from.Trace == (trace.ID{}) || from.Span == (trace.SpanID{}) ||
			text[3:52] != from.Trace.String()+"-"+from.Span.String() {
			t.Fatalf("%q was read as %v", text, from)
		}
	})
}

// A request that leaves says whose part it is, and nothing else; its own header is left alone.
func TestRequestsCarryTheSpanThatTheyAreAPartOf(t *testing.T) {
	var got []string
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		got = append(got, r.Header.Get("Traceparent"))
		assert.Empty(t, r.Header["Tracestate"])
		assert.Empty(t, r.Header["Baggage"])
	}))
	defer server.Close()
	client := &http.Client{Transport: trace.Outgoing(http.DefaultTransport)}
	call := func(ctx context.Context, own string) {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, server.URL, nil)
		require.NoError(t, err)
		if own != "" {
			r.Header.Set("Traceparent", own)
		}
		answer, err := client.Do(r)
		require.NoError(t, err)
		_ = answer.Body.Close()
		assert.Equal(t, own, r.Header.Get("Traceparent"), "a request is not changed for its sender")
	}
	on, _ := tracer(1)
	off, _ := tracer(0)
	ctx, span := trace.StartOf(trace.With(t.Context(), on), run, trace.Client, "x", "")
	call(ctx, "")
	call(ctx, "mine")
	call(t.Context(), "")
	silent, _ := trace.StartOf(trace.With(t.Context(), off), run, trace.Client, "x", "")
	call(silent, "")
	unsampled, _ := off.Door(t.Context(), nil)
	call(unsampled, "")
	assert.Equal(t, []string{"00-" + span.Trace.String() + "-" + span.Span.String() + "-01", "mine", "", "", ""}, got)
	client.CloseIdleConnections()
}

// A program of ours that answers another goes on in its trace; where that is not sampled, it makes nothing.
func TestAnAnswerIsAPartOfTheSpanThatAsks(t *testing.T) {
	asks, asked := tracer(1)
	answers, answered := tracer(1)
	ctx, span := trace.StartOf(trace.With(t.Context(), asks), run, trace.Client, "ask", "")
	under := trace.Under(trace.With(t.Context(), answers), trace.Parent(ctx))
	there, part := trace.Start(under, trace.Server, "answer", "")
	part.End()
	span.End()
	assert.Equal(t, asked.named(t, "ask").Link, trace.Link{Trace: answered.named(t, "answer").Trace,
		Span: answered.named(t, "answer").Parent})
	assert.Contains(t, trace.Parent(there), answered.named(t, "answer").Span.String(), "what it asks is below it")
	for _, parent := range []string{"", "00-x", trace.Parent(t.Context())} {
		_, none := trace.Start(trace.Under(trace.With(t.Context(), answers), parent), trace.Server, "answer", "")
		assert.Nil(t, none, "%q", parent)
	}
	_, none := trace.Start(trace.Under(t.Context(), trace.Parent(ctx)), trace.Server, "answer", "")
	assert.Nil(t, none, "there is no tracer")
	assert.Len(t, answered.list, 1)
}

func TestASpanIsBounded(t *testing.T) {
	made, spans := tracer(1)
	_, s := trace.Start(trace.With(t.Context(), made), trace.Internal, "x", strings.Repeat("é", 1000))
	for range 100 {
		s.Set(strings.Repeat("k", 10), "\xff"+strings.Repeat("é", 1000))
	}
	s.End()
	s.Set("late", "x")
	s.End()
	require.Len(t, spans.list, 1)
	e := spans.list[0]
	assert.LessOrEqual(t, len(e.Name), 256)
	assert.Len(t, e.Attributes, 32)
	for _, a := range e.Attributes {
		assert.LessOrEqual(t, len(a.Value.(string)), 256)
		assert.Equal(t, strings.ToValidUTF8(a.Value.(string), "?"), a.Value)
	}
}

// Spans of one request are used by many goroutines.
func TestSpansAreSafeForConcurrentUse(t *testing.T) {
	made, spans := tracer(1)
	ctx, door := made.Door(t.Context(), nil)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			trace.Join(ctx, run)
			_, s := trace.Start(ctx, trace.Internal, "part", "")
			s.Set("a", "b")
			door.SetInt("n", 1)
			s.End()
			door.End()
		})
	}
	all.Wait()
	assert.Len(t, spans.list, 9)
}
