//go:build integration

package proof_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/events"
	"agentplatform/internal/proof/invariant"
	"agentplatform/internal/run/dispatch"

	"agentplatform/internal/run/sweep"
	"agentplatform/internal/store/table/dynamotable"
)

// proxy is between the service and AWS. While it is on, a request may be dropped, delayed or doubled, or its response
// lost. It also answers with the conflicts and throttles that an emulator never produces.
type proxy struct {
	upstream, database string // where LocalStack is, and its DynamoDB
	on                 atomic.Bool

	mu     sync.Mutex
	random *rand.Rand
	faults map[string]int
}

func (p *proxy) draw() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.random.IntN(100)
}

func (p *proxy) note(fault string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.faults[fault]++
}

func cut(w http.ResponseWriter) {
	if c, _, err := http.NewResponseController(w).Hijack(); err == nil {
		_ = c.Close()
	}
}

func (p *proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		cut(w)
		return
	}
	target := r.Header.Get("X-Amz-Target")
	table := strings.HasPrefix(target, "DynamoDB_")
	if p.on.Load() && !strings.HasSuffix(target, ".ReceiveMessage") {
		switch n := p.draw(); {
		case n < 3:
			p.note("dropped")
			cut(w)
			return
		case n < 6:
			p.note("delayed")
			time.Sleep(200 * time.Millisecond) // the injected fault
		case n < 8:
			p.note("doubled")
			_, _ = p.forward(r, body)
		case n < 12:
			p.note("reply lost")
			_, _ = p.forward(r, body)
			cut(w)
			return
		case n < 13:
			p.note("server error")
			http.Error(w, `{"__type":"InternalServerError"}`, http.StatusInternalServerError)
			return
		case n < 18 && strings.HasSuffix(target, ".TransactWriteItems"):
			p.note("conflict")
			refuse(w, conflict(body))
			return
		case n < 15 && table:
			p.note("throttled")
			refuse(w, map[string]any{"message": "too much",
				"__type": "com.amazonaws.dynamodb.v20120810#ProvisionedThroughputExceededException"})
			return
		}
	}
	response, err := p.forward(r, body)
	if err != nil {
		cut(w)
		return
	}
	for name, values := range response.header {
		w.Header()[name] = values
	}
	w.WriteHeader(response.status)
	_, _ = w.Write(response.body)
}

type answered struct {
	status int
	header http.Header
	body   []byte
}

func (p *proxy) forward(r *http.Request, body []byte) (answered, error) {
	upstream := p.upstream
	if strings.HasPrefix(r.Header.Get("X-Amz-Target"), "DynamoDB_") {
		upstream = p.database
	}
	again, err := http.NewRequestWithContext(context.WithoutCancel(r.Context()), r.Method,
		upstream+r.URL.RequestURI(), bytes.NewReader(body))
	if err != nil {
		return answered{}, err
	}
	again.Header = r.Header.Clone()
	response, err := http.DefaultTransport.RoundTrip(again)
	if err != nil {
		return answered{}, err
	}
	defer func() { _ = response.Body.Close() }()
	b, err := io.ReadAll(response.Body)
	return answered{response.StatusCode, response.Header, b}, err
}

func refuse(w http.ResponseWriter, what map[string]any) {
	w.Header().Set("Content-Type", "application/x-amz-json-1.0")
	w.WriteHeader(http.StatusBadRequest)
	_ = json.NewEncoder(w).Encode(what)
}

// conflict is the response to a transaction whose first item is in another transaction.
func conflict(body []byte) map[string]any {
	var in struct{ TransactItems []any }
	_ = json.Unmarshal(body, &in)
	reasons := []map[string]any{{"Code": "TransactionConflict", "Message": "Transaction is ongoing for the item"}}
	for range len(in.TransactItems) - 1 {
		reasons = append(reasons, map[string]any{"Code": "None"})
	}
	return map[string]any{
		"__type": "com.amazonaws.dynamodb.v20120810#TransactionCanceledException", "Message": "Transaction cancelled",
		"CancellationReasons": reasons,
	}
}

