//go:build integration

package local

import (
	"bytes"
	"fmt"
	"hash/crc32"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sfn"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/infra/cloudwatch"
)

// The faults of a game day in the dependencies of the stage: tables, the index, timers, the servers of others.

// instead sends the calls of a service to another handler until end is called.
func (d *day) instead(t *testing.T, service string, by http.Handler) (end func()) {
	t.Helper()
	server := httptest.NewServer(by)
	u, err := url.Parse(server.URL)
	require.NoError(t, err)
	d.guards.instead.Store(&map[string]*url.URL{service: u})
	end = sync.OnceFunc(func() {
		d.guards.instead.Store(nil)
		server.Close()
	})
	t.Cleanup(end)
	return end
}

// tables passes calls on to DynamoDB.
func tables(t *testing.T) http.Handler {
	t.Helper()
	u, err := url.Parse(os.Getenv("AWS_ENDPOINT_URL_DYNAMODB"))
	require.NoError(t, err)
	return httputil.NewSingleHostReverseProxy(u)
}

// refuse responds as AWS does, with an error of this name.
func refuse(w http.ResponseWriter, status int, name string) {
	body := fmt.Appendf(nil, `{"__type":%q,"message":"no more"}`, name)
	w.Header().Set("Content-Type", "application/x-amz-json-1.0")
	w.Header().Set("X-Amzn-Errortype", name)
	w.Header().Set("X-Amz-Crc32", strconv.FormatUint(uint64(crc32.ChecksumIEEE(body)), 10))
	w.WriteHeader(status)
	_, _ = w.Write(body)
}

// dynamoDB is the prefix of the names of its errors.
const dynamoDB = "com.amazonaws.dynamodb.v20120810#"

// interceptTable offers the calls to a table to answer. If answer returns false, the table handles the call.
func (d *day) interceptTable(
	t *testing.T, table string, answer func(w http.ResponseWriter, writes bool) bool,
) (end func()) {
	t.Helper()
	pass, name := tables(t), `"`+d.outputs[table+"Table"]+`"`
	return d.instead(t, "dynamodb", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(body))
		target := r.Header.Get("X-Amz-Target")
		writes := strings.Contains(target, "Write") || strings.Contains(target, "Put") ||
			strings.Contains(target, "Update")
		if err != nil || !strings.Contains(string(body), name) || !answer(w, writes) {
			pass.ServeHTTP(w, r)
		}
	}))
}

// busy makes a table refuse calls, as a throttled table does. count adds the number of refused calls to o.
func (d *day) busy(t *testing.T, table string) (end func(), count func(o *observed)) {
	t.Helper()
	var reads, writes atomic.Int64
	end = d.interceptTable(t, table, func(w http.ResponseWriter, writing bool) bool {
		if writing {
			writes.Add(1)
		} else {
			reads.Add(1)
		}
		refuse(w, http.StatusBadRequest, dynamoDB+"ProvisionedThroughputExceededException")
		return true
	})
	return end, func(o *observed) {
		o.values[d.watched(t, table+"TableThrottled", "ReadThrottleEvents")] = float64(reads.Load())
		o.values[d.watched(t, table+"TableThrottled", "WriteThrottleEvents")] = float64(writes.Load())
	}
}

// theAgentFails makes every run of an agent fail. That is not a fault of the service, so its alarms stay quiet.
func (d *day) theAgentFails(t *testing.T) {
	t.Helper()
	log, is := d.chat.log.(*os.File) // of the function of POST /chat, which is not LocalStack's here
	require.True(t, is)
	before, err := log.Stat()
	require.NoError(t, err)
	const times = 20
	for range times {
		a := d.do(t, d.chatRequest(t, "agent_id", d.demo, "message", "/fail no luck"))
		require.Equal(t, []any{http.StatusInternalServerError, "run_failed"}, []any{a.status, a.text("code")}, a.raw)
	}
	var with observed
	require.Eventually(t, func() bool { // logs come a little later
		with = d.more(t, with)
		return with.logContains("EnteredFailed")
	}, time.Minute, time.Second)
	output, err := io.ReadAll(io.NewSectionReader(log, before.Size(), 1<<20))
	require.NoError(t, err)
	group := d.groups["/aws/lambda/"+d.outputs["ChatFunctionName"]]
	require.NotEmpty(t, group)
	for line := range strings.Lines(string(output)) {
		with.lines = append(with.lines, d.line(group, line))
	}
	require.True(t, with.logContains("run_failed"))
	with.values[d.metric(t, "Count", "")] = times
	for name := range d.alarms {
		if strings.HasSuffix(name, "Failing") || slices.Contains([]string{"GatewayErrors", "RunsUnstartable"}, name) {
			assert.Equal(t, cloudwatch.OK, d.state(t, name, d.calm, with), "%s when every run of an agent failed", name)
		}
	}
}

