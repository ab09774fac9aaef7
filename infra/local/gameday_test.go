//go:build integration

package local

import (
	"encoding/json"
	"encoding/pem"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs"
	logtypes "github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs/types"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
	"github.com/aws/aws-sdk-go-v2/service/sfn"
	sfntypes "github.com/aws/aws-sdk-go-v2/service/sfn/types"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	sqstypes "github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/infra/cloudwatch"
)

var gameDay = flag.Bool("gameday", false, "bring about the faults that alarms are for, and follow the runbook")

// A game day: faults are brought about in a deployment, the alarms for them are raised by what the deployment then
// reports, the runbook's entries are followed, and the alarms and the service are well again. An alarm is evaluated as
// if what was seen in a phase went on for as long as it asks for.
type day struct {
	world

	operator string // the program
	stack    []byte // as synthesised, with its alarms
	alarms   map[string]cloudwatch.Alarm
	groups   map[string]string    // log groups: logical ids by names
	read     map[string]bool      // log events, by their ids
	waiting  map[string]time.Time // queues: since when something waits in them
	failed   int                  // executions that have failed before
	calm     observed
	report   strings.Builder
}

// observed is what was reported in one phase.
type observed struct {
	values map[cloudwatch.Metric]float64
	lines  []logged
}

type logged struct {
	group string
	line  []byte
}

// TestGameDay is run by make gameday.
func TestGameDay(t *testing.T) {
	if !*gameDay {
		t.Skip("make gameday runs it")
	}
	hook, model := newStandIn(t, true), newStandIn(t, false)
	certificate := filepath.Join(t.TempDir(), "ca.pem")
	require.NoError(t, os.WriteFile(certificate, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE",
		Bytes: hook.server.Certificate().Raw}), 0o600))
	w := startWithoutSweeps(t, map[string]string{
		"PAUSE_EXPIRY": "20s", "LEASE": "10s", "USER_CAP": "100", "ORGANIZATION_CAP": "100",
		"WEBHOOK_ALLOW_HOSTS": strings.TrimPrefix(hook.server.URL, "https://"), "WEBHOOK_CA_FILE": certificate,
		"WEBHOOK_SECRET": "s", "OPENAI_BASE_URL": model.server.URL + "/v1", "RATE_LIMIT": "1000000",
		"RATE_BURST": "1000000",
	})
	d := newDay(t, w)
	d.operate(t, "-do", "secret", "OPENAI_API_KEY")
	d.ordinary(t)
	d.calm = d.observe(t)
	d.workersAreKilled(t)
	d.timersAreLost(t)
	d.theTableIsBusy(t)
	d.othersFail(t, hook, model)
	for _, name := range []string{"run", "webhook", "job", "ingest"} {
		d.poison(t, name)
	}
	d.functionsStop(t)
	t.Log("\n| alarm | the fault | from the first step of the runbook until it was well |\n|---|---|---|\n" +
		d.report.String())
}

func newDay(t *testing.T, w world) *day {
	t.Helper()
	d := &day{world: w, alarms: map[string]cloudwatch.Alarm{}, groups: map[string]string{},
		read: map[string]bool{}, waiting: map[string]time.Time{}, operator: filepath.Join(t.TempDir(), "operate")}
	built, err := exec.CommandContext(t.Context(), "go", "build", "-o", d.operator,
		"../../scripts/operate").CombinedOutput()
	require.NoError(t, err, string(built))
	d.stack, err = os.ReadFile(filepath.Join(assembly, "Service.template.json"))
	require.NoError(t, err)
	alarms, _, err := cloudwatch.Read(d.stack)
	require.NoError(t, err)
	for _, a := range alarms {
		d.alarms[strings.TrimPrefix(a.Name, "agents-"+stageName+"-")] = a
	}
	var template struct {
		Resources map[string]struct{ Type string }
	}
	require.NoError(t, json.Unmarshal(d.stack, &template))
	for name, function := range w.physical(t, "AWS::Lambda::Function") {
		program, _, _ := strings.Cut(function, "Function")
		for id, r := range template.Resources {
			if r.Type == "AWS::Logs::LogGroup" && strings.HasPrefix(id, program+"Logs") {
				d.groups["/aws/lambda/"+name] = id // LocalStack does not know LoggingConfig
			}
		}
	}
	require.GreaterOrEqual(t, len(d.groups), 8)
	return d
}

