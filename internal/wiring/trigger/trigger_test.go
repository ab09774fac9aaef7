package trigger_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"os"
	"testing"
	"testing/synctest"
	"time"

	lambdaevents "github.com/aws/aws-lambda-go/events"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/store/queue"
	"agentplatform/internal/wiring/trigger"
)

var quiet = slog.New(slog.DiscardHandler)

func sample[T any](t *testing.T, name string) T {
	t.Helper()
	b, err := os.ReadFile("../../../events/samples/" + name + ".json")
	require.NoError(t, err)
	var event T
	require.NoError(t, json.Unmarshal(b, &event))
	return event
}

func TestARequestArrivesAsTheClientMadeIt(t *testing.T) {
	var seen *http.Request
	handle := trigger.Buffered(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen = r
		w.Header().Set("X-Request-Id", "1")
		w.WriteHeader(http.StatusTeapot)
		_, _ = io.WriteString(w, "answer")
	}))
	answer, err := handle(t.Context(), sample[lambdaevents.APIGatewayProxyRequest](t, "api"))
	require.NoError(t, err)
	assert.Equal(t, "/api/v1/me", seen.URL.Path, "the stage is part of the path")
	assert.Equal(t, "2", seen.URL.Query().Get("limit"))
	assert.Equal(t, "Bearer ap_example", seen.Header.Get("Authorization"))
	assert.Equal(t, "198.51.100.23:0", seen.RemoteAddr,
		"the client's, which CloudFront appended; the gateway saw CloudFront")
	assert.Equal(t, http.StatusTeapot, answer.StatusCode)
	assert.Equal(t, "answer", answer.Body)
	assert.Equal(t, []string{"1"}, answer.MultiValueHeaders["X-Request-Id"])
}

// A request ends while there is time to send an answer.
func TestARequestEndsBeforeItsFunction(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		handle := trigger.Buffered(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			<-r.Context().Done()
			w.WriteHeader(http.StatusServiceUnavailable)
		}))
		ctx, cancel := context.WithTimeout(t.Context(), 29*time.Second)
		defer cancel()
		answer, err := handle(ctx, sample[lambdaevents.APIGatewayProxyRequest](t, "api"))
		require.NoError(t, err)
		assert.Equal(t, http.StatusServiceUnavailable, answer.StatusCode)
		require.NoError(t, ctx.Err())
	})
}

func TestAClientCannotChooseItsAddress(t *testing.T) {
	const edge = "130.176.1.2" // CloudFront, as the gateway has seen it
	for forwarded, want := range map[string]string{
		"203.0.113.7, " + edge:             "203.0.113.7:0",
		"1.1.1.1, 203.0.113.7, " + edge:    "203.0.113.7:0",
		"2001:db8::1, " + edge:             "[2001:db8::1]:0",
		"::ffff:203.0.113.7, " + edge:      "203.0.113.7:0",
		"fe80::1%eth0, " + edge:            "[fe80::1]:0",
		"1.1.1.1, not an address, " + edge: edge + ":0",
		", " + edge:                        edge + ":0",
		edge:                               edge + ":0",
		"":                                 edge + ":0",
		"203.0.113.7, 198.51.100.1":        edge + ":0", // not as the gateway has seen it
		"203.0.113.7, " + edge + ", 198.51.100.1": edge + ":0",
		"203.0.113.7:4711, " + edge:               edge + ":0",
	} {
		var address string
		handle := trigger.Buffered(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			address = r.RemoteAddr
		}))
		event := sample[lambdaevents.APIGatewayProxyRequest](t, "api")
		event.RequestContext.Identity.SourceIP = edge
		event.MultiValueHeaders["X-Forwarded-For"] = []string{forwarded}
		_, err := handle(t.Context(), event)
		require.NoError(t, err)
		assert.Equal(t, want, address, forwarded)
	}
}

func TestAPathOutsideTheAPIIsNotChanged(t *testing.T) {
	var path, address string
	handle := trigger.Buffered(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		path, address = r.URL.Path, r.RemoteAddr
	}))
	event := sample[lambdaevents.APIGatewayProxyRequest](t, "api")
	event.Path = "/docs"
	event.Headers, event.MultiValueHeaders = nil, nil
	_, err := handle(t.Context(), event)
	require.NoError(t, err)
	assert.Equal(t, "/docs", path)
	assert.Equal(t, "130.176.1.2:0", address)
}

