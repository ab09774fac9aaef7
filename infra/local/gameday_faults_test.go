//go:build integration

package local

import (
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
	"github.com/aws/aws-sdk-go-v2/service/lambda/types"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/infra/cloudwatch"
	"agentplatform/internal/text/reader"
)

// The faults of a game day that lie in the stage itself: its workers, tasks, queues, functions and settings.

var aMessageID = regexp.MustCompile(`(?m)^(\S+)  received`)

// poison sends a message that is not a valid wakeup to each queue.
func (d *day) poison(t *testing.T) {
	t.Helper()
	for _, queue := range []string{"run", "webhook", "job", "ingest"} {
		d.poisoned(t, queue)
	}
}

// poisoned sends a message that is not a valid wakeup to a queue, and discards it as the runbook describes.
func (d *day) poisoned(t *testing.T, queue string) {
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

// startDeadline is the time that a run may wait for a worker. It is longer than a queue needs to be old. It ends while
// the functions are stopped.
const startDeadline = 2 * time.Minute

// lastPoll is the time for which LocalStack may still read a queue after it has reported the mapping as stopped.
const lastPoll = 20 * time.Second

// functionsStop makes runs and a webhook wait until the queues are old, and one run until its deadline is over.
func (d *day) functionsStop(t *testing.T, hook *standIn) {
	t.Helper()
	const fault = "the functions were stopped, and started again"
	working := d.begin(t, d.demo, "message", "/sleep 10s", "callback_url", hook.server.URL)
	d.await(t, working, "running", time.Minute)
	d.operate(t, "-do", "stop", "functions")
	time.Sleep(lastPoll)
	_ = d.observe(t) // earlier invocations
	stopped := time.Now()
	late := d.begin(t, d.demo, "message", "hello") // by the function of POST /chat, which is not LocalStack's here
	runs, hooks := d.metric(t, "ApproximateNumberOfMessagesVisible", "RunQueue"),
		d.metric(t, "ApproximateNumberOfMessagesVisible", "WebhookQueue")
	var with observed
	run := ""
	require.Eventually(t, func() bool {
		with = d.more(t, with)
		if run == "" && time.Since(stopped) > startDeadline/2 {
			run = d.begin(t, d.demo, "message", "hello")
		}
		return time.Since(stopped) > startDeadline && with.values[runs] > 0 && with.values[hooks] > 0
	}, 2*startDeadline, time.Second)
	begun := time.Now()
	d.operate(t, "-do", "start", "functions")
	swept, slow := d.metric(t, "Invocations", "SweeperFunction"), observed{}
	require.Eventually(t, func() bool { // by its schedule
		slow = d.more(t, slow)
		return slow.values[swept] > 0
	}, 3*time.Minute, time.Second)
	d.proves(t, fault, with, slow, time.Since(begun), "SweeperSilent")
	d.await(t, run, "completed", 3*time.Minute)
	d.sweepsUntil(t, "the other run has failed", func() bool {
		return d.get(t, "/runs/"+late).text("status") == "failed"
	})
	require.Eventually(t, func() bool {
		slow = d.more(t, slow)
		return d.state(t, "RunsUnstartable", d.calm, slow) == cloudwatch.Raised
	}, time.Minute, time.Second)
	d.ordinary(t)
	var after observed
	require.Eventually(t, func() bool {
		after = d.observe(t)
		return after.values[runs]+after.values[hooks] == 0
	}, 3*time.Minute, 2*time.Second)
	took := time.Since(begun)
	d.proves(t, fault, with, after, took, "RunQueueOld", "WebhookQueueOld")
	d.proves(t, fault, slow, after, took, "StartsSlow", "RunsUnstartable")
}

func (d *day) workersAreKilled(t *testing.T) {
	t.Helper()
	var runs []string
	for range 6 {
		runs = append(runs, d.begin(t, d.demo, "message", "/sleep 40s"))
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

// theStreamsEnd kills the only task of the stream service, and another one replaces it.
func (d *day) theStreamsEnd(t *testing.T) {
	t.Helper()
	healthy := d.metric(t, "HealthyHostCount", "")
	ask := func(o *observed) { o.values[healthy] = map[bool]float64{true: 1}[d.streams.healthy()] }
	ask(&d.calm)
	end(d.streams.process, syscall.SIGKILL)
	with := d.observe(t)
	ask(&with)
	d.ordinary(t) // runs go on
	begun := time.Now()
	d.streams = d.streamService(d.whole, d.chat.environ, d.chat.log, d.streams.address.Host)
	run := d.begin(t, d.demo, "message", "hello")
	require.Equal(t, http.StatusOK, d.get(t, "/runs/"+run+"/stream").status)
	took := time.Since(begun)
	d.ordinary(t)
	after := d.observe(t)
	ask(&after)
	d.proves(t, "the task of the stream service was killed", with, after, took, "StreamUnhealthy")
}

// settingsAreRefused starts functions with a setting that no program accepts, as after a wrong deploy.
func (d *day) settingsAreRefused(t *testing.T) {
	t.Helper()
	const setting, wrong = "LEASE", "soon"
	client := lambda.NewFromConfig(d.account)
	// Reader has no setting of ours, and Go has one for all.
	for name, setting := range map[string]string{"Api": setting, "Broker": setting, "Reader": "GOMEMLIMIT"} {
		function := aws.String(d.outputs[name+"FunctionName"])
		set := func(variables map[string]string) {
			_, err := client.UpdateFunctionConfiguration(t.Context(), &lambda.UpdateFunctionConfigurationInput{
				FunctionName: function, Environment: &types.Environment{Variables: variables}})
			require.NoError(t, err)
			require.NoError(t, lambda.NewFunctionUpdatedV2Waiter(client).Wait(t.Context(),
				&lambda.GetFunctionInput{FunctionName: function}, time.Minute))
		}
		c, err := client.GetFunctionConfiguration(t.Context(),
			&lambda.GetFunctionConfigurationInput{FunctionName: function})
		require.NoError(t, err)
		right := c.Environment.Variables
		bad := maps.Clone(right)
		bad[setting] = wrong
		sample := d.sample(t, name)
		d.rolledBack(t, name, func() { set(bad) }, func() { set(right) }, func() bool {
			out, err := client.Invoke(t.Context(), &lambda.InvokeInput{FunctionName: function, Payload: sample})
			return err == nil && out.FunctionError == nil
		})
	}
	right := d.chat.environ
	d.rolledBack(t, "Chat", func() { d.chat.configure(append(slices.Clone(right), setting+"="+wrong)) },
		func() { d.chat.configure(right) },
		func() bool { return d.do(t, d.chatRequest(t)).status < http.StatusInternalServerError })
}

// sample returns a request for a function.
func (d *day) sample(t *testing.T, function string) []byte {
	t.Helper()
	sample, err := os.ReadFile("../../events/samples/" + strings.ToLower(function) + ".json")
	require.NoError(t, err)
	if function == "Reader" { // a file that is there
		files := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, "text")
		}))
		t.Cleanup(files.Close)
		sample, err = json.Marshal(reader.TextRequest{URL: files.URL, ContentType: "text/plain", Name: "a.txt"})
		require.NoError(t, err)
	}
	return sample
}

