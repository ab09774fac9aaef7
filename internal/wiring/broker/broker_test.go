package broker_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	oteltrace "go.opentelemetry.io/otel/trace"

	"agentplatform/internal/ai/embedding"
	"agentplatform/internal/ai/model"
	"agentplatform/internal/ai/provider"
	"agentplatform/internal/ai/tool"
	"agentplatform/internal/org/toolkit"
	"agentplatform/internal/platform/problem"
	"agentplatform/internal/platform/trace"
	"agentplatform/internal/platform/waiting"
	"agentplatform/internal/store/record"
	"agentplatform/internal/store/seal"
	"agentplatform/internal/wiring/broker"
)

// spy records the asks, and answers with an error.
type spy struct {
	toolkit.Asker
	provider.Models
	calls  int
	ctx    context.Context //nolint:containedctx // of the last ask
	fails  error
	embeds func(r embedding.Request) (embedding.Reply, error)
}

func (s *spy) note(ctx context.Context) error {
	s.calls++
	s.ctx = ctx
	return s.fails
}

func (s *spy) Refresh(ctx context.Context, _ record.Scope, _ string) (toolkit.Difference, error) {
	return toolkit.Difference{}, s.note(ctx)
}

func (s *spy) Browse(ctx context.Context, _ record.Scope, _ string) (tool.Offerings, error) {
	return tool.Offerings{}, s.note(ctx)
}

func (s *spy) TestCall(
	ctx context.Context, _ record.Scope, _, _ string, _ json.RawMessage, _ func() error,
) (toolkit.Attempt, error) {
	return toolkit.Attempt{}, s.note(ctx)
}

func (s *spy) Probe(ctx context.Context, _, _ string) (record.DeliveryAttempt, error) {
	return record.DeliveryAttempt{}, s.note(ctx)
}

func (s *spy) Check(ctx context.Context, _, _ string, _ bool) error { return s.note(ctx) }

func (s *spy) Embed(ctx context.Context, r embedding.Request) (embedding.Reply, error) {
	if err := s.note(ctx); err != nil || s.embeds == nil {
		return embedding.Reply{}, err
	}
	return s.embeds(r)
}

func (s *spy) broker() *broker.Broker {
	return &broker.Broker{Toolkits: s, Webhooks: s, Models: s, Log: quiet,
		Embeddings: map[string]embedding.Model{"openai": s}}
}

func (s *spy) client() *broker.Client { return &broker.Client{Broker: s.broker()} }

const id = "0123456789abcdef01234567"