// observe takes what was reported since it was called last.
func (d *day) observe(t *testing.T) observed {
	t.Helper()
	o := observed{values: map[cloudwatch.Metric]float64{}}
	logs := cloudwatchlogs.NewFromConfig(d.account)
	for name, id := range d.groups {
		pages := cloudwatchlogs.NewFilterLogEventsPaginator(logs, &cloudwatchlogs.FilterLogEventsInput{
			LogGroupName: &name})
		for pages.HasMorePages() {
			page, err := pages.NextPage(t.Context())
			if missing := (*logtypes.ResourceNotFoundException)(nil); errors.As(err, &missing) {
				break // nothing was logged yet
			}
			require.NoError(t, err)
			for _, e := range page.Events {
				if d.read[aws.ToString(e.EventId)] {
					continue
				}
				d.read[aws.ToString(e.EventId)] = true
				o.lines = append(o.lines, logged{id, []byte(strings.ReplaceAll(aws.ToString(e.Message),
					`"stage":"`+d.world.world+`"`, `"stage":"`+stageName+`"`))})
			}
		}
	}
	queues := sqs.NewFromConfig(d.account)
	for _, name := range []string{"Run", "Webhook", "Job", "Ingest"} {
		for output, seen := range map[string]func(visible, handled int){
			name + "DeadAddress": func(visible, _ int) {
				o.values[d.metric(t, "ApproximateNumberOfMessagesVisible", name+"Dead")] = float64(visible)
			},
			name + "QueueAddress": func(visible, handled int) {
				if visible+handled == 0 {
					delete(d.waiting, name)
				} else if d.waiting[name].IsZero() {
					d.waiting[name] = time.Now()
				}
				age := 0.0
				if since, waits := d.waiting[name]; waits {
					age = time.Since(since).Seconds()
				}
				o.values[d.metric(t, "ApproximateAgeOfOldestMessage", name+"Queue")] = age
			},
		} {
			out, err := queues.GetQueueAttributes(t.Context(), &sqs.GetQueueAttributesInput{
				QueueUrl: aws.String(d.outputs[output]), AttributeNames: []sqstypes.QueueAttributeName{"All"}})
			require.NoError(t, err)
			visible, err := strconv.Atoi(out.Attributes["ApproximateNumberOfMessages"])
			require.NoError(t, err)
			handled, err := strconv.Atoi(out.Attributes["ApproximateNumberOfMessagesNotVisible"])
			require.NoError(t, err)
			seen(visible, handled)
		}
	}
	list, err := sfn.NewFromConfig(d.account).ListExecutions(t.Context(), &sfn.ListExecutionsInput{
		StateMachineArn: aws.String(d.outputs["PauseMachineArn"]), StatusFilter: sfntypes.ExecutionStatusFailed})
	require.NoError(t, err)
	o.values[d.metric(t, "ExecutionsFailed", "PauseMachine")] = float64(len(list.Executions) - d.failed)
	d.failed = len(list.Executions)
	return o
}

// metric is the one of a name that an alarm watches, of a resource whose logical id begins like this.
func (d *day) metric(t *testing.T, name, resource string) cloudwatch.Metric {
	t.Helper()
	for _, a := range d.alarms {
		for _, m := range a.Metrics() {
			if m.Name() == name && (resource == "" || strings.Contains(string(m), "="+resource)) {
				return m
			}
		}
	}
	require.Fail(t, "no alarm watches "+name+" of "+resource)
	return ""
}

// state is that of an alarm after a calm time and then what was observed, over and over, for as long as it can ask for.
func (d *day) state(t *testing.T, alarm string, phases ...observed) cloudwatch.State {
	t.Helper()
	a, known := d.alarms[alarm]
	require.True(t, known, alarm)
	_, meter, err := cloudwatch.Read(d.stack)
	require.NoError(t, err)
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, o := range phases {
		for range a.Evaluated + 2 {
			for metric, value := range o.values {
				meter.Put(metric, at, value)
			}
			for _, l := range o.lines {
				require.NoError(t, meter.Log(l.group, at, l.line))
			}
			at = at.Add(a.Period)
		}
	}
	return a.State(meter, at)
}

// until observes until an alarm would be raised: logs come a little later than what they tell of.
func (d *day) until(t *testing.T, alarm string) observed {
	t.Helper()
	all := d.observe(t)
	for end := time.Now().Add(time.Minute); d.state(t, alarm, d.calm, all) == cloudwatch.OK && time.Now().Before(end); {
		select {
		case <-t.Context().Done():
			return all
		case <-time.After(time.Second):
		}
		next := d.observe(t)
		for metric, value := range next.values {
			all.values[metric] = max(all.values[metric], value)
		}
		all.lines = append(all.lines, next.lines...)
	}
	return all
}

