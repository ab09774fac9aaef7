//go:build integration

package local

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	lambdaevents "github.com/aws/aws-lambda-go/events"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
	"github.com/aws/aws-sdk-go-v2/service/sfn"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/platform/host"
	"agentplatform/internal/proof/scenario"
	"agentplatform/internal/store/record"
	"agentplatform/internal/store/table"
	"agentplatform/internal/store/table/dynamotable"
)

// The tests of properties that only a deployment on AWS has: triggers, dead letters, timers, several processes that may
// be killed.

// reply is a JSON object from a response.
type reply struct {
	status int
	body   map[string]any
	raw    string
}

func (r reply) text(name string) string { s, _ := r.body[name].(string); return s }

func (w world) do(t testing.TB, r *http.Request) reply {
	t.Helper()
	r.Header.Set("Authorization", "Bearer "+w.Key)
	response, err := http.DefaultClient.Do(r)
	require.NoError(t, err)
	defer func() { _ = response.Body.Close() }()
	raw, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	a := reply{status: response.StatusCode, raw: string(raw)}
	_ = json.Unmarshal(raw, &a.body)
	return a
}

func (w world) get(t testing.TB, path string) reply {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, w.URL+path, nil)
	require.NoError(t, err)
	return w.do(t, r)
}

func (w world) chatRequest(t testing.TB, fields ...string) *http.Request {
	t.Helper()
	var b bytes.Buffer
	form := multipart.NewWriter(&b)
	for i := 0; i+1 < len(fields); i += 2 {
		require.NoError(t, form.WriteField(fields[i], fields[i+1]))
	}
	require.NoError(t, form.Close())
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, w.URL+"/chat", &b)
	require.NoError(t, err)
	r.Header.Set("Content-Type", form.FormDataContentType())
	r.Header.Set("Authorization", "Bearer "+w.Key)
	return r
}

// agent returns the id of the agent Demo.
func (w world) agent(t testing.TB) string {
	t.Helper()
	list, _ := w.get(t, "/agents").body["agents"].([]any)
	require.NotEmpty(t, list)
	first, _ := list[0].(map[string]any)
	id, _ := first["agent_id"].(string)
	return id
}

// begin starts a run and returns its id without waiting for its end.
func (w world) begin(t testing.TB, agent string, fields ...string) string {
	t.Helper()
	a := w.do(t, w.chatRequest(t, append([]string{"agent_id", agent, "wait", "false"}, fields...)...))
	require.Equal(t, http.StatusAccepted, a.status, a.raw)
	return a.text("run_id")
}

// await waits until a run has a status.
func (w world) await(t testing.TB, run, status string, within time.Duration) reply {
	t.Helper()
	var last reply
	for end := time.Now().Add(within); time.Now().Before(end); {
		last = w.get(t, "/runs/"+run+"?wait_ms=2000")
		if last.text("status") == status {
			return last
		}
	}
	require.Fail(t, "the run never was "+status, last.raw)
	return last
}

func (d *deployment) store() *record.Store {
	machine := host.System()
	return record.New(dynamotable.New(dynamodb.NewFromConfig(d.account), d.outputs["CoreTable"], machine.Now), nil,
		machine)
}

// stored returns a run as it is stored in the table.
func (d *deployment) stored(t *testing.T, run string) record.Run {
	t.Helper()
	e, err := d.store().Run(t.Context(), record.System(), run)
	require.NoError(t, err)
	return e.Value
}

// billed counts a run's entries in the ledger.
func (w world) billed(t *testing.T, run string) int {
	t.Helper()
	entries, _ := w.get(t, "/analytics/usage").body["entries"].([]any)
	n := 0
	for _, e := range entries {
		if entry, _ := e.(map[string]any); entry["run_id"] == run {
			n++
		}
	}
	return n
}