// A malformed ask has no effect.
func TestAnAskThatIsNoneIsRefused(t *testing.T) {
	arguments := func(operation, text string) string {
		return `{"operation":"` + operation + `","wait_ms":1000,"arguments":` + text + `}`
	}
	ids := `"organization_id":"` + id + `","toolkit_id":"` + id + `"`
	waiting := func(head string) string {
		return strings.Replace(arguments("toolkit.refresh", `{`+ids+`}`), `"wait_ms":1000`, head, 1)
	}
	for _, ask := range []string{
		"", "null", "[]", "{", "{} {}", `{"operation":"toolkit.refresh"}`,
		arguments("", `{}`), arguments("toolkit.delete", `{`+ids+`}`), arguments("Toolkit.refresh", `{`+ids+`}`),
		arguments("toolkit.refresh", `{}`), arguments("toolkit.refresh", `null`), arguments("toolkit.refresh", `[]`),
		arguments("toolkit.refresh", `{"organization_id":"`+id+`"}`),
		arguments("toolkit.refresh", `{"organization_id":"","toolkit_id":"`+id+`"}`),
		arguments("toolkit.refresh", `{"organization_id":"../x","toolkit_id":"`+id+`"}`),
		arguments("toolkit.refresh", `{"organization_id":"`+id+`","toolkit_id":"x"}`),
		arguments("toolkit.refresh", `{`+ids+`,"dry_run":"yes"}`),
		arguments("toolkit.refresh", `{`+ids+`,"Dry_run":true}`),
		arguments("toolkit.refresh", `{`+ids+`,"more":1}`),
		arguments("toolkit.refresh", `{`+ids+`,"toolkit_id":"`+id+`"}`),
		arguments("toolkit.browse", `{`+ids+`,"dry_run":true}`),
		arguments("toolkit.try", `{`+ids+`,"tool":"`+strings.Repeat("x", 5000)+`","arguments":{}}`),
		arguments("webhook.probe", `{"organization_id":"","callback_url":"https://example.com"}`),
		arguments("webhook.probe", `{"organization_id":"`+id+`","callback_url":"http://example.com"}`),
		arguments("webhook.probe", `{"organization_id":"`+id+`","callback_url":"https://127.0.0.1"}`),
		arguments("models.check", `{"provider":7}`),
		arguments("embed", `{"provider":"openai","name":"m","purpose":"query","texts":[`+
			strings.Repeat(`"x",`, 32)+`"x"]}`),
		waiting(`"wait_ms":0`),
		waiting(`"wait_ms":1000,"wait_ms":1000`),
		waiting(`"Wait_ms":1000`),
		waiting(`"wait_ms":1000,"later":{"a":1,"a":2}`),
		waiting(`"wait_ms":1000,"author":{"organization_id":"x","user_id":"","api_key_id":"","operation":""}`),
		waiting(`"wait_ms":1000,"author":{
			"organization_id":"-","user_id":"` + strings.Repeat("x", 5000) + `","api_key_id":"","operation":""}`),
		arguments("toolkit.try", `{`+ids+`,"tool":"t","arguments":`+strings.Repeat("[", 90)+
			strings.Repeat("]", 90)+`}`),
		arguments("toolkit.try", `{`+ids+`,"tool":"t","arguments":[`+strings.Repeat("0,", 310_000)+`0]}`),
		arguments("toolkit.try", `{`+ids+`,"tool":"t","arguments":"`+strings.Repeat("x", broker.MaxAsk)+`"}`),
		arguments("toolkit.try", `{`+ids+`,"tool":"`+"\xff"+`","arguments":{}}`),
	} {
		s := &spy{}
		raw, err := s.broker().Invoke(t.Context(), []byte(ask))
		require.NoError(t, err)
		var answer broker.Answer
		require.NoError(t, json.Unmarshal(raw, &answer))
		assert.Nil(t, answer.Result, "%.200s", ask)
		if assert.NotNil(t, answer.Failure, "%.200s", ask) {
			assert.Contains(t, []broker.FailureKind{broker.FailureInternal, broker.FailureProblem}, answer.Failure.Kind)
			assert.Less(t, len(raw), 2000)
		}
		assert.Zero(t, s.calls, "%.200s", ask)
	}
}

// A later version may send more members in an ask, while both versions are deployed, or after a rollback. A new member
// of the arguments may prevent an effect, so an ask with such a member is refused.
func TestAnAskOfALaterVersionIsAnswered(t *testing.T) {
	for ask, want := range map[string]int{
		`{"operation":"toolkit.refresh","wait_ms":1000,"later":{"a":[1]},"arguments":{%s},"author":{
			"organization_id":"-","user_id":"u","api_key_id":"k","operation":"o","later":true}}`: 1,
		`{"operation":"toolkit.refresh","wait_ms":1000,"arguments":{%s,"later":true}}`: 0,
	} {
		s := &spy{}
		_, err := s.broker().Invoke(t.Context(),
			fmt.Appendf(nil, ask, `"organization_id":"`+id+`","toolkit_id":"`+id+`"`))
		require.NoError(t, err)
		assert.Equal(t, want, s.calls, ask)
	}
}

// The sample of events is an ask.
func TestTheSampleIsAnAsk(t *testing.T) {
	sample, err := os.ReadFile("../../../events/samples/broker.json")
	require.NoError(t, err)
	s := &spy{}
	raw, err := s.broker().Invoke(t.Context(), sample)
	require.NoError(t, err)
	assert.JSONEq(t, `{"result":{}}`, string(raw))
	assert.Equal(t, 1, s.calls)
	author, authored := record.AuthorOf(s.ctx)
	assert.True(t, authored)
	assert.Equal(t, "refresh-toolkit", author.Operation)
}