// proves holds that alarms are quiet in a calm time, raised by what was observed with the fault, and quiet again by
// what was observed after the runbook was followed, which took so long.
func (d *day) proves(t *testing.T, fault string, with, after observed, took time.Duration, alarms ...string) {
	t.Helper()
	for _, alarm := range alarms {
		assert.Equal(t, cloudwatch.OK, d.state(t, alarm, d.calm), "%s in a calm time", alarm)
		assert.Equal(t, cloudwatch.Raised, d.state(t, alarm, d.calm, with), "%s when %s", alarm, fault)
		assert.Equal(t, cloudwatch.OK, d.state(t, alarm, d.calm, with, after), "%s after %s", alarm, fault)
		fmt.Fprintf(&d.report, "| %s | %s | %d s |\n", alarm, fault, int(took.Seconds()))
	}
}

func (d *day) operate(t *testing.T, arguments ...string) string {
	t.Helper()
	command := exec.CommandContext(t.Context(), d.operator, append([]string{"-stage", d.world.world}, arguments...)...)
	command.Stdin = strings.NewReader("a secret")
	out, err := command.CombinedOutput()
	require.NoError(t, err, string(out))
	return string(out)
}

// ordinary is a run and a sweep.
func (d *day) ordinary(t *testing.T) {
	t.Helper()
	d.await(t, d.begin(t, d.agent(t), "message", "hello"), "completed", time.Minute)
	d.sweepOnce(t)
}

func (d *day) sweepOnce(t *testing.T) {
	t.Helper()
	_, err := lambda.NewFromConfig(d.account).Invoke(t.Context(), &lambda.InvokeInput{
		FunctionName: aws.String(d.outputs["SweeperFunctionName"]), Payload: []byte(`{}`)})
	require.NoError(t, err)
}

// sweepsUntil sweeps until something has come about.
func (d *day) sweepsUntil(t *testing.T, what string, come func() bool) {
	t.Helper()
	require.Eventually(t, func() bool {
		d.sweepOnce(t)
		return come()
	}, 3*time.Minute, 2*time.Second, what)
}

var aMessageID = regexp.MustCompile(`(?m)^(\S+)  received`)

// poison sends what is no nudge to a queue, and discards it as the runbook says.
func (d *day) poison(t *testing.T, queue string) {
	t.Helper()
	name := strings.ToUpper(queue[:1]) + queue[1:]
	_, err := sqs.NewFromConfig(d.account).SendMessage(t.Context(), &sqs.SendMessageInput{
		QueueUrl: aws.String(d.outputs[name+"QueueAddress"]), MessageBody: aws.String("poison")})
	require.NoError(t, err)
	dead := d.metric(t, "ApproximateNumberOfMessagesVisible", name+"Dead")
	var with observed
	require.Eventually(t, func() bool {
		o := d.observe(t)
		with.lines = append(with.lines, o.lines...)
		with.values = o.values
		return o.values[dead] == 1
	}, 3*time.Minute, time.Second, "%s: no dead letter", name)
	begun := time.Now()
	id := aMessageID.FindStringSubmatch(d.operate(t, "dead-letters", queue))
	require.NotNil(t, id)
	d.operate(t, "-do", "discard", queue, id[1])
	assert.Contains(t, d.operate(t, "dead-letters", queue), "0 dead letters")
	d.ordinary(t)
	after := d.observe(t)
	failing := map[string]string{"run": "WorkerFailing"}[queue]
	if failing == "" {
		failing = name + "Failing"
	}
	d.proves(t, "a message that is no nudge came into the queue", with, after, time.Since(begun), name+"DeadLetters",
		failing)
}

// functionsStop has a run wait until the queue is old.
func (d *day) functionsStop(t *testing.T) {
	t.Helper()
	const fault = "the functions were stopped, and started again"
	agent := d.agent(t)
	d.operate(t, "-do", "stop", "functions")
	run := d.begin(t, agent, "message", "hello") // by the function of POST /chat, which is not LocalStack's here
	age := d.metric(t, "ApproximateAgeOfOldestMessage", "RunQueue")
	var with observed
	require.Eventually(t, func() bool {
		with = d.observe(t)
		return with.values[age] > 60
	}, 2*time.Minute, time.Second)
	begun := time.Now()
	d.operate(t, "-do", "start", "functions")
	d.await(t, run, "completed", 3*time.Minute)
	late := d.until(t, "StartsSlow")
	d.ordinary(t)
	var after observed
	require.Eventually(t, func() bool { // a nudge whose invocation was refused is in flight for 16 minutes
		after = d.observe(t)
		return after.values[age] <= 60
	}, 17*time.Minute, 2*time.Second)
	d.proves(t, fault, with, after, time.Since(begun), "RunQueueOld")
	d.proves(t, fault, late, after, time.Since(begun), "StartsSlow")
}