func TestNothingIsCompressedForTheGateway(t *testing.T) {
	handle := trigger.Buffered(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, "takes "+r.Header.Get("Accept-Encoding"))
	}))
	event := sample[lambdaevents.APIGatewayProxyRequest](t, "api")
	event.Headers = map[string]string{"Accept-Encoding": "gzip, br"}
	event.MultiValueHeaders = map[string][]string{"Accept-Encoding": {"gzip, br"}}
	answer, err := handle(t.Context(), event)
	require.NoError(t, err)
	assert.Equal(t, "takes ", answer.Body)
	assert.False(t, answer.IsBase64Encoded)
}

func TestAFormFromTheGatewayIsDecoded(t *testing.T) {
	var message string
	handle := trigger.Buffered(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		message = r.FormValue("message")
	}))
	_, err := handle(t.Context(), sample[lambdaevents.APIGatewayProxyRequest](t, "chat"))
	require.NoError(t, err)
	assert.Equal(t, "Hello there", message)
}

func TestAStreamIsPassedOnWhileItIsWritten(t *testing.T) {
	goOn := make(chan struct{})
	handle := trigger.Streamed(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/x-ndjson")
		_, _ = io.WriteString(w, r.FormValue("message")+"\n")
		<-goOn
		_, _ = io.WriteString(w, "second\n")
		w.Header().Set("Content-Type", "too late")
	}), quiet)
	answer, err := handle(t.Context(), sample[lambdaevents.APIGatewayProxyRequest](t, "chat"))
	require.NoError(t, err)
	assert.Equal(t, http.StatusOK, answer.StatusCode)
	assert.Equal(t, []string{"application/x-ndjson"}, answer.MultiValueHeaders["Content-Type"])
	first := make([]byte, 64)
	n, err := answer.Body.Read(first)
	require.NoError(t, err)
	assert.Equal(t, "Hello there\n", string(first[:n]), "here before the second is written")
	close(goOn)
	rest, err := io.ReadAll(answer.Body)
	require.NoError(t, err)
	assert.Equal(t, "second\n", string(rest))
}

func TestAStreamsBodyEndsWithoutErrorForAnyHandler(t *testing.T) {
	for name, handler := range map[string]http.HandlerFunc{
		"nothing written": func(http.ResponseWriter, *http.Request) {},
		"a panic before":  func(http.ResponseWriter, *http.Request) { panic("oops") },
		"a panic after": func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, "half")
			panic("oops")
		},
		"an abort on purpose": func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, "half")
			panic(http.ErrAbortHandler)
		},
		"flushed, nothing written": func(w http.ResponseWriter, _ *http.Request) {
			_ = http.NewResponseController(w).Flush()
		},
		"a status and an empty write": func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusNoContent)
			_, _ = w.Write(nil)
		},
	} {
		t.Run(name, func(t *testing.T) {
			answer, err := trigger.Streamed(handler, quiet)(t.Context(),
				sample[lambdaevents.APIGatewayProxyRequest](t, "api"))
			require.NoError(t, err)
			_, err = io.ReadAll(answer.Body)
			require.NoError(t, err, "an error here would end the process")
			assert.Positive(t, answer.StatusCode)
		})
	}
}

func TestADisconnectedClientEndsTheHandler(t *testing.T) {
	failed := make(chan error, 1)
	handle := trigger.Streamed(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		for {
			if _, err := w.Write(bytes.Repeat([]byte("x"), 100)); err != nil {
				failed <- err
				return
			}
		}
	}), quiet)
	answer, err := handle(t.Context(), sample[lambdaevents.APIGatewayProxyRequest](t, "api"))
	require.NoError(t, err)
	require.NoError(t, answer.Body.(io.Closer).Close())
	require.ErrorIs(t, <-failed, io.ErrClosedPipe)
}

// source records which messages were delayed.
type source struct {
	queue.Source
	rests []time.Duration
}

func (s *source) Retry(_ context.Context, _ queue.Delivery, after time.Duration) error {
	s.rests = append(s.rests, after)
	return nil
}

func message(id, body, receives string) lambdaevents.SQSMessage {
	return lambdaevents.SQSMessage{MessageId: id, Body: body, ReceiptHandle: "r",
		Attributes: map[string]string{"ApproximateReceiveCount": receives}}
}