// processes runs the functions' loops until the test ends.
func (b *bench) processes(ctx context.Context) (wait func()) {
	var working sync.WaitGroup
	run := func(kind events.WakeupKind, width int, handle dispatch.Handler) {
		working.Go(func() { dispatch.Run(ctx, b.Queues[kind], width, b.Log, handle) })
	}
	run(events.WakeupRun, 12,
		func(ctx context.Context, id string) (time.Duration, error) { return 0, b.worker.Handle(ctx, id) })
	run(events.WakeupWebhook, 4, b.sender.Handle)
	sweeper := &sweep.Sweeper{Executor: b.Executor, Store: b.Store, Queue: b.Queues, Host: b.Host, Log: b.Log}
	working.Go(func() {
		for b.Host.Sleep(ctx, time.Second) == nil {
			_ = sweeper.Sweep(ctx) // the next sweep retries
		}
	})
	return working.Wait
}

// send posts a message until the response is not a failure of the service. It returns the run that was started.
func (b *bench) send(key string, fields ...string) (run string) {
	for range 150 {
		var form bytes.Buffer
		w := multipart.NewWriter(&form)
		fields := append([]string{"agent_id", b.first.Agent.ID, "wait", "false", "idempotency_key", key}, fields...)
		for i := 0; i+1 < len(fields); i += 2 {
			_ = w.WriteField(fields[i], fields[i+1])
		}
		_ = w.Close()
		r, err := http.NewRequestWithContext(b.Context(), http.MethodPost, b.url+"/chat", &form)
		if !assert.NoError(b, err) {
			return ""
		}
		r.Header.Set("Authorization", "Bearer "+b.first.Key)
		r.Header.Set("Content-Type", w.FormDataContentType())
		response, err := http.DefaultClient.Do(r)
		if !assert.NoError(b, err) {
			return ""
		}
		raw, _ := io.ReadAll(response.Body)
		_ = response.Body.Close()
		var answer struct {
			RunID  string `json:"run_id"`
			Code   string `json:"code"`
			Parked *struct {
				ParkedID string `json:"parked_id"`
			} `json:"parked"`
		}
		_ = json.Unmarshal(raw, &answer)
		switch {
		case response.StatusCode == http.StatusAccepted && answer.Parked != nil:
			return answer.Parked.ParkedID
		// A run that has failed by then is reported with its own status.
		case answer.RunID != "" && (answer.Code == "" || answer.Code == "run_failed"):
			return answer.RunID
		case response.StatusCode >= 500, response.StatusCode == http.StatusTooManyRequests,
			answer.Code == "parked_queue_full":
			_ = b.Host.Sleep(b.Context(), 300*time.Millisecond)
		default:
			assert.Fail(b, "an answer that no fault explains", "%d %s", response.StatusCode, raw)
			return ""
		}
	}
	assert.Fail(b, "a message was not taken in 150 tries")
	return ""
}