func (d *day) workersAreKilled(t *testing.T) {
	t.Helper()
	var runs []string
	agent := d.agent(t)
	for range 6 {
		runs = append(runs, d.begin(t, agent, "message", "/sleep 40s"))
	}
	for _, run := range runs {
		d.await(t, run, "running", time.Minute)
	}
	for _, pid := range d.processes("WorkerFunctionName") {
		kill(t, pid)
	}
	begun := time.Now()
	d.sweepsUntil(t, "the runs are taken over", func() bool {
		for _, run := range runs {
			if d.stored(t, run).Attempt < 2 {
				return false
			}
		}
		return true
	})
	with := d.until(t, "WorkersLost")
	for _, run := range runs {
		d.await(t, run, "completed", 3*time.Minute)
	}
	d.ordinary(t)
	d.proves(t, "the workers of six runs were killed; they are taken over by themselves", with, d.observe(t),
		time.Since(begun), "WorkersLost")
}

func (d *day) timersAreLost(t *testing.T) {
	t.Helper()
	machine := sfn.NewFromConfig(d.account)
	run := d.begin(t, d.agent(t), "message", "/ask Which?")
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

// theTableIsBusy has the core table refuse calls, as one does that takes no more.
func (d *day) theTableIsBusy(t *testing.T) {
	t.Helper()
	var reads, writes atomic.Int64
	busy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.Contains(r.Header.Get("X-Amz-Target"), "Write") ||
			strings.Contains(r.Header.Get("X-Amz-Target"), "Put") {
			writes.Add(1)
		} else {
			reads.Add(1)
		}
		w.Header().Set("Content-Type", "application/x-amz-json-1.0")
		w.WriteHeader(http.StatusBadRequest)
		_, _ = w.Write([]byte(`{"__type":"com.amazonaws.dynamodb.v20120810#ProvisionedThroughputExceededException",` +
			`"message":"no more"}`))
	}))
	t.Cleanup(busy.Close)
	ask := func(o *observed) {
		count, failed := d.metric(t, "Count", ""), d.metric(t, "5XXError", "")
		for range 5 {
			o.values[count]++
			if d.get(t, "/me").status >= 500 {
				o.values[failed]++
			}
		}
	}
	u, err := url.Parse(busy.URL)
	require.NoError(t, err)
	d.guards.instead.Store(&map[string]*url.URL{"dynamodb": u})
	var asked observed
	asked.values = map[cloudwatch.Metric]float64{}
	ask(&asked)
	d.guards.instead.Store(nil)
	begun := time.Now()
	with := d.observe(t)
	for metric, value := range asked.values {
		with.values[metric] = value
	}
	core := "TableName=" + d.coreExport(t)
	with.values[cloudwatch.Metric("AWS/DynamoDB ReadThrottleEvents "+core)] = float64(reads.Load())
	with.values[cloudwatch.Metric("AWS/DynamoDB WriteThrottleEvents "+core)] = float64(writes.Load())
	d.ordinary(t)
	after := d.observe(t)
	ask(&after)
	d.proves(t, "the core table took no more", with, after, time.Since(begun), "CoreTableThrottled", "GatewayErrors")
}

// coreExport is how the template names the core table, which is in another stack.
func (d *day) coreExport(t *testing.T) string {
	t.Helper()
	m := d.alarms["CoreTableConflicts"].Metrics()[0]
	_, name, found := strings.Cut(string(m), "TableName=")
	require.True(t, found)
	return name
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

// othersFail has the servers of others refuse, each in turn.
func (d *day) othersFail(t *testing.T, hook, model *standIn) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, d.URL+"/agents", strings.NewReader(
		`{"name":"Other","instructions":"x","skip_check":true,`+
			`"model":{"provider":"openai","name":"m"}}`))
	require.NoError(t, err)
	r.Header.Set("Content-Type", "application/json")
	made := d.do(t, r)
	require.Less(t, made.status, 300, made.raw)
	other, demo := made.text("agent_id"), d.agent(t)
	pushed := func(want string) {
		run := d.begin(t, demo, "message", "hello", "callback_url", hook.server.URL)
		d.await(t, run, "completed", time.Minute)
		require.Eventually(t, func() bool {
			list, _ := d.get(t, "/webhooks/deliveries?run_id="+run).body["deliveries"].([]any)
			if len(list) == 0 {
				return false
			}
			first, _ := list[0].(map[string]any)
			tries, _ := first["attempts"].([]any)
			return len(tries) > 0 && (want == "" || first["state"] == want)
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