// theTableIsBusy throttles the core table, so that nothing can be answered, streamed or swept.
func (d *day) theTableIsBusy(t *testing.T) {
	t.Helper()
	run := d.begin(t, d.demo, "message", "hello")
	d.await(t, run, "completed", time.Minute)
	const times = 6
	ask := func(o *observed) {
		var streams, sweeps atomic.Int64
		var all sync.WaitGroup
		for range times { // in one burst: each call of the table is retried for a while
			all.Go(func() { d.get(t, "/me") })
			all.Go(func() {
				if d.get(t, "/runs/"+run+"/stream").status >= http.StatusInternalServerError {
					streams.Add(1)
				}
			})
		}
		all.Go(func() {
			for range 3 {
				if !d.sweepOnce(t) {
					sweeps.Add(1)
				}
			}
		})
		all.Wait()
		o.values[d.metric(t, "Count", "")] = times
		o.values[d.metric(t, "HTTPCode_Target_5XX_Count", "")] = float64(streams.Load())
		o.values[d.metric(t, "Errors", "SweeperFunction")] = float64(sweeps.Load())
	}
	end, count := d.busy(t, "Core")
	measured := observed{values: map[cloudwatch.Metric]float64{}}
	ask(&measured)
	end()
	begun := time.Now()
	with := d.observe(t)
	maps.Copy(with.values, measured.values)
	count(&with)
	require.Eventually(t, func() bool { // logs come a little later
		with = d.more(t, with)
		return d.state(t, "GatewayErrors", d.calm, with) == cloudwatch.Raised
	}, time.Minute, time.Second)
	d.ordinary(t)
	_ = d.observe(t) // what was still reported of the fault
	d.ordinary(t)
	after := d.observe(t)
	ask(&after)
	d.proves(t, "the core table took no more", with, after, time.Since(begun), "CoreTableThrottled", "GatewayErrors",
		"StreamErrors", "SweeperFailing")
}

// theFeedIsBusy throttles the feed table while a run streams. The run completes all the same.
func (d *day) theFeedIsBusy(t *testing.T) {
	t.Helper()
	end, count := d.busy(t, "Feed")
	d.await(t, d.begin(t, d.demo, "message", "count\n/stream 20 100ms"), "completed", time.Minute)
	end()
	begun := time.Now()
	with := d.observe(t)
	count(&with)
	d.ordinary(t)
	d.proves(t, "the feed table took no more; a run completed", with, d.observe(t), time.Since(begun),
		"FeedTableThrottled")
}

// commitsMeet refuses every other write of a table as a conflict, a few more than the alarm allows. Each write is
// retried. Runs are accepted, end and stream all the same.
func (d *day) commitsMeet(t *testing.T) {
	t.Helper()
	const most = 60
	for _, c := range []struct {
		table, message string
		streamed       bool
	}{{"Core", "hello", false}, {"Feed", "count\n/stream 60 100ms", true}} {
		alarm := c.table + "TableConflicts"
		var writes, met atomic.Int64
		end := d.interceptTable(t, c.table, func(w http.ResponseWriter, writing bool) bool {
			if !writing || writes.Add(1)%2 == 0 || met.Load() >= most {
				return false
			}
			met.Add(1)
			refuse(w, http.StatusBadRequest, dynamoDB+"TransactionConflictException")
			return true
		})
		for last := time.Now().Add(3 * time.Minute); met.Load() < most && time.Now().Before(last); {
			run := d.begin(t, d.demo, "message", c.message)
			if c.streamed {
				require.Equal(t, http.StatusOK, d.get(t, "/runs/"+run+"/stream").status)
			}
			d.await(t, run, "completed", time.Minute)
		}
		end()
		begun := time.Now()
		with := d.observe(t)
		with.values[d.watched(t, alarm, "TransactionConflict")] = float64(met.Load())
		d.ordinary(t)
		d.proves(t, "commits met others at the same item; runs completed", with, d.observe(t), time.Since(begun), alarm)
	}
}