// functionsAreThrottled removes the concurrency of each function, and restores it. Functions of queues are invoked
// while their queue is empty. Otherwise LocalStack would count an attempt of a message.
func (d *day) functionsAreThrottled(t *testing.T) {
	t.Helper()
	client := lambda.NewFromConfig(d.account)
	for _, name := range []string{"Chat", "Api", "Broker", "Reader", "Worker", "Webhook", "Job", "Ingest", "Sweeper"} {
		function := aws.String(d.outputs[name+"FunctionName"])
		sample := d.sample(t, name)
		ask := func() (refused float64) {
			for range 3 {
				_, err := client.Invoke(t.Context(), &lambda.InvokeInput{FunctionName: function, Payload: sample},
					func(o *lambda.Options) { o.Retryer = aws.NopRetryer{} })
				if _, is := errors.AsType[*types.TooManyRequestsException](err); is {
					refused++
					continue
				}
				require.NoError(t, err)
			}
			return refused
		}
		_, err := client.PutFunctionConcurrency(t.Context(), &lambda.PutFunctionConcurrencyInput{
			FunctionName: function, ReservedConcurrentExecutions: aws.Int32(0)})
		require.NoError(t, err)
		refused := ask()
		with := d.observe(t)
		with.values[d.metric(t, "Throttles", name+"Function")] = refused
		begun := time.Now()
		_, err = client.DeleteFunctionConcurrency(t.Context(),
			&lambda.DeleteFunctionConcurrencyInput{FunctionName: function})
		require.NoError(t, err)
		after := d.observe(t)
		after.values[d.metric(t, "Throttles", name+"Function")] = ask()
		d.proves(t, "no concurrency was left for a function", with, after, time.Since(begun), name+"Throttled")
	}
	d.ordinary(t)
}