// Client and broker may have different versions: the members of an answer keep their names.
func TestTheMembersOfAnswersKeepTheirNames(t *testing.T) {
	attempt := toolkit.Attempt{Result: "r", Error: "e", Elapsed: 7}
	posted := record.DeliveryAttempt{
		At: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), Status: 200, LatencyMS: 7, Error: "e", ResponseExcerpt: "x",
	}
	for want, result := range map[string]any{
		`{"added":["a"],"removed":["b"],"changed":["c"],"tools":[{"before":{"name":"b","description":"",
			"parameters":null,"approval":{},"enabled":false,
			"may_retry":false,"retry_safe":false}}]}`: toolkit.Difference{
			Added: []string{"a"}, Removed: []string{"b"}, Changed: []string{"c"},
			Tools: []toolkit.Changed{{Before: &toolkit.Tool{Definition: tool.Definition{Spec: tool.Spec{Name: "b"}}}}},
		},
		`{"resources":[{"uri":"u","name":"n","description":"d","content_type":"c"}],
			"prompts":[{"name":"n","description":"d","arguments":["a"]}]}`: tool.Offerings{
			Resources: []tool.Resource{{URI: "u", Name: "n", Description: "d", ContentType: "c"}},
			Prompts:   []tool.Prompt{{Name: "n", Description: "d", Arguments: []string{"a"}}},
		},
		`{"result":"r","error":"e","elapsed_ns":7}`:                                                    attempt,
		`{"at":"2026-01-02T03:04:05Z","status":200,"latency_ms":7,"error":"e","response_excerpt":"x"}`: posted,
		`{"models":[{"provider":"p","name":"n","description":"d"}],"unreachable":{"away":"why"}}`: provider.Listing{
			Models:      []provider.Model{{Provider: "p", Info: model.Info{Name: "n", Description: "d"}}},
			Unreachable: map[string]string{"away": "why"},
		},
		`{"vectors":[[1,2]],"tokens":3}`: embedding.Reply{Vectors: [][]float32{{1, 2}}, Tokens: 3},
	} {
		raw, err := json.Marshal(result)
		require.NoError(t, err)
		assert.JSONEq(t, want, string(raw))
	}
}