func TestOnlyFailedMessagesOfABatchComeAgain(t *testing.T) {
	s := &source{}
	handle := trigger.Messages(s, quiet, func(_ context.Context, id string) (time.Duration, error) {
		switch id {
		case "bad":
			return 0, errors.New("not now")
		case "panics":
			panic("oops")
		case "later":
			return time.Hour, nil
		}
		return 0, nil
	})
	wakeup := func(id string) string { return `{"kind":"run","id":"` + id + `"}` }
	answer, err := handle(t.Context(), lambdaevents.SQSEvent{Records: []lambdaevents.SQSMessage{
		message("1", wakeup("good"), "1"), message("2", wakeup("bad"), "3"), message("3", "poison", "1"),
		message("4", wakeup("later"), "1"),
		message("5", wakeup("later"), "4"), message("6", wakeup("panics"), "1"),
	}})
	require.NoError(t, err)
	var failed []string
	for _, f := range answer.BatchItemFailures {
		failed = append(failed, f.ItemIdentifier)
	}
	assert.Equal(t, []string{"2", "3", "4"}, failed,
		"a healthy message that came often goes: the store knows when it is due; so does one that panics")
	assert.Equal(t, []time.Duration{8 * time.Second, time.Second, time.Hour}, s.rests)
}

func TestAMessageThatComesAgainSoonIsHandledInPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pieces := 0
		handle := trigger.Messages(&source{}, quiet, func(context.Context, string) (time.Duration, error) {
			if pieces++; pieces < 5 {
				return time.Second, nil
			}
			return 0, nil
		})
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		answer, err := handle(ctx, sample[lambdaevents.SQSEvent](t, "job"))
		require.NoError(t, err)
		assert.Empty(t, answer.BatchItemFailures)
		assert.Equal(t, 5, pieces)
	})
	synctest.Test(t, func(t *testing.T) {
		s := &source{}
		handle := trigger.Messages(s, quiet,
			func(context.Context, string) (time.Duration, error) { return time.Second, nil })
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		answer, err := handle(ctx, sample[lambdaevents.SQSEvent](t, "job"))
		require.NoError(t, err)
		assert.Len(t, answer.BatchItemFailures, 1, "given back before the function's deadline")
		assert.Equal(t, []time.Duration{time.Second}, s.rests)
		deadline, _ := ctx.Deadline()
		assert.Greater(t, time.Until(deadline), 10*time.Second)
	})
}

// Work that a function cannot finish in its time continues in another invocation, by the same message. That also holds
// if its handler was called before in the same invocation.
func TestAHandlerReleasesBeforeItsFunctionIsEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const function = 15 * time.Minute
		ctx, cancel := context.WithTimeout(t.Context(), function)
		defer cancel()
		began := time.Now()
		var ended []time.Duration
		handle := trigger.ReleaseAfter(func(ctx context.Context, _ string) (time.Duration, error) {
			if len(ended) == 0 { // a first attempt with a temporary failure
				time.Sleep(6 * time.Minute)
				ended = append(ended, time.Since(began))
				return time.Second, nil
			}
			<-ctx.Done() // and records that it releases its work
			ended = append(ended, time.Since(began))
			return 0, nil
		}, 13*time.Minute)
		q := &source{}
		answer, err := trigger.Messages(q, quiet, handle)(ctx, sample[lambdaevents.SQSEvent](t, "ingest"))
		require.NoError(t, err)
		assert.Len(t, answer.BatchItemFailures, 1, "the message comes again")
		assert.Equal(t, []time.Duration{3 * time.Second}, q.rests)
		require.Len(t, ended, 2)
		assert.Equal(t, 6*time.Minute, ended[0])
		assert.LessOrEqual(t, ended[1], function-30*time.Second)
		assert.GreaterOrEqual(t, ended[1], function-time.Minute)
	})
}

func TestAHandlerThatIsInTimeIsLeftAlone(t *testing.T) {
	for _, c := range []struct {
		again time.Duration
		err   error
	}{{0, nil}, {time.Minute, nil}, {0, errors.New("the store is away")}} {
		quick := func(context.Context, string) (time.Duration, error) { return c.again, c.err }
		again, err := trigger.ReleaseAfter(quick, 13*time.Minute)(t.Context(), "d")
		assert.Equal(t, c.again, again)
		assert.Equal(t, c.err, err)
	}
}