// The templates lack exactly the resources that LocalStack does not support; everything else is deployed.
func TestWhatIsLeftOutIsListed(t *testing.T) {
	kinds := map[string]int{}
	for _, what := range []string{"Data", "Service"} {
		raw, err := os.ReadFile(filepath.Join(assembly, what+".template.json"))
		require.NoError(t, err)
		_, left, err := filtered(raw, map[string]string{"PUBLIC_URL": "http://here"},
			func(string) string { return "http://there" })
		require.NoError(t, err)
		var whole struct {
			Resources map[string]struct{ Type string }
		}
		require.NoError(t, json.Unmarshal(raw, &whole))
		for _, id := range left {
			kinds[whole.Resources[id].Type]++
		}
	}
	assert.Equal(t, map[string]int{
		"AWS::ApplicationAutoScaling::ScalableTarget": 1, "AWS::ApplicationAutoScaling::ScalingPolicy": 2,
		"AWS::CloudFront::Distribution": 1, "AWS::CloudFront::VpcOrigin": 1,
		"AWS::Lambda::Alias": 9, "AWS::Lambda::Version": 9,
		"AWS::Lambda::EventInvokeConfig": 9, "AWS::CloudWatch::Alarm": 49, "AWS::CloudWatch::Dashboard": 1,
		"AWS::Logs::MetricFilter":    11,
		"AWS::Logs::QueryDefinition": 11, "AWS::SNS::Topic": 1, "AWS::SNS::TopicPolicy": 1,
		"AWS::EC2::InternetGateway": 1, "AWS::EC2::Route": 2, "AWS::EC2::RouteTable": 2, "AWS::EC2::SecurityGroup": 2,
		"AWS::EC2::SecurityGroupEgress":  1,
		"AWS::EC2::SecurityGroupIngress": 2, "AWS::EC2::Subnet": 2, "AWS::EC2::SubnetRouteTableAssociation": 2,
		"AWS::EC2::VPC": 1, "AWS::EC2::VPCEndpoint": 2,
		"AWS::EC2::VPCGatewayAttachment": 1, "AWS::ECR::Repository": 1, "AWS::ECS::Cluster": 1, "AWS::ECS::Service": 1,
		"AWS::ECS::TaskDefinition": 1,
		"AWS::IAM::Role":           2, "AWS::IAM::Policy": 2, // of the stream service
		"AWS::ElasticLoadBalancingV2::Listener": 1, "AWS::ElasticLoadBalancingV2::LoadBalancer": 1,
		"AWS::ElasticLoadBalancingV2::TargetGroup": 1, "AWS::S3Vectors::VectorBucket": 1,
	}, kinds)
}

// TestADeployment checks one deployment for properties that every deployment has. A deployment costs LocalStack much
// processor time: its stacks, and the pollers of its queues for as long as it lives. The checks of the whole deployment
// come first and run alone.
func TestADeployment(t *testing.T) {
	t.Parallel()
	w := start(t, map[string]string{"USER_CAP": "1000", "ORGANIZATION_CAP": "1000", "RATE_LIMIT": "1000000",
		"RATE_BURST": "1000000"})
	t.Run("OperatorCommandsWork", func(t *testing.T) { operatorCommandsWork(t, w) })
	for _, one := range []struct {
		name string
		test func(*testing.T, world)
	}{
		{"OnlyOneOfManyMessagesGetsTheChat", onlyOneOfManyMessagesGetsTheChat},
		{"AMessageThatIsNoNudgeEndsAmongTheDeadLetters", anInvalidMessageEndsAmongTheDeadLetters},
		{"AStreamComesLineByLine", aStreamComesLineByLine},
		{"ALargeFileGoesToTheBucketDirectly", aLargeFileGoesToTheBucketDirectly},
		{"ALargeDocumentComesAndGoesByTheBucket", aLargeDocumentComesAndGoesByTheBucket},
		{"AFileIsReadByAFunctionWithoutRights", aFileIsReadByAFunctionWithoutRights},
		{"ASecondFirstKeyIsRefused", aSecondFirstKeyIsRefused},
		{"AChainOfParkedTurns", aChainOfParkedTurns},
		{"ItemsAreReadableInTheConsole", itemsAreReadableInTheConsole},
		{"TheServiceIsLinearizable", theServiceIsLinearizable},
	} {
		t.Run(one.name, func(t *testing.T) {
			t.Parallel()
			one.test(t, w)
		})
	}
}