// rolledBack breaks a function, invokes it a few times, and rolls back the change that broke it.
func (d *day) rolledBack(t *testing.T, function string, breaks, mend func(), invoke func() bool) {
	t.Helper()
	ended := d.metric(t, "Errors", function+"Function")
	ask := func() (failed float64) {
		for range 3 {
			if !invoke() {
				failed++
			}
		}
		return failed
	}
	breaks()
	failed := ask()
	with := d.observe(t)
	with.values[ended] = failed
	begun := time.Now()
	mend()
	failed = ask()
	d.ordinary(t)
	after := d.observe(t)
	after.values[ended] = failed
	d.proves(t, "a setting came that is refused, and was rolled back", with, after, time.Since(begun),
		function+"Failing")
}

// queuesAreNotRead stops the reads of the queues of jobs and documents, as when operate was interrupted while it
// stopped the functions. They are old after half an hour and an hour. The test does not wait for that.
func (d *day) queuesAreNotRead(t *testing.T) {
	t.Helper()
	client := lambda.NewFromConfig(d.account)
	for _, name := range []string{"Job", "Ingest"} {
		list, err := client.ListEventSourceMappings(t.Context(), &lambda.ListEventSourceMappingsInput{
			FunctionName: aws.String(d.outputs[name+"FunctionName"])})
		require.NoError(t, err)
		require.NotEmpty(t, list.EventSourceMappings)
		for _, m := range list.EventSourceMappings {
			_, err := client.UpdateEventSourceMapping(t.Context(),
				&lambda.UpdateEventSourceMappingInput{UUID: m.UUID, Enabled: aws.Bool(false)})
			require.NoError(t, err)
			require.Eventually(t, func() bool {
				now, err := client.GetEventSourceMapping(t.Context(), &lambda.GetEventSourceMappingInput{UUID: m.UUID})
				return err == nil && aws.ToString(now.State) == "Disabled"
			}, time.Minute, time.Second, "the queue is read")
		}
	}
	time.Sleep(lastPoll)
	base, gone := d.base(t, fields{}), d.base(t, fields{})
	document := d.document(t, base, fields{"text": "cormorant"})
	r, err := http.NewRequestWithContext(t.Context(), http.MethodDelete, d.URL+gone, nil)
	require.NoError(t, err)
	require.Less(t, d.do(t, r).status, http.StatusMultipleChoices)
	jobs, ingests := d.metric(t, "ApproximateAgeOfOldestMessage", "JobQueue"),
		d.metric(t, "ApproximateAgeOfOldestMessage", "IngestQueue")
	var with observed
	require.Eventually(t, func() bool {
		with = d.observe(t)
		return with.values[jobs] > 10 && with.values[ingests] > 10
	}, time.Minute, time.Second, "somebody takes what comes")
	with.lasts = 65 * time.Minute
	begun := time.Now()
	d.operate(t, "-do", "start", "functions")
	d.ready(t, document)
	var after observed
	require.Eventually(t, func() bool {
		after = d.observe(t)
		return after.values[jobs]+after.values[ingests] == 0
	}, 5*time.Minute, time.Second)
	took := time.Since(begun)
	d.ordinary(t)
	d.proves(t, "nothing read the queues", with, after, took, "JobQueueOld", "IngestQueueOld")
}