func TestWhatHoldsWhileEveryCallMayFail(t *testing.T) {
	const clients, each = 10, 22
	p := &proxy{random: rand.New(rand.NewPCG(1, 2)), faults: map[string]int{}}
	server := httptest.NewServer(p)
	t.Cleanup(server.Close)
	b := open(t, func(account aws.Config) aws.Config {
		p.upstream, p.database = *account.BaseEndpoint, os.Getenv("AWS_ENDPOINT_URL_DYNAMODB")
		account.BaseEndpoint = aws.String(server.URL)
		t.Setenv("AWS_ENDPOINT_URL_DYNAMODB", server.URL) // it would have precedence
		return account
	}, "LEASE=5s", "USER_CAP=100", "ORGANIZATION_CAP=100", "RATE_LIMIT=1000000", "RATE_BURST=1000000")
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	wait := b.processes(ctx)
	defer wait()
	defer stop()

	p.on.Store(true)
	var mu sync.Mutex
	accepted := map[string]string{} // run ids by idempotency key
	var sending sync.WaitGroup
	for c := range clients {
		sending.Go(func() {
			for n := range each {
				key := fmt.Sprintf("%d-%d", c, n)
				fields := []string{"message",
					[]string{"hello", "/sleep 300ms", "/tool echo {\"text\":\"a\"}", "/fail no"}[n%4]}
				if n%3 == 0 {
					fields = append(fields, "callback_url", b.hook)
				}
				if n%2 == 0 {
					fields = append(fields, "chat_id", fmt.Sprint("chat-", c%5), "on_conflict", "enqueue")
				}
				run := b.send(key, fields...)
				mu.Lock()
				accepted[key] = run
				mu.Unlock()
				if n%5 == 0 { // a client that did not get the response
					assert.Equal(t, run, b.send(key, fields...), "the same key leads to the same run")
				}
			}
		})
	}
	sending.Wait()
	p.on.Store(false)

	var all *invariant.Audit
	require.Eventually(t, func() bool {
		all = b.audit()
		if len(all.Slots) > 0 {
			return false
		}
		for _, run := range accepted {
			if r, there := all.Runs[run]; !there || r.Status.Active() {
				return false
			}
		}
		return true
	}, 3*time.Minute, time.Second, "when faults stop, everything settles: %v", unsettled{b, accepted})

	assert.GreaterOrEqual(t, len(all.Runs), 200)
	runs := map[string]string{}
	for key, run := range accepted {
		assert.Empty(t, runs[run], "two keys led to one run: %s and %s", runs[run], key)
		runs[run] = key
	}
	assert.Len(t, all.Runs, len(accepted), "a run that nobody asked for")
	for id, r := range all.Runs {
		assert.Len(t, all.Ledger[id], 1, "run %s is billed once", id)
		assert.False(t, r.Status.Active(), id)
	}
	for _, chat := range all.Chats {
		assert.Empty(t, chat.ActiveRun, "chat %s is free", chat.ID)
	}
	rows := map[string]int{}
	for _, h := range all.Deliveries {
		rows[h.RunID]++
		assert.Equal(t, 1, rows[h.RunID], "one delivery for each ended run")
	}
	t.Logf("%d runs; faults: %v", len(all.Runs), p.faults)
	for _, fault := range []string{"dropped", "delayed", "doubled", "reply lost", "conflict", "throttled",
		"server error"} {
		assert.Positive(t, p.faults[fault], fault)
	}
}

// unsettled is the unfinished work at a point in time.
type unsettled struct {
	*bench
	accepted map[string]string
}

func (u unsettled) String() string {
	var s strings.Builder
	all := u.audit()
	for key, run := range u.accepted {
		if r, there := all.Runs[run]; !there || r.Status.Active() {
			fmt.Fprintf(&s, "\n%s: run %q, there %v: %+v", key, run, there, r.Run)
		}
	}
	for key, run := range all.Slots {
		fmt.Fprintf(&s, "\nslot %s of run %s", key, run)
	}
	return s.String()
}

// audit reads the whole table, past the proxy.
func (b *bench) audit() *invariant.Audit {
	all := invariant.NewAudit()
	client := dynamodb.NewFromConfig(b.direct)
	pages := dynamodb.NewScanPaginator(client,
		&dynamodb.ScanInput{TableName: aws.String(b.Cloud.CoreTable), ConsistentRead: aws.Bool(true)})
	for pages.HasMorePages() {
		page, err := pages.NextPage(b.Context())
		require.NoError(b, err)
		for _, attributes := range page.Items {
			item, err := dynamotable.Decode(attributes)
			require.NoError(b, err)
			require.NoError(b, all.Add(item))
		}
	}
	return all
}