func onlyOneOfManyMessagesGetsTheChat(t *testing.T, w world) {
	agent := w.agent(t)
	statuses := map[int]int{}
	var mu sync.Mutex
	var posting sync.WaitGroup
	for range 64 {
		posting.Go(func() {
			response, err := http.DefaultClient.Do(w.chatRequest(t, "agent_id", agent, "message", "/sleep 60s",
				"chat_id", "c", "wait", "false"))
			if !assert.NoError(t, err) {
				return
			}
			_ = response.Body.Close()
			mu.Lock()
			defer mu.Unlock()
			statuses[response.StatusCode]++
		})
	}
	posting.Wait()
	assert.Equal(t, map[int]int{http.StatusAccepted: 1, http.StatusConflict: 63}, statuses)
}

func anInvalidMessageEndsAmongTheDeadLetters(t *testing.T, w world) {
	client := sqs.NewFromConfig(w.account)
	_, err := client.SendMessage(t.Context(),
		&sqs.SendMessageInput{QueueUrl: aws.String(w.outputs["RunQueueAddress"]), MessageBody: aws.String("poison")})
	require.NoError(t, err)
	var dead string
	for end := time.Now().Add(time.Minute); dead == "" && time.Now().Before(end); {
		out, err := client.ReceiveMessage(t.Context(),
			&sqs.ReceiveMessageInput{QueueUrl: aws.String(w.outputs["RunDeadAddress"]), WaitTimeSeconds: 20})
		require.NoError(t, err)
		for _, m := range out.Messages {
			dead = *m.Body
		}
	}
	assert.Equal(t, "poison", dead)

	// In a batch, the invalid message is reported as failed and the others are handled.
	run := w.begin(t, w.agent(t), "message", "hello")
	batch := lambdaevents.SQSEvent{Records: []lambdaevents.SQSMessage{
		{MessageId: "good", Body: fmt.Sprintf(`{"kind":"run","id":%q}`, run)}, {MessageId: "bad", Body: "poison"},
		{MessageId: "of nothing", Body: `{"kind":"run","id":"000000000000000000000000"}`},
	}}
	payload, err := json.Marshal(batch)
	require.NoError(t, err)
	out, err := lambda.NewFromConfig(w.account).Invoke(t.Context(),
		&lambda.InvokeInput{FunctionName: aws.String(w.outputs["WorkerFunctionName"]), Payload: payload})
	require.NoError(t, err)
	assert.JSONEq(t, `{"batchItemFailures":[{"itemIdentifier":"bad"}]}`, string(out.Payload))
	w.await(t, run, "completed", time.Minute)
}

// TestWhenTheSweeperDoesNotRun checks the work that a deployment does by itself, the commands of its operators, and the
// work that it leaves to the sweeper. The last test starts the sweeper.
func TestWhenTheSweeperDoesNotRun(t *testing.T) {
	t.Parallel()
	w := startWithoutSweeps(t, map[string]string{"PAUSE_EXPIRY": "30s"})
	t.Run("APauseExpiresThroughStepFunctions", func(t *testing.T) { aPauseExpiresThroughStepFunctions(t, w) })
	t.Run("TheRunbookDoesWhatItSays", func(t *testing.T) { theRunbookWorks(t, &w) })
	t.Run("ALostNudgeIsFoundByTheSweeper", func(t *testing.T) { aLostWakeupIsFoundByTheSweeper(t, w) })
}

func aPauseExpiresThroughStepFunctions(t *testing.T, w world) {
	agent := w.agent(t)
	run := w.begin(t, agent, "message", "/ask Which?")
	paused := w.await(t, run, "awaiting_input", time.Minute)
	client := sfn.NewFromConfig(w.account)
	execution := strings.Replace(w.outputs["PauseMachineArn"], ":stateMachine:", ":execution:", 1) + ":" + run + "-p1"
	status := func() string {
		e, err := client.DescribeExecution(t.Context(), &sfn.DescribeExecutionInput{ExecutionArn: &execution})
		require.NoError(t, err)
		return string(e.Status)
	}
	ended := w.await(t, run, "cancelled", 3*time.Minute)
	assert.Eventually(t, func() bool { return status() == "SUCCEEDED" }, time.Minute, 100*time.Millisecond)
	assert.GreaterOrEqual(t, ended.text("updated_at"), paused.text("expires_at"), "not before its time")

	// A decision stops the timer.
	run = w.begin(t, agent, "message", "/ask Which?")
	paused = w.await(t, run, "awaiting_input", time.Minute)
	interrupts, _ := paused.body["interrupts"].([]any)
	first, _ := interrupts[0].(map[string]any)
	body := fmt.Sprintf(`{"decisions":[{"interrupt_id":%q,"decision":"answer","message":"this"}]}`, first["id"])
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, w.URL+"/runs/"+run+"/resume",
		strings.NewReader(body))
	require.NoError(t, err)
	r.Header.Set("Content-Type", "application/json")
	a := w.do(t, r)
	require.Less(t, a.status, 300, a.raw)
	w.await(t, run, "completed", time.Minute)
	execution = strings.Replace(w.outputs["PauseMachineArn"], ":stateMachine:", ":execution:", 1) + ":" + run + "-p1"
	assert.Eventually(t, func() bool { return status() == "ABORTED" }, time.Minute, 100*time.Millisecond)
}