// The broker's work ends before its client's wait, so that there is time for the answer. It never takes longer than any
// client waits.
func TestTheDeadlineCrosses(t *testing.T) {
	for given, want := range map[time.Duration]time.Duration{
		0:                      28500 * time.Millisecond, // there is none
		time.Hour:              28500 * time.Millisecond,
		20 * time.Second:       19500 * time.Millisecond,
		800 * time.Millisecond: 700 * time.Millisecond,
	} {
		synctest.Test(t, func(t *testing.T) {
			s, ctx := &spy{}, t.Context()
			if given > 0 {
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeout(ctx, given)
				defer cancel()
			}
			_, err := s.client().Browse(ctx, record.Of(id), id)
			require.NoError(t, err)
			deadline, limited := s.ctx.Deadline()
			require.True(t, limited)
			assert.Equal(t, want, time.Until(deadline), "of %s", given)
			require.Error(t, s.ctx.Err(), "it is over when the answer is there")
		})
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	s := &spy{}
	_, err := s.client().Browse(ctx, record.Of(id), id)
	require.ErrorIs(t, err, context.Canceled)
	assert.Zero(t, s.calls, "nobody waits")
}

func TestAPanicIsContained(t *testing.T) {
	w := newWorld(t, "through a broker")
	w.kind.panics = true
	_, err := w.asker.Browse(t.Context(), w.scope(), w.id)
	require.EqualError(t, err, "broker: the ask panicked")
	w.kind.panics = false
	_, err = w.asker.Browse(t.Context(), w.scope(), w.id)
	require.NoError(t, err)
}

// An answer that is too large for Lambda is refused with a message, and so is an ask.
func TestWhatIsTooLargeIsAProblem(t *testing.T) {
	w := newWorld(t, "through a broker")
	w.kind.size = broker.MaxAnswer
	_, err := w.asker.TestCall(t.Context(), w.scope(), w.id, "stays", json.RawMessage(`{}`), never)
	assert.True(t, problem.Is(err, "payload_too_large"), "%v", err)
	require.ErrorContains(t, err, "the operation succeeded")
	w.kind.size = broker.MaxAnswer - 1000
	done, err := w.asker.TestCall(t.Context(), w.scope(), w.id, "stays", json.RawMessage(`{}`), never)
	require.NoError(t, err)
	assert.Greater(t, len(done.Result), w.kind.size)

	s := &spy{}
	err = (&broker.Models{Client: s.client(), Near: &provider.Set{}}).Check(t.Context(), "near",
		strings.Repeat("x", broker.MaxAsk), false)
	assert.True(t, problem.Is(err, "payload_too_large"), "%v", err)
	assert.Zero(t, s.calls)
}

// An ask that the broker has not received may be sent again. After any other error it is unknown whether the work was
// done.
func TestABrokerThatGivesNoAnswer(t *testing.T) {
	lost := errors.New("the connection was lost")
	for name, c := range map[string]struct {
		line        broker.Invoker
		unavailable bool
	}{
		"not asked":         {dead{broker.ErrNotReceived}, true},
		"lost":              {dead{lost}, false},
		"no JSON":           {fixedAnswer("<html>"), false},
		"nothing":           {fixedAnswer(""), false},
		"an empty answer":   {fixedAnswer("{}"), false},
		"another result":    {fixedAnswer(`{"result":7}`), false},
		"a list of nothing": {fixedAnswer(`[]`), false},
	} {
		client := &broker.Client{Broker: c.line}
		_, err := client.Refresh(t.Context(), record.Of(id), id)
		require.Error(t, err, name)
		p, known := problem.As(err)
		assert.Equal(t, c.unavailable, known, "%s: %v", name, err)
		if known {
			assert.Equal(t, problem.Unavailable, p.Kind)
			assert.Equal(t, time.Second, p.RetryAfter)
		}
		_, err = (&broker.Embedding{Client: client, Provider: "openai"}).Embed(t.Context(),
			embedding.Request{Name: "m", Texts: []string{"x"}})
		assert.Equal(t, embedding.Retryable, embedding.KindOf(err), "%s: %v", name, err)
	}
}

// fixedAnswer is a line that always returns one answer.
type fixedAnswer string

func (s fixedAnswer) Invoke(context.Context, []byte) ([]byte, error) { return []byte(s), nil }

// far is a line to a broker in another process: of the client's context only its end has an effect.
type far struct {
	broker *broker.Broker
	tracer *trace.Tracer
}

func (f far) Invoke(_ context.Context, ask []byte) ([]byte, error) {
	return f.broker.Invoke(trace.With(context.Background(), f.tracer), ask)
}

// The broker's work belongs to the request that caused it, in one trace over both processes. A request that is not
// sampled has no trace there either.
func TestTheBrokersWorkIsInTheTraceOfTheRequest(t *testing.T) {
	exported := tracetest.NewInMemoryExporter()
	tracer := trace.New(1, exported)
	s := &spy{}
	client := &broker.Client{Broker: far{s.broker(), tracer}}
	request, span := tracer.StartRequest(t.Context(), nil)
	_, err := client.Browse(request, record.Of(id), id)
	require.NoError(t, err)
	spans := exported.GetSpans()
	require.Len(t, spans, 2)
	answer, ask := spans[0], spans[1]
	assert.Equal(t, "ask toolkit.browse", ask.Name)
	assert.Equal(t, oteltrace.SpanKindClient, ask.SpanKind)
	assert.Equal(t, span.SpanContext(), ask.Parent)
	assert.Equal(t, "answer toolkit.browse", answer.Name)
	assert.Equal(t, oteltrace.SpanKindServer, answer.SpanKind)
	assert.Equal(t, ask.SpanContext, answer.Parent.WithRemote(false))
	assert.Contains(t, trace.Parent(s.ctx), answer.SpanContext.SpanID().String(), "and so is what it asks of others")
	assert.Equal(t, []codes.Code{codes.Unset, codes.Unset}, []codes.Code{ask.Status.Code, answer.Status.Code})

	s.fails = problem.New(problem.Unavailable, "some_code", "PRIVATE words")
	_, err = client.Browse(request, record.Of(id), id)
	require.Error(t, err)
	spans = exported.GetSpans()
	require.Len(t, spans, 4)
	assert.Equal(t, []attribute.KeyValue{attribute.String("error.type", "problem")}, spans[2].Attributes, "by its kind")
	assert.Equal(t, []attribute.KeyValue{attribute.String("error.type", "ask_failed")}, spans[3].Attributes)

	_, err = client.Browse(t.Context(), record.Of(id), id)
	require.Error(t, err)
	assert.Len(t, exported.GetSpans(), 4, "whoever has no trace gets none")
}

// waiter answers after a minute of the clock.
type waiter struct {
	fixedAnswer

	clock time.Duration
}

func (w *waiter) Invoke(ctx context.Context, ask []byte) ([]byte, error) {
	w.clock += time.Minute
	return w.fixedAnswer.Invoke(ctx, ask)
}

// Waits for the broker do not count as the answer's own time.
func TestAsksAreWaits(t *testing.T) {
	w := &waiter{fixedAnswer: `{"result":{}}`}
	ctx, clock := waiting.New(t.Context(), func() time.Duration { return w.clock })
	_, err := (&broker.Client{Broker: w}).Refresh(ctx, record.Of(id), id)
	require.NoError(t, err)
	assert.Equal(t, time.Minute, clock.Total())
}

// Errors are the same after the call, in all properties that callers use.
func TestErrorsCrossAsTheyAre(t *testing.T) {
	whole := &problem.Error{
		Code: "some_code", Message: "in words", Fields: []problem.Field{{Location: "body.x", Message: "is wrong"}},
		Extras: map[string]any{"state": "failed", "n": 1.5}, RetryAfter: 1500 * time.Millisecond,
	}
	all := []error{
		tool.Fail("read by models"), record.ErrConflict, seal.ErrNotOurs, context.Canceled, context.DeadlineExceeded,
		errors.New("a fault"), problem.Retry(context.Canceled), problem.Retry(record.ErrConflict),
		&embedding.Error{Kind: embedding.Throttled, Wait: 7 * time.Second, Err: errors.New("slow down")},
		embedding.Fail(embedding.TooLong, "too long"),
	}
	for kind := problem.Internal; kind <= problem.Unavailable; kind++ {
		one := *whole
		one.Kind = kind
		all = append(all, &one)
	}
	for _, err := range all {
		s := &spy{fails: err}
		_, got := s.client().Browse(t.Context(), record.Of(id), id)
		w := &world{}
		assert.Equal(t, seen(w, nil, err), seen(w, nil, got))
	}
}

// earlier is a broker of an earlier version, which always returns the same answer.
type earlier string

func (e earlier) Invoke(context.Context, []byte) ([]byte, error) { return []byte(e), nil }

// A broker of an earlier version leaves out an empty list of arguments. The API has a list, and not null.
func TestAPromptWithoutArgumentsHasAListOfThem(t *testing.T) {
	c := &broker.Client{Broker: earlier(`{"result":{"prompts":[{"name":"n","description":"d"}]}}`)}
	found, err := c.Browse(t.Context(), record.Of("o"), "t")
	require.NoError(t, err)
	assert.Equal(t, []tool.Prompt{{Name: "n", Description: "d", Arguments: []string{}}}, found.Prompts)
}

// The tokens that an embedding model used before a failure are counted. Texts that it refuses as too long are not sent
// again: the broker has tried.
func TestTokensOfAFailureAreCounted(t *testing.T) {
	s := &spy{embeds: func(r embedding.Request) (embedding.Reply, error) {
		if len(r.Texts) == 32 {
			vectors := make([][]float32, 32)
			for i := range vectors {
				vectors[i] = []float32{1, 0}
			}
			return embedding.Reply{Vectors: vectors, Tokens: 5}, nil
		}
		return embedding.Reply{Tokens: 3}, embedding.Fail(embedding.TooLong, "too long")
	}}
	texts := make([]string, 40)
	for i := range texts {
		texts[i] = "some words"
	}
	reply, err := (&broker.Embedding{Client: s.client(), Provider: "openai"}).Embed(t.Context(),
		embedding.Request{Name: "m", Purpose: embedding.ForDocument, Texts: texts})
	assert.Equal(t, embedding.TooLong, embedding.KindOf(err), "%v", err)
	assert.Equal(t, int64(8), reply.Tokens)
	assert.Empty(t, reply.Vectors)
	assert.Equal(t, 2, s.calls)
}
