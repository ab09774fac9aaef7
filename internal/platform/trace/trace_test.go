package trace_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	oteltrace "go.opentelemetry.io/otel/trace"

	"agentplatform/internal/platform/trace"
)

const (
	run   = "6925112233445566778899aa"
	other = "692511ffffffffffffffffff"
)

type sink struct{ tracetest.InMemoryExporter }

func (s *sink) named(t *testing.T, name string) tracetest.SpanStub {
	t.Helper()
	for _, e := range s.GetSpans() {
		if e.Name == name {
			return e
		}
	}
	require.Failf(t, "no span", "%s", name)
	return tracetest.SpanStub{}
}

func tracer(share float64) (*trace.Tracer, *sink) {
	s := &sink{}
	return trace.New(share, s), s
}

// names are the ids of a span context, which are equal even if its flags differ.
func names(at oteltrace.SpanContext) string {
	return at.TraceID().String() + "-" + at.SpanID().String()
}

// Tracing that is off costs nothing: a use case that starts spans allocates nothing if its context has no tracer.
func TestWithoutATracerNothingIsMadeOrAllocated(t *testing.T) {
	ctx := trace.With(t.Context(), nil)
	assert.Zero(t, testing.AllocsPerRun(100, func() {
		ctx, entry := (*trace.Tracer)(nil).StartRequest(ctx, nil)
		trace.Root(ctx, run)
		ctx, of := trace.StartOf(ctx, run, oteltrace.SpanKindConsumer, "invoke_agent", "")
		_, part := trace.Start(ctx, oteltrace.SpanKindClient, "chat", "a model")
		trace.Fail(part, "code")
		assert.False(t, part.IsRecording() || of.IsRecording())
		part.End()
		of.End()
		span := entry.Record("x")
		span.End()
	}))
}

func TestTheTraceOfAThingFollowsFromItsID(t *testing.T) {
	root, ok := trace.Of(run)
	require.True(t, ok)
	assert.Equal(t, run+run[16:], root.TraceID().String())
	assert.Equal(t, run[8:], root.SpanID().String())
	for _, bad := range []string{"", "x", strings.ToUpper(run), run + "0", "zz25112233445566778899aa",
		strings.Repeat("0", 24)} {
		_, ok := trace.Of(bad)
		assert.False(t, ok, bad)
	}
}

// A request that makes a run is the root of the run's trace. A request that changes the run is below that root. So is
// later work in another process, although nothing was sent along.
func TestEveryHopOfARunIsInOneTrace(t *testing.T) {
	made, spans := tracer(1)
	ctx, post := made.StartRequest(t.Context(), nil)
	trace.Root(ctx, run)
	trace.Join(ctx, other) // another run that the same request changes: the first counts
	_, send := trace.StartOf(ctx, run, oteltrace.SpanKindProducer, "send", "run")
	send.End()
	post.Record("POST /chat").End()

	ctx, attempt := trace.StartOf(trace.With(t.Context(), made), run, oteltrace.SpanKindConsumer, "invoke_agent", "")
	_, call := trace.Start(ctx, oteltrace.SpanKindClient, "chat", "m")
	call.End()
	_, next := trace.StartOf(ctx, other, oteltrace.SpanKindProducer, "send", "next")
	next.End()
	attempt.End()

	ctx, resume := made.StartRequest(t.Context(), nil)
	trace.Join(ctx, run)
	_, note := trace.Start(ctx, oteltrace.SpanKindInternal, "below resume", "")
	note.End()
	resume.Record("resume").End()

	root, _ := trace.Of(run)
	elsewhere, _ := trace.Of(other)
	for name, parent := range map[string]oteltrace.SpanID{
		"POST /chat": {}, "send run": root.SpanID(), "invoke_agent": root.SpanID(), "resume": root.SpanID(),
		"chat m":       spans.named(t, "invoke_agent").SpanContext.SpanID(),
		"below resume": spans.named(t, "resume").SpanContext.SpanID(),
	} {
		e := spans.named(t, name)
		assert.Equal(t, root.TraceID(), e.SpanContext.TraceID(), name)
		assert.Equal(t, parent, e.Parent.SpanID(), name)
		assert.Empty(t, e.Links, name)
	}
	assert.Equal(t, names(root), names(spans.named(t, "POST /chat").SpanContext))
	handed := spans.named(t, "send next")
	assert.Equal(t, elsewhere.TraceID(), handed.SpanContext.TraceID())
	assert.Equal(t, names(elsewhere), names(handed.Parent))
	require.Len(t, handed.Links, 1)
	assert.Equal(t, names(spans.named(t, "invoke_agent").SpanContext), names(handed.Links[0].SpanContext),
		"who handed on is found")
}

