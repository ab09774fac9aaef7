package sfntimer_test

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/sfn"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/events"
	"agentplatform/internal/core/lifecycle"
	"agentplatform/internal/platform/host"
	"agentplatform/internal/run/sweep"
	"agentplatform/internal/run/transition"
	"agentplatform/internal/store/blob/memblob"
	"agentplatform/internal/store/queue"
	"agentplatform/internal/store/record"
	"agentplatform/internal/store/table/memtable"
	"agentplatform/internal/store/timer/sfntimer"
)

// throttles returns a client of a Step Functions that refuses every call, and the number of its calls.
func throttles(t *testing.T) (client *sfn.Client, requests *atomic.Int64) {
	requests = &atomic.Int64{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests.Add(1)
		assert.Contains(t, r.Header.Get("X-Amz-Target"), "Execution")
		w.Header().Set("Content-Type", "application/x-amz-json-1.0")
		w.WriteHeader(http.StatusBadRequest)
		_, _ = io.WriteString(w,
			`{"__type":"com.amazonaws.swf.service.v2.model#ThrottlingException","message":"Rate exceeded"}`)
	}))
	t.Cleanup(server.Close)
	return sfntimer.Client(aws.Config{
		Region: "eu-central-1", BaseEndpoint: &server.URL,
		Credentials: credentials.NewStaticCredentialsProvider("a", "b", ""),
	}), requests
}

// later is a host whose clock was put forward.
type later struct {
	host.Host

	by time.Duration
}

func (l *later) Now() time.Time { return l.Host.Now().Add(l.by) }

// deaf is a queue and a notifier that lose all.
type deaf struct{}

func (deaf) Send(context.Context, queue.Message) error             { return nil }
func (deaf) SendAll(_ context.Context, ms []queue.Message) []error { return make([]error, len(ms)) }
func (deaf) Notify(string)                                         {}
func (deaf) NotifyEnd(record.RunEntity)                            {}

// A pause begins even if Step Functions does not take its wait, without an error and a second later at most. The
// sweeper ends it, not before it is due.
func TestAPauseGoesOnWhereStepFunctionsThrottles(t *testing.T) {
	client, requests := throttles(t)
	machine, log := &later{Host: host.System()}, &strings.Builder{}
	store := record.New(memtable.New(machine.Now), &memblob.Store{}, machine)
	x := &transition.Executor{
		Store: store, Queue: deaf{}, Notifier: deaf{}, Host: machine, StartDeadline: time.Minute,
		Timer: sfntimer.New(client, "arn:aws:states:eu-central-1:123456789012:stateMachine:Pauses"),
		Log:   slog.New(slog.NewTextHandler(log, nil)),
		Caps:  func(context.Context, string, string) (int, int, error) { return 3, 3, nil },
	}
	spec := lifecycle.RunSpec{
		RunID: machine.NewID(), Organization: "o", User: "u", Agent: "a", Chat: "c", OwnChatID: true,
	}
	slots, err := x.Slots(t.Context(), spec)
	require.NoError(t, err)
	_, err = x.Accept(t.Context(), store.Begin(spec.RunID), transition.Acceptance{
		Spec: spec, Input: record.Input{Message: "go"}, Slots: slots,
		Chat: record.Fresh(lifecycle.Chat{
			ID: "c", OwnID: true, Organization: "o", User: "u", CreatedAt: machine.Now(),
		}),
	})
	require.NoError(t, err)
	do := func(c transition.Change) (record.Run, error) {
		r, err := x.Do(t.Context(), record.System(), spec.RunID,
			func(record.Run, *record.Tx) (transition.Change, error) { return c, nil })
		return r, err
	}
	_, err = do(transition.Change{Event: lifecycle.Claim{Holder: "w", Until: machine.Now().Add(time.Hour)}})
	require.NoError(t, err)

	paused, err := do(transition.Change{
		Event: lifecycle.Pause{
			Work: lifecycle.Work{Attempt: 1}, ExpiresAt: machine.Now().Add(time.Hour),
			Interrupts: []lifecycle.Pending{{ID: "i", Kind: lifecycle.Clarification}},
		},
		Interrupts: []record.Interrupt{{Interrupt: events.Interrupt{ID: "i", Prompt: "which?"}}},
	})
	require.NoError(t, err)
	assert.Equal(t, lifecycle.AwaitingInput, paused.Status)
	assert.EqualValues(t, 2, requests.Load(), "nobody waits for more")
	assert.Contains(t, log.String(), "a timer could not be set; the sweeper will see to it")
	assert.Contains(t, log.String(), "ThrottlingException")

	sweeper := &sweep.Sweeper{Executor: x, Store: store, Queue: deaf{}, Host: machine, Log: x.Log}
	status := func() lifecycle.Status {
		require.NoError(t, sweeper.Sweep(t.Context()))
		r, err := store.Run(t.Context(), record.System(), spec.RunID)
		require.NoError(t, err)
		return r.Value.Status
	}
	machine.by = 59 * time.Minute
	assert.Equal(t, lifecycle.AwaitingInput, status(), "not before it is due")
	machine.by = time.Hour + time.Second
	assert.True(t, status().Terminal(), "at its due time")
}
