package webhook_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"agentplatform/internal/core/lifecycle"
	"agentplatform/internal/platform/host"
	"agentplatform/internal/proof/faulttable"
	"agentplatform/internal/run/sweep"
	"agentplatform/internal/run/transition"
	"agentplatform/internal/run/webhook"
	"agentplatform/internal/store/blob"
	"agentplatform/internal/store/blob/memblob"
	"agentplatform/internal/store/queue"
	"agentplatform/internal/store/record"
	"agentplatform/internal/store/seal"
	"agentplatform/internal/store/table/memtable"
)

// stage is a store with one due delivery, and its sender.
type stage struct {
	*receiver

	clock    *clock
	items    *faulttable.Table
	store    *record.Store
	sender   *webhook.Sender
	sweeper  *sweep.Sweeper
	hook     record.Delivery
	attempts []bool
	fails    func() bool // reports whether a call of the store or blob store fails; nil: none
}

// receiver answers each post, after calling a function.
type receiver struct {
	status    int
	header    http.Header
	answer    string
	err       error
	meanwhile func()

	posts   int
	request *http.Request
	body    string // of the last post
	bounds  []time.Duration
	closed  int
}

func (r *receiver) Do(request *http.Request) (*http.Response, error) {
	r.posts++
	r.request = request
	r.bounds, _ = request.Context().Value(bounds{}).([]time.Duration)
	body, err := io.ReadAll(request.Body)
	if err != nil {
		return nil, err
	}
	r.body = string(body)
	if r.meanwhile != nil {
		r.meanwhile()
	}
	if r.err != nil {
		return nil, r.err
	}
	content := &answer{strings.NewReader(r.answer), request.Context(), r}
	return &http.Response{StatusCode: r.status, Header: r.header, Body: content}, nil
}

// answer is a body that can be read while its request's context lasts.
type answer struct {
	io.Reader

	of context.Context // the request's context, which must outlive the reading
	to *receiver
}

func (a *answer) Read(b []byte) (int, error) {
	if err := a.of.Err(); err != nil {
		return 0, err
	}
	return a.Reader.Read(b)
}

func (a *answer) Close() error {
	a.to.closed++
	return nil
}

// clock is a host whose time the test moves and that does not wait.
type clock struct {
	host.Host

	now     time.Time
	elapsed time.Duration
	least   bool // random numbers are the least possible, not the greatest
}

func (c *clock) Now() time.Time { return c.now }

func (c *clock) Elapsed() time.Duration { return time.Hour + c.elapsed }

func (c *clock) Sleep(ctx context.Context, _ time.Duration) error { return ctx.Err() }

func (c *clock) Int64N(n int64) int64 {
	if c.least {
		return 0
	}
	return n - 1
}

// bounds is the context key of the timeout.
type bounds struct{}

func (c *clock) WithTimeout(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	outer, _ := ctx.Value(bounds{}).([]time.Duration)
	return context.WithCancel(context.WithValue(ctx, bounds{}, append(outer[:len(outer):len(outer)], d)))
}

// sealer opens texts with the name of the organization for which they were sealed.
type sealer struct{}

func (sealer) Seal(_ context.Context, owner, plain string) (string, error) {
	return owner + ":" + plain, nil
}

func (sealer) Open(_ context.Context, owner, sealed string) (string, error) {
	if plain, ok := strings.CutPrefix(sealed, owner+":"); ok {
		return plain, nil
	}
	return "", seal.ErrNotOurs
}

// blobs is a blob store that fails if the stage is set to.
type blobs struct {
	blob.Store

	s *stage
}

func (b blobs) Get(ctx context.Context, key string) (io.ReadCloser, error) {
	if b.s.fails != nil && b.s.fails() {
		return nil, errors.New("broken")
	}
	return b.Store.Get(ctx, key)
}

type noQueue struct{}

func (noQueue) Send(context.Context, queue.Message) error { return nil }

func newStage(t *testing.T) *stage {
	t.Helper()
	c, log := &clock{Host: host.System()}, slog.New(slog.DiscardHandler)
	c.now = c.Host.Now()
	s := &stage{clock: c, receiver: &receiver{status: http.StatusOK, answer: "thanks"}}
	s.items = &faulttable.Table{Inner: memtable.New(c.Now), Before: s.plain}
	s.store = record.New(s.items, blobs{&memblob.Store{}, s}, c)
	s.sender = &webhook.Sender{
		Store: s.store, Host: c, Client: s.receiver, Log: log, Secret: "s", Sealer: sealer{},
		OnAttempt: func(delivered bool) { s.attempts = append(s.attempts, delivered) },
	}
	s.sweeper = &sweep.Sweeper{
		Executor: &transition.Executor{Store: s.store, Host: c, Log: log}, Store: s.store, Queue: noQueue{}, Host: c,
		Log: log,
	}
	s.due(t, record.Delivery{Organization: record.NoOrganization, CallbackURL: "https://example.com/", Body: "{}"})
	return s
}

// plain is a table whose calls fail if the stage is set to.
func (s *stage) plain(faulttable.Call) faulttable.Fault {
	if s.fails != nil && s.fails() {
		return faulttable.Down
	}
	return faulttable.None
}

// due stores a delivery that has been due for a second, of its own run.
func (s *stage) due(t *testing.T, h record.Delivery) {
	t.Helper()
	var run record.Run
	run.RunID, run.Organization, run.Status = s.clock.NewID(), h.Organization, lifecycle.AwaitingInput
	h.RunID, h.Sequence, h.State, h.NextAttempt = run.RunID, 1, record.DeliveryPending, s.clock.now.Add(-time.Second)
	h.DeliveryID = record.DeliveryID(h.RunID, h.Sequence)
	tx := s.store.Begin("made")
	tx.PutRun(record.Fresh(run))
	tx.NewDelivery(t.Context(), h)
	require.NoError(t, tx.Commit(t.Context()))
	s.hook = h
}

func (s *stage) now(t *testing.T) record.Delivery {
	t.Helper()
	e, found, err := s.store.DeliveryAt(t.Context(), s.hook.RunID, 1)
	require.NoError(t, err)
	require.True(t, found)
	return e.Value
}

// handle calls the sender with the delivery.
func (s *stage) handle(t *testing.T) time.Duration {
	t.Helper()
	again, err := s.sender.Handle(t.Context(), s.hook.WakeupID())
	require.NoError(t, err)
	return again
}

// edit writes the delivery as another writer would.
func (s *stage) edit(t *testing.T, change func(h *record.Delivery)) {
	t.Helper()
	e, _, err := s.store.DeliveryAt(t.Context(), s.hook.RunID, 1)
	require.NoError(t, err)
	change(&e.Value)
	tx := record.New(s.items.Inner, blobs{&memblob.Store{}, s}, s.clock).Begin("rival")
	tx.PutDelivery(e)
	require.NoError(t, tx.Commit(t.Context()))
}