func aLostWakeupIsFoundByTheSweeper(t *testing.T, w world) {
	agent := w.agent(t)
	// A chat function whose wakeups go to a queue that nothing reads.
	deaf := &runtime{
		bootstrap: binary(t, "chat"),
		environ: append(w.environ(t, "ChatFunctionName"), "RUN_QUEUE_URL="+w.outputs["JobDeadAddress"],
			"AWS_ENDPOINT_URL="+*w.account.BaseEndpoint), // no function of the stage, and with more rights
		timeout: time.Minute, log: logFile(t, "deaf"),
	}
	server := httptest.NewServer(deaf)
	t.Cleanup(func() {
		server.Close()
		deaf.close()
	})
	other := world{w.deployment, scenario.World{URL: server.URL + "/api/v1", Key: w.Key}, deaf, w.vectors, w.streams}
	run := other.begin(t, agent, "message", "hello")
	assert.Equal(t, "queued", w.get(t, "/runs/"+run).text("status"))
	w.sweep(t)
	w.await(t, run, "completed", time.Minute)
}

func aStreamComesLineByLine(t *testing.T, w world) {
	response, err := http.DefaultClient.Do(w.chatRequest(t, "agent_id", w.agent(t),
		"message", "count\n/stream 40 250ms", "streaming", "true"))
	require.NoError(t, err)
	defer func() { _ = response.Body.Close() }()
	require.Equal(t, "application/x-ndjson", response.Header.Get("Content-Type"))
	var names []string
	for lines := bufio.NewScanner(response.Body); lines.Scan(); {
		var event struct {
			Event string
			RunID string `json:"run_id"`
		}
		require.NoError(t, json.Unmarshal(lines.Bytes(), &event), lines.Text())
		if len(names) == 0 {
			assert.NotEqual(t, "completed", w.get(t, "/runs/"+event.RunID).text("status"),
				"the first line is here while the run goes on")
		}
		names = append(names, event.Event)
	}
	require.NotEmpty(t, names)
	assert.Equal(t, "init", names[0])
	assert.Equal(t, "done", names[len(names)-1])
	assert.Contains(t, names, "delta")
}

func aLargeFileGoesToTheBucketDirectly(t *testing.T, w world) {
	content := strings.Repeat("0123456789abcdef", 5<<16) // 5 MiB, more than a function takes or gives
	file := w.announced(t, fields{"name": "large.txt", "content_type": "text/plain"}, content)
	run := w.begin(t, w.agent(t), "message", "read this", "file_ids", file)
	w.await(t, run, "completed", time.Minute)
	got, header := w.redirected(t, "/files/"+file)
	assert.Equal(t, content, got)
	assert.Equal(t, `attachment; filename=large.txt`, header.Get("Content-Disposition"))
}