// Sampling depends on the trace's id and not on the caller: a flag from outside causes no cost.
func TestSamplingFollowsFromTheTraceAlone(t *testing.T) {
	none, spans := tracer(0)
	ctx, entry := none.StartRequest(t.Context(), []string{"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"})
	trace.Root(ctx, run)
	ctx, of := trace.StartOf(ctx, run, oteltrace.SpanKindInternal, "a", "")
	assert.False(t, of.IsRecording())
	_, part := trace.Start(ctx, oteltrace.SpanKindInternal, "b", "")
	assert.False(t, part.IsRecording())
	entry.Record("x").End()
	assert.Empty(t, spans.GetSpans())

	half, some := tracer(0.5)
	const n = 2000
	for range n {
		_, s := trace.Start(trace.With(t.Context(), half), oteltrace.SpanKindInternal, "x", "")
		s.End()
	}
	assert.InDelta(t, n/2, len(some.GetSpans()), n/8)
}

func TestACallersTraceIsALinkAndNotOurTrace(t *testing.T) {
	made, spans := tracer(1)
	const theirs = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00"
	for _, c := range []struct {
		sent  []string
		links int
	}{{[]string{theirs}, 1}, {nil, 0}, {[]string{theirs, theirs}, 0}, {[]string{"x"}, 0}} {
		spans.Reset()
		_, entry := made.StartRequest(t.Context(), c.sent)
		entry.Record("x").End()
		list := spans.GetSpans()
		require.Len(t, list, 1)
		assert.Len(t, list[0].Links, c.links)
		assert.NotEqual(t, "4bf92f3577b34da6a3ce929d0e0e4736", list[0].SpanContext.TraceID().String())
		assert.False(t, list[0].Parent.IsValid())
	}
}

// linked is the span that a request's traceparent names.
func linked(t *testing.T, traceparent string) (at oteltrace.SpanContext) {
	t.Helper()
	made, spans := tracer(1)
	_, entry := made.StartRequest(t.Context(), []string{traceparent})
	entry.Record("x").End()
	for _, link := range spans.GetSpans()[0].Links {
		at = link.SpanContext
	}
	return at
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
		assert.Equal(t, want, linked(t, text).IsValid(), text)
	}
}

func FuzzTraceparent(f *testing.F) {
	f.Add("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")
	f.Add("cc-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-x")
	f.Add("")
	f.Fuzz(func(t *testing.T, text string) {
		if from := linked(t, text); from.IsValid() && text[3:52] != names(from) {
			t.Fatalf("%q was read as %v", text, from)
		}
	})
}

// An outgoing request carries its parent span, and nothing else. Its own header is left alone.
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
	ctx, span := trace.StartOf(trace.With(t.Context(), on), run, oteltrace.SpanKindClient, "x", "")
	call(ctx, "")
	call(ctx, "mine")
	call(t.Context(), "")
	silent, _ := trace.StartOf(trace.With(t.Context(), off), run, oteltrace.SpanKindClient, "x", "")
	call(silent, "")
	unsampled, _ := off.StartRequest(t.Context(), nil)
	call(unsampled, "")
	assert.Equal(t, []string{"00-" + names(span.SpanContext()) + "-01", "mine", "", "", ""}, got)
	client.CloseIdleConnections()
}

