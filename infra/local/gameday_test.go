//go:build integration

package local

import (
	"encoding/json"
	"encoding/pem"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
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

// A game day causes faults in a deployment and follows the runbook's entries. The metrics and logs of the deployment
// must raise the alarms for the faults. After that the alarms and the service must be well again. To evaluate an alarm,
// the test repeats the data of a phase for as long as the alarm needs.
type day struct {
	world

	whole    *testing.T // as long as the day lasts
	demo     string     // the agent
	operator string     // the program
	stack    []byte     // as synthesised, with its alarms
	alarms   map[string]cloudwatch.Alarm
	groups   map[string]string    // log groups: logical ids by names
	read     map[string]bool      // log events, by their ids
	waiting  map[string]time.Time // queues: since when something waits in them
	failed   int                  // executions that have failed before
	calm     observed
	report   strings.Builder
}

// observed is the data that was reported in one phase.
type observed struct {
	values map[cloudwatch.Metric]float64
	lines  []logged
	lasts  time.Duration // for how long the phase is repeated, if longer than any alarm needs; ages rise meanwhile
}

type logged struct {
	group string
	line  []byte
}

// logContains reports whether a logged line contains this text.
func (o observed) logContains(text string) bool {
	return slices.ContainsFunc(o.lines, func(l logged) bool { return strings.Contains(string(l.line), text) })
}

// TestGameDay has the stories of a game day, one after the other. make gameday runs it.
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
		"RATE_BURST": "1000000", "START_DEADLINE": startDeadline.String(),
	})
	d := newDay(t, w)
	d.operate(t, "-do", "secret", "OPENAI_API_KEY")
	d.ordinary(t)
	swept := d.metric(t, "Invocations", "SweeperFunction")
	require.Eventually(t, func() bool { // logs come a little later
		d.calm = d.more(t, d.calm)
		return d.calm.values[swept] > 0
	}, time.Minute, time.Second)
	for _, f := range []struct {
		name  string
		fault func(*testing.T)
	}{
		{"TimersAreLost", d.timersAreLost},
		{"TimersAreRefused", d.timersAreRefused},
		{"TheAgentFails", d.theAgentFails},
		{"TheTableIsBusy", d.theTableIsBusy},
		{"TheFeedIsBusy", d.theFeedIsBusy},
		{"CommitsMeet", d.commitsMeet},
		{"TheTableIsSlow", d.theTableIsSlow},
		{"TheIndexRefuses", d.theIndexRefuses},
		{"OthersFail", func(t *testing.T) { d.othersFail(t, hook, model) }},
		{"Poison", d.poison},
		{"TheStreamsEnd", d.theStreamsEnd},
		{"SettingsAreRefused", d.settingsAreRefused},
		{"FunctionsAreThrottled", d.functionsAreThrottled},
		{"QueuesAreNotRead", d.queuesAreNotRead},
		{"FunctionsStop", func(t *testing.T) { d.functionsStop(t, hook) }},
		{"WorkersAreKilled", d.workersAreKilled}, // the last, as their messages stay in the queue for 16 minutes
	} {
		t.Run(f.name, f.fault)
	}
	t.Log("\n| alarm | the fault | from the first step of the runbook until it was well |\n|---|---|---|\n" +
		d.report.String())
}