func operatorCommandsWork(t *testing.T, w world) {
	// The SDK may warn of a connection in addition to the command's output.
	program := operator(t)
	apart := func(arguments ...string) (prints, warns string) {
		command := exec.Command(program, append([]string{"-stage", w.world}, arguments...)...)
		var out, warnings strings.Builder
		command.Stdout, command.Stderr = &out, &warnings
		require.NoError(t, command.Run(), "%s\n%s", &out, &warnings)
		return out.String(), warnings.String()
	}
	operate := func(arguments ...string) string {
		prints, warns := apart(arguments...)
		return prints + warns
	}
	run := w.begin(t, w.agent(t), "message", "/sleep 10m")
	w.await(t, run, "running", time.Minute)
	assert.Contains(t, operate("show", run), `"status": "running"`)
	assert.Contains(t, operate("slots", record.NoOrganization), "0 active runs, 0 wrong")
	organization := w.stored(t, run).Organization
	assert.Contains(t, operate("slots", organization), run+" is running\n1 active runs, 0 wrong")
	assert.Contains(t, operate("nudge", run), "add -do")
	assert.Contains(t, operate("-do", "nudge", run), "is running")

	client := sqs.NewFromConfig(w.account)
	for _, body := range []string{"poison", `{"kind":"run","id":"` + run + `"}`} {
		_, err := client.SendMessage(t.Context(),
			&sqs.SendMessageInput{QueueUrl: aws.String(w.outputs["WebhookDeadAddress"]), MessageBody: &body})
		require.NoError(t, err)
	}
	output := operate("-do", "redrive", "webhook")
	assert.Contains(t, output, "sent again")
	assert.Contains(t, output, "stays, because it would fail again")
	assert.Contains(t, output, "2 dead letters")
	for _, name := range []string{"webhook", "ingest"} {
		prints, _ := apart("invoke", name, "../../events/samples/"+name+".json")
		assert.JSONEq(t, `{"batchItemFailures":null}`, prints)
	}
	require.Less(t, w.post(t, "/runs/"+run+"/cancel", fields{}).status, 300)
	w.await(t, run, "cancelled", time.Minute)
	t.Run("AnIndexThatWasEmptiedIsRestored", func(t *testing.T) { anIndexThatWasEmptiedIsRestored(t, w, operate) })
}

func aSecondFirstKeyIsRefused(t *testing.T, w world) {
	out, err := exec.Command("go", "run", "../../scripts/firstkey", "-table", w.outputs["CoreTable"]).CombinedOutput()
	require.Error(t, err)
	assert.Contains(t, string(out), "is there already")
	out, err = exec.Command("go", "run", "../../scripts/firstkey", "-table", w.outputs["CoreTable"], "-again").Output()
	require.NoError(t, err)
	assert.Contains(t, string(out), `"key"`)
}

// TestAnotherFunctionGoesOn continues a run or an ingestion after a crash, and after the end of a function's time. The
// lease is longer than the response times of a busy LocalStack.
func TestAnotherFunctionGoesOn(t *testing.T) {
	t.Parallel()
	model, settings := newEmbedder(t, 700*time.Millisecond)
	settings["LEASE"], settings["HAND_OVER_AFTER"] = "30s", "4s"
	w := start(t, settings)
	both := func(name string, one, other func(*testing.T)) { // of two functions, which do not disturb each other
		t.Run(name, func(t *testing.T) {
			for kind, test := range map[string]func(*testing.T){"run": one, "document": other} {
				t.Run(kind, func(t *testing.T) {
					t.Parallel()
					test(t)
				})
			}
		})
	}
	both("AtTheEndOfItsTime", func(t *testing.T) { aLongRunContinuesInAnotherFunction(t, w) },
		func(t *testing.T) { aLongIngestionContinuesInAnotherFunction(t, w, model) })
	both("AfterAKill", func(t *testing.T) { theRunOfAKilledWorker(t, w) },
		func(t *testing.T) { theDocumentOfAKilledFunction(t, w, model) })
}

// TestContainersExecuteRuns executes runs in containers that replace the worker function.
func TestContainersExecuteRuns(t *testing.T) {
	t.Parallel()
	w := start(t, map[string]string{workerTasks: "1", "WORKERS": "40", "LEASE": "30s", "USER_CAP": "1000",
		"ORGANIZATION_CAP": "1000", "RATE_LIMIT": "1000000", "RATE_BURST": "1000000"})
	agent := w.agent(t)
	var runs []string
	for range 40 {
		runs = append(runs, w.begin(t, agent, "message", "/sleep 60s"))
	}
	atWork := func() int {
		list, _ := w.get(t, "/runs?status=running&limit=100").body["runs"].([]any)
		return len(list)
	}
	first := w.worker(t)
	require.Eventually(t, func() bool { return atWork() == len(runs) }, 3*time.Minute, time.Second,
		"one process has all of them at work at once")
	end(first, syscall.SIGKILL)
	second := w.worker(t)
	require.Eventually(t, func() bool { return w.stored(t, runs[0]).Attempt >= 2 }, 3*time.Minute, time.Second)
	end(second, syscall.SIGTERM)
	assert.Equal(t, 0, second.ProcessState.ExitCode(), "it has handed its runs over")
	w.worker(t)
	for _, run := range runs {
		w.await(t, run, "completed", 3*time.Minute)
	}
	billed := map[any]int{}
	entries, _ := w.get(t, "/analytics/usage?limit=100").body["entries"].([]any)
	for _, e := range entries {
		entry, _ := e.(map[string]any)
		billed[entry["run_id"]]++
	}
	for _, run := range runs {
		assert.Equal(t, 1, billed[run], run)
	}
	assert.GreaterOrEqual(t, w.stored(t, runs[0]).Attempt, 3, "one was killed, and one was told to stop")
}