// theTableIsSlow delays each call of a table while a run stores each round of its calls before the next.
func (d *day) theTableIsSlow(t *testing.T) {
	t.Helper()
	pass := tables(t)
	run := d.begin(t, d.demo, "message", "/sleep 5s\n"+strings.Repeat("/tool current_time {}\nthen\n", 8))
	d.await(t, run, "running", time.Minute)
	end := d.instead(t, "dynamodb", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		time.Sleep(1200 * time.Millisecond)
		pass.ServeHTTP(w, r)
	}))
	for range 3 {
		require.Equal(t, http.StatusOK, d.get(t, "/runs/"+run+"/steps").status)
	}
	d.await(t, run, "completed", 3*time.Minute)
	with := d.until(t, "OwnTimeLong")
	end()
	begun := time.Now()
	d.ordinary(t)
	_ = d.observe(t) // what was still reported of the fault
	d.ordinary(t)
	d.proves(t, "each call of a table took 1.2 s", with, d.observe(t), time.Since(begun), "OwnTimeLong", "AnswersSlow")
}

// timersAreRefused makes Step Functions refuse all starts, so that a pause has no timer.
func (d *day) timersAreRefused(t *testing.T) {
	t.Helper()
	var starts atomic.Int64
	end := d.instead(t, "states", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		starts.Add(1)
		refuse(w, http.StatusBadRequest, "ThrottlingException")
	}))
	run := d.begin(t, d.demo, "message", "/ask Which?")
	d.await(t, run, "awaiting_input", time.Minute)
	var with observed
	require.Eventually(t, func() bool { // it is tried a few times
		with = d.more(t, with)
		return with.logContains("a timer could not be set")
	}, 3*time.Minute, time.Second)
	end()
	begun := time.Now()
	with.values[d.metric(t, "ThrottledEvents", "StartExecution")] = float64(starts.Load())
	d.sweepsUntil(t, "the pause ends", func() bool { return d.get(t, "/runs/"+run).text("status") == "cancelled" })
	late := d.until(t, "PausesLate")
	d.ordinary(t)
	after := d.observe(t)
	d.proves(t, "Step Functions refused to start a wait; the sweeper ended the pause", with, after,
		time.Since(begun), "PauseMachineThrottled")
	d.proves(t, "Step Functions refused to start a wait; the sweeper ended the pause", late, after,
		time.Since(begun), "PausesLate")
}

// theIndexRefuses makes S3 Vectors refuse all calls. Documents fail, and cannot be searched.
func (d *day) theIndexRefuses(t *testing.T) {
	t.Helper()
	base := d.base(t, fields{})
	d.ready(t, d.document(t, base, fields{"text": "swordfish"}))
	require.NotZero(t, d.hits(t, "swordfish"))
	end := d.instead(t, "s3vectors", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		refuse(w, http.StatusForbidden, "AccessDeniedException")
	}))
	for range 3 {
		a := d.post(t, "/search", fields{"query": "swordfish"})
		assert.GreaterOrEqual(t, a.status, 500, a.raw)
	}
	second := d.document(t, base, fields{"text": "kingfisher"})
	d.sweepsUntil(t, "the document fails", func() bool { return d.get(t, second).text("status") == "failed" })
	with := d.until(t, "IngestionsFailing")
	end()
	begun := time.Now()
	failed, _ := d.get(t, base+"/documents?status=failed").body["documents"].([]any)
	require.Len(t, failed, 1)
	a := d.post(t, base+"/reprocess", fields{"status": "failed"})
	require.Equal(t, http.StatusAccepted, a.status, a.raw)
	d.ready(t, second)
	require.NotZero(t, d.hits(t, "kingfisher"))
	_ = d.observe(t) // what was still reported of the fault
	require.NotZero(t, d.hits(t, "swordfish"))
	d.ready(t, d.document(t, base, fields{"text": "halcyon"}))
	d.ordinary(t)
	d.proves(t, "the index of documents refused calls", with, d.observe(t), time.Since(begun), "IngestionsFailing",
		"SearchesFailing")
}