func newDay(t *testing.T, w world) *day {
	t.Helper()
	d := &day{world: w, whole: t, demo: w.agent(t), alarms: map[string]cloudwatch.Alarm{}, groups: map[string]string{},
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

// observe returns the data that was reported since its last call.
func (d *day) observe(t *testing.T) observed {
	t.Helper()
	o := observed{values: map[cloudwatch.Metric]float64{}}
	logs := cloudwatchlogs.NewFromConfig(d.account)
	begun := map[string]cloudwatch.Metric{ // the metric of an invocation, by the group of the function's log
		"Sweeper": d.metric(t, "Invocations", "SweeperFunction"),
		"Api":     d.metric(t, "Invocations", "ApiFunction"),
		"Worker":  d.metric(t, "NumberOfMessagesReceived", "RunQueue"),
		"Webhook": d.metric(t, "NumberOfMessagesReceived", "WebhookQueue"),
	}
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
				program, _, _ := strings.Cut(id, "Logs")
				if counts, known := begun[program]; known && strings.HasPrefix(aws.ToString(e.Message), "START ") {
					o.values[counts]++
				}
				o.lines = append(o.lines, d.line(id, aws.ToString(e.Message)))
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
				if name == "Run" || name == "Webhook" {
					o.values[d.metric(t, "ApproximateNumberOfMessagesVisible", name+"Queue")] = float64(visible)
					return
				}
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

// line returns a line of a log group, given by its logical id. Its metrics get the stage whose alarms are evaluated.
func (d *day) line(group, text string) logged {
	return logged{group, []byte(strings.ReplaceAll(text, `"stage":"`+d.world.world+`"`, `"stage":"`+stageName+`"`))}
}

// metric returns the metric with this name that an alarm watches, of a resource whose logical id has this prefix.
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

// watched returns the metric with this name that an alarm watches: a table's own, not those of its indexes.
func (d *day) watched(t *testing.T, alarm, name string) cloudwatch.Metric {
	t.Helper()
	for _, m := range d.alarms[alarm].Metrics() {
		if m.Name() == name && !strings.Contains(string(m), "GlobalSecondaryIndexName=") {
			return m
		}
	}
	require.Fail(t, alarm+" does not watch "+name)
	return ""
}

// state returns the state of an alarm after several phases. Each phase is repeated for as long as the alarm needs.
func (d *day) state(t *testing.T, alarm string, phases ...observed) cloudwatch.State {
	t.Helper()
	a, known := d.alarms[alarm]
	require.True(t, known, alarm)
	_, meter, err := cloudwatch.Read(d.stack)
	require.NoError(t, err)
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, o := range phases {
		for begun, end := at, at.Add(max(time.Duration(a.Evaluated+2)*a.Period, o.lasts)); at.Before(end); {
			for metric, value := range o.values {
				if o.lasts > 0 && metric.Name() == "ApproximateAgeOfOldestMessage" && value > 0 {
					value += at.Sub(begun).Seconds()
				}
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

// more adds the data reported since the last call to earlier data. It keeps the largest value of a metric.
func (d *day) more(t *testing.T, all observed) observed {
	t.Helper()
	next := d.observe(t)
	for metric, value := range all.values {
		next.values[metric] = max(next.values[metric], value)
	}
	next.lines = append(all.lines, next.lines...)
	return next
}

// until observes until an alarm would be raised, for at most a minute. Logs come a little later than their events.
func (d *day) until(t *testing.T, alarm string) observed {
	t.Helper()
	all := d.observe(t)
	for end := time.Now().Add(time.Minute); d.state(t, alarm, d.calm, all) == cloudwatch.OK && time.Now().Before(end); {
		select {
		case <-t.Context().Done():
			return all
		case <-time.After(time.Second):
		}
		all = d.more(t, all)
	}
	return all
}

// proves checks three phases: alarms are quiet in a calm time, raised with the fault, and quiet again after the runbook
// was followed. It reports how long that took.
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

// ordinary executes a run and a sweep.
func (d *day) ordinary(t *testing.T) {
	t.Helper()
	d.await(t, d.begin(t, d.demo, "message", "hello"), "completed", time.Minute)
	d.sweepOnce(t)
}

// sweepOnce sweeps, and reports whether the sweep ended without an error.
func (d *day) sweepOnce(t *testing.T) bool {
	t.Helper()
	out, err := lambda.NewFromConfig(d.account).Invoke(t.Context(), &lambda.InvokeInput{
		FunctionName: aws.String(d.outputs["SweeperFunctionName"]), Payload: []byte(`{}`)})
	require.NoError(t, err)
	return out.FunctionError == nil
}

// sweepsUntil sweeps until come returns true.
func (d *day) sweepsUntil(t *testing.T, what string, come func() bool) {
	t.Helper()
	require.Eventually(t, func() bool {
		d.sweepOnce(t)
		return come()
	}, 3*time.Minute, 2*time.Second, what)
}