func theRunOfAKilledWorker(t *testing.T, w world) {
	run := w.begin(t, w.agent(t), "message", "/sleep 12s") // one step, so that the run is not released
	w.await(t, run, "running", time.Minute)
	killed := w.processes("WorkerFunctionName")
	require.NotEmpty(t, killed)
	for _, pid := range killed {
		kill(t, pid)
	}
	w.await(t, run, "completed", 3*time.Minute)
	assert.Equal(t, 1, w.billed(t, run))
	assert.GreaterOrEqual(t, w.stored(t, run).Attempt, 2)
}

func aLongRunContinuesInAnotherFunction(t *testing.T, w world) {
	message := strings.Repeat("/sleep 1500ms\n/tool echo {\"text\":\"a\"}\n", 8)
	run := w.begin(t, w.agent(t), "message", message)
	w.await(t, run, "completed", 2*time.Minute)
	r := w.stored(t, run)
	assert.GreaterOrEqual(t, r.Attempt, 3, "three invocations")
	assert.Zero(t, r.Crashes)
	assert.Equal(t, 1, w.billed(t, run))
}

func aChainOfParkedTurns(t *testing.T, w world) {
	agent := w.agent(t)
	const turns = 31
	var waiting []string // accepted messages whose runs have not ended, in order: the first of them runs or has run
	for turn := 1; turn <= turns; {
		a := w.do(t, w.chatRequest(t, "agent_id", agent, "message", fmt.Sprint("/sleep 100ms\nturn ", turn), "chat_id",
			"chain", "on_conflict", "enqueue", "wait", "false"))
		if a.status == http.StatusConflict { // five are parked
			require.Equal(t, "parked_queue_full", a.text("code"), a.raw)
			require.NotEmpty(t, waiting)
			w.await(t, waiting[0], "completed", time.Minute)
			waiting = waiting[1:]
			continue
		}
		require.Equal(t, http.StatusAccepted, a.status, a.raw)
		turned := a.text("run_id")
		if parked, ok := a.body["parked"].(map[string]any); ok {
			turned, _ = parked["parked_id"].(string)
		}
		waiting = append(waiting, turned)
		turn++
	}
	last := waiting[len(waiting)-1]
	require.Eventually(t, func() bool { return w.get(t, "/runs/"+last).status == http.StatusOK }, time.Minute,
		100*time.Millisecond)
	ended := w.await(t, last, "completed", time.Minute)
	assert.EqualValues(t, turns, ended.body["turn"])
}

func itemsAreReadableInTheConsole(t *testing.T, w world) {
	run := w.begin(t, w.agent(t), "message", "hello")
	w.await(t, run, "completed", time.Minute)
	items, err := dynamotable.New(dynamodb.NewFromConfig(w.account), w.outputs["CoreTable"], time.Now).Get(t.Context(),
		table.Key{Part: "run/" + run, Sort: "head"})
	require.NoError(t, err)
	assert.Contains(t, string(items[0].Body), `"status":"completed"`)
	raw, err := dynamodb.NewFromConfig(w.account).GetItem(t.Context(), &dynamodb.GetItemInput{
		TableName:            aws.String(w.outputs["CoreTable"]),
		Key:                  dynamotable.KeyOf(table.Key{Part: "run/" + run, Sort: "head"}),
		ProjectionExpression: aws.String("body.#s"), ExpressionAttributeNames: map[string]string{"#s": "status"},
	})
	require.NoError(t, err)
	assert.NotEmpty(t, raw.Item, "a member is an attribute of its own")
}