func (d *day) timersAreLost(t *testing.T) {
	t.Helper()
	machine := sfn.NewFromConfig(d.account)
	run := d.begin(t, d.demo, "message", "/ask Which?")
	d.await(t, run, "awaiting_input", time.Minute)
	execution := strings.Replace(d.outputs["PauseMachineArn"], ":stateMachine:", ":execution:", 1) + ":" + run + "-p1"
	_, err := machine.StopExecution(t.Context(), &sfn.StopExecutionInput{ExecutionArn: &execution})
	require.NoError(t, err)
	begun := time.Now()
	d.sweepsUntil(t, "the pause ends", func() bool { return d.get(t, "/runs/"+run).text("status") == "cancelled" })
	with := d.until(t, "PausesLate")
	d.ordinary(t)
	d.proves(t, "a wait of Step Functions was stopped; the sweeper ended the pause", with, d.observe(t),
		time.Since(begun), "PausesLate")

	_, err = machine.StartExecution(t.Context(), &sfn.StartExecutionInput{
		StateMachineArn: aws.String(d.outputs["PauseMachineArn"]), Input: aws.String(`{}`)})
	require.NoError(t, err)
	failed := d.metric(t, "ExecutionsFailed", "PauseMachine")
	require.Eventually(t, func() bool {
		with = d.observe(t)
		return with.values[failed] > 0
	}, time.Minute, time.Second)
	begun = time.Now()
	d.ordinary(t)
	d.proves(t, "a wait of Step Functions failed", with, d.observe(t), time.Since(begun), "PauseMachineFailed")
}

// standIn stands in for a server of others: a webhook's receiver, or a model's provider.
type standIn struct {
	server *httptest.Server
	broken atomic.Bool
}

func newStandIn(t *testing.T, tls bool) *standIn {
	t.Helper()
	s := &standIn{}
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case s.broken.Load():
			w.WriteHeader(http.StatusServiceUnavailable)
		case strings.HasSuffix(r.URL.Path, "/chat/completions"):
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = w.Write([]byte(`data: {"id":"1","object":"chat.completion.chunk","created":1,"model":"m",` +
				`"choices":[{"index":0,"delta":{"role":"assistant","content":"yes"},"finish_reason":"stop"}]}` +
				"\n\ndata: [DONE]\n\n"))
		}
	})
	if tls {
		s.server = httptest.NewTLSServer(handler)
	} else {
		s.server = httptest.NewServer(handler)
	}
	t.Cleanup(s.server.Close)
	return s
}

// othersFail makes the servers of others refuse, each in turn.
func (d *day) othersFail(t *testing.T, hook, model *standIn) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, d.URL+"/agents", strings.NewReader(
		`{"name":"Other","instructions":"x","skip_check":true,`+
			`"model":{"provider":"openai","name":"m"}}`))
	require.NoError(t, err)
	r.Header.Set("Content-Type", "application/json")
	made := d.do(t, r)
	require.Less(t, made.status, 300, made.raw)
	other := made.text("agent_id")
	pushed := func(want string) {
		run := d.begin(t, d.demo, "message", "hello", "callback_url", hook.server.URL)
		d.await(t, run, "completed", time.Minute)
		require.Eventually(t, func() bool {
			list, _ := d.get(t, "/webhooks/deliveries?run_id="+run).body["deliveries"].([]any)
			if len(list) == 0 {
				return false
			}
			first, _ := list[0].(map[string]any)
			attempts, _ := first["attempts"].([]any)
			return len(attempts) > 0 && (want == "" || first["state"] == want)
		}, time.Minute, 500*time.Millisecond)
	}
	modelled := func(statuses ...string) {
		run := d.begin(t, other, "message", "hello")
		for _, s := range statuses {
			d.await(t, run, s, 2*time.Minute)
		}
	}
	for _, c := range []struct {
		alarm, fault  string
		who           *standIn
		provoke, mend func()
	}{
		{"WebhooksFailing", "a receiver answered 503", hook, func() { pushed("") }, func() { pushed("delivered") }},
		{"ModelsFailing", "a model's provider answered 503", model, func() { modelled("failed") },
			func() { modelled("completed") }},
	} {
		c.who.broken.Store(true)
		c.provoke()
		with := d.until(t, c.alarm)
		c.who.broken.Store(false)
		begun := time.Now()
		c.mend()
		_ = d.observe(t) // what was still reported of the fault
		c.mend()
		d.ordinary(t)
		d.proves(t, c.fault, with, d.observe(t), time.Since(begun), c.alarm)
	}
}