// A program of ours that answers another one goes on in its trace. If that is not sampled, it makes nothing.
func TestAnAnswerIsAPartOfTheSpanThatAsks(t *testing.T) {
	asks, clientSpans := tracer(1)
	answers, answered := tracer(1)
	ctx, span := trace.StartOf(trace.With(t.Context(), asks), run, oteltrace.SpanKindClient, "ask", "")
	under := trace.Under(trace.With(t.Context(), answers), trace.Parent(ctx))
	there, part := trace.Start(under, oteltrace.SpanKindServer, "answer", "")
	part.End()
	span.End()
	answer := answered.named(t, "answer")
	assert.Equal(t, names(clientSpans.named(t, "ask").SpanContext), names(answer.Parent))
	assert.Equal(t, answer.Parent.TraceID(), answer.SpanContext.TraceID())
	assert.Contains(t, trace.Parent(there), answer.SpanContext.SpanID().String(), "what it asks is below it")
	for _, parent := range []string{"", "00-x", trace.Parent(t.Context())} {
		under := trace.Under(trace.With(t.Context(), answers), parent)
		_, none := trace.Start(under, oteltrace.SpanKindServer, "answer", "")
		assert.False(t, none.IsRecording(), "%q", parent)
	}
	_, none := trace.Start(trace.Under(t.Context(), trace.Parent(ctx)), oteltrace.SpanKindServer, "answer", "")
	assert.False(t, none.IsRecording(), "there is no tracer")
	assert.Len(t, answered.GetSpans(), 1)
	silent := trace.Under(trace.With(t.Context(), answers), "")
	_, of := trace.StartOf(silent, run, oteltrace.SpanKindClient, "of a run", "")
	of.End()
	assert.Len(t, answered.GetSpans(), 2, "a run's trace is sampled by its own id")
}

func TestASpanIsBounded(t *testing.T) {
	t.Setenv("OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT", "50") // the environment changes nothing
	t.Setenv("OTEL_TRACES_SAMPLER", "always_off")
	made, spans := tracer(1)
	_, s := trace.Start(trace.With(t.Context(), made), oteltrace.SpanKindInternal, "x", "")
	for i := range 100 {
		s.SetAttributes(attribute.String(fmt.Sprint("k", i), "\xff"+strings.Repeat("é", 1000)))
	}
	s.End()
	s.SetAttributes(attribute.String("late", "x"))
	s.End()
	list := spans.GetSpans()
	require.Len(t, list, 1)
	assert.Len(t, list[0].Attributes, 32)
	for _, a := range list[0].Attributes {
		assert.LessOrEqual(t, utf8.RuneCountInString(a.Value.AsString()), 256)
		assert.True(t, utf8.ValidString(a.Value.AsString()))
	}
}

// A panic goes on, and its text stays out of the span.
func TestAPanicIsNotInASpan(t *testing.T) {
	made, spans := tracer(1)
	assert.PanicsWithValue(t, "PRIVATE", func() {
		_, s := trace.Start(trace.With(t.Context(), made), oteltrace.SpanKindInternal, "x", "")
		defer s.End()
		panic("PRIVATE")
	})
	require.Len(t, spans.GetSpans(), 1)
	assert.Empty(t, spans.GetSpans()[0].Events)
}

func TestAFailureHasACode(t *testing.T) {
	made, spans := tracer(1)
	for _, code := range []string{"", "timeout"} {
		_, s := trace.Start(trace.With(t.Context(), made), oteltrace.SpanKindInternal, "x", "")
		trace.Fail(s, code)
		s.End()
	}
	fine, failed := spans.GetSpans()[0], spans.GetSpans()[1]
	assert.Equal(t, codes.Unset, fine.Status.Code)
	assert.Empty(t, fine.Attributes)
	assert.Equal(t, codes.Error, failed.Status.Code)
	assert.Equal(t, []attribute.KeyValue{attribute.String("error.type", "timeout")}, failed.Attributes)
}

// Spans of one request are used by many goroutines.
func TestSpansAreSafeForConcurrentUse(t *testing.T) {
	made, spans := tracer(1)
	ctx, entry := made.StartRequest(t.Context(), nil)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			trace.Join(ctx, run)
			_, s := trace.Start(ctx, oteltrace.SpanKindInternal, "part", "")
			s.SetAttributes(attribute.String("a", "b"))
			s.End()
			entry.Record("door").End()
		})
	}
	all.Wait()
	assert.Len(t, spans.GetSpans(), 9)
}
