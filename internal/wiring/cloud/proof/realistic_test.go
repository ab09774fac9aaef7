//go:build integration

package proof_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/events"
	"agentplatform/internal/run/dispatch"
	"agentplatform/internal/store/record"
	"agentplatform/internal/store/table/dynamotable"
)

// More prices in US dollars. They are for a million GB seconds of a function on arm64, for a million requests of API
// Gateway and of CloudFront, and for an hour of a container's CPU and GB on arm64.
const (
	priceGBSecond, priceGateway, priceDistribution = 13.3334, 3.50, 1.20
	priceCPU, priceGB                              = 0.03238, 0.00356
)

// The time of a function besides the wait for the model, in seconds.
const beside = 0.2

// A container of workers: half a CPU, 2 GB, and the runs at which another one starts (infra/stacks/workers.go).
const containerCPUs, containerGB, containerRuns = 0.5, 2.0, 140

// memories are the memories of the functions as they are synthesised, in GB, by the beginnings of their names.
func memories(t *testing.T) func(function string) float64 {
	raw, err := os.ReadFile("../../../../cdk.out/Service.template.json")
	require.NoError(t, err, "make integration and make cost synthesise the stacks first")
	var template struct {
		Resources map[string]struct {
			Type       string
			Properties struct{ MemorySize float64 }
		}
	}
	require.NoError(t, json.Unmarshal(raw, &template))
	return func(function string) float64 {
		for id, r := range template.Resources {
			if r.Type == "AWS::Lambda::Function" && strings.HasPrefix(id, function) {
				return r.Properties.MemorySize / 1024
			}
		}
		require.Fail(t, "there is no function "+function)
		return 0
	}
}

// way is how a client sends a message and gets the answer.
type way struct {
	name    string
	fields  []string
	command func(seconds int) string
	waits   bool // the function of POST /chat does
}

var ways = []way{
	{"not waited for", []string{"wait", "false"}, sleeps, false},
	{"waited for", []string{"wait", "true"}, sleeps, true},
	{"streamed by POST /chat", []string{"streaming", "true"}, streams, true},
}

func sleeps(seconds int) string { return fmt.Sprintf("/sleep %ds", seconds) }

func streams(seconds int) string { return fmt.Sprintf("/stream %d 250ms", 4*seconds) }

// TestTheCostOfRealisticRuns: the message and the answer have half a kilobyte, and the model takes a realistic time.
// Runs of a minute are made only when the table is rewritten.
func TestTheCostOfRealisticRuns(t *testing.T) {
	memory := memories(t)
	lengths := []int{2, 10}
	if *update {
		lengths = append(lengths, 60)
	}
	type one struct {
		way     way
		seconds int
		bench   *bench
		meter   *meter
		bill    bill
		took    float64 // seconds, from the message to the end of the run
	}
	var all []*one
	for _, w := range ways {
		for _, seconds := range lengths {
			m := newMeter()
			b := open(t, m.into, "OBSERVE_WINDOW=2m")
			_, err := sqs.NewFromConfig(b.direct).SetQueueAttributes(t.Context(), &sqs.SetQueueAttributesInput{
				QueueUrl: &b.Cloud.RunQueue, Attributes: map[string]string{"VisibilityTimeout": "960"}}) // as deployed
			require.NoError(t, err)
			all = append(all, &one{way: w, seconds: seconds, bench: b, meter: m})
		}
	}
	var running sync.WaitGroup
	for _, o := range all {
		running.Go(func() { o.bill, o.took = o.bench.realistic(o.meter, o.way, o.seconds) })
	}
	running.Wait()
	if t.Failed() {
		return
	}
	rows := map[string]string{}
	var s strings.Builder
	s.WriteString("\n| run | read units | write units | tables, queues, requests | chat function | worker function " +
		"| in all | with containers in its place |\n|---|---|---|---|---|---|---|---|\n")
	for _, o := range all {
		seconds := float64(o.seconds)
		rest := o.bill.dollars() + priceGateway + priceDistribution
		chat := memory("ChatFunction") * priceGBSecond * beside
		if o.way.waits {
			chat = memory("ChatFunction") * priceGBSecond * (seconds + beside)
		}
		worker := memory("WorkerFunction") * priceGBSecond * (seconds + beside)
		container := (containerCPUs*priceCPU + containerGB*priceGB) / 3600 * seconds / containerRuns * 1e6
		name := fmt.Sprintf("of %d s, %s", o.seconds, o.way.name)
		container -= float64(o.bill.Sends) * priceInvoke // they poll instead of being invoked
		rows[name] = fmt.Sprintf("| %s | %.1f | %d | %.0f | %.0f | %.0f | %.0f | %.0f |\n", name, o.bill.ReadUnits,
			o.bill.Units, rest, chat, worker, rest+chat+worker, rest+chat+container)
		s.WriteString(rows[name])
		assert.LessOrEqual(t, o.bill.Units, 30+2*4*o.seconds, "%s: write units", name) // a frame is a write
		t.Logf("%s: %.1f s, %.1f read units", name, o.took, o.bill.ReadUnits)
		// A tick of a stream with output, a quarter of a second, is a check of half a unit and a read of two frames: 10
		// a second. The worker checks for readers about once a second, and some 20 do not depend on the time. (When a
		// tick that had found both frames read two more, it was 4 a second more at worst, depending on the ticks: CI
		// once counted 154.5 in ten seconds.)
		assert.LessOrEqual(t, o.bill.ReadUnits, 30+12*o.took, "%s: read units", name)
		if o.seconds == 10 && !o.way.waits {
			assert.LessOrEqual(t, rest+chat+worker, 60.0, "dollars a million with the worker function")
			assert.LessOrEqual(t, rest+chat+container, 30+o.took-seconds, "with containers; the aim was 25")
		}
		if !o.way.waits { // two checks a second, of half a unit: for a cancel, for readers
			assert.LessOrEqual(t, o.bill.ReadUnits, 6+o.took, "%s: read units", name)
		}
	}
	if *update {
		matches(t, "realistic", s.String())
	}
}

// realistic lets a worker execute a run during the request, and counts its calls.
func (b *bench) realistic(m *meter, w way, seconds int) (of bill, took float64) {
	ctx, stop := context.WithCancel(b.Context())
	defer stop()
	handled := make(chan string, 10)
	var working sync.WaitGroup
	defer working.Wait()
	defer stop()
	working.Go(func() {
		dispatch.Run(ctx, b.Queues[events.WakeupRun], 2, b.Log,
			func(ctx context.Context, id string) (time.Duration, error) {
				err := b.worker.Handle(ctx, id)
				handled <- id
				return 0, err
			})
	})
	b.sendMessage(append(w.fields, "message", "warm up")...) // fills the caches
	<-handled
	m.take()
	began := b.Host.Elapsed()
	id := b.sendMessage(append(w.fields, "message", prose(70)+"\n"+w.command(seconds))...)
	select {
	case done := <-handled:
		assert.Equal(b, id, done)
	case <-time.After(time.Duration(seconds)*time.Second + time.Minute):
		assert.Fail(b, "the run has not ended")
	}
	of, took = m.take(), (b.Host.Elapsed() - began).Seconds()
	direct := record.New(dynamotable.New(dynamodb.NewFromConfig(b.direct), b.Cloud.CoreTable, time.Now), nil, b.Host)
	e, err := direct.Run(context.WithoutCancel(ctx), record.System(), id)
	if assert.NoError(b, err) {
		assert.Equal(b, "completed", string(e.Value.Status))
	}
	return of, took
}

// sendMessage sends a message, reads the answer to its end, and returns the run's id.
func (b *bench) sendMessage(fields ...string) string {
	body, kind := form(append(fields, "agent_id", b.first.Agent.ID)...)
	r, err := http.NewRequestWithContext(b.Context(), http.MethodPost, b.url+"/chat", body)
	if !assert.NoError(b, err) {
		return ""
	}
	r.Header.Set("Authorization", "Bearer "+b.first.Key)
	r.Header.Set("Content-Type", kind)
	response, err := http.DefaultClient.Do(r)
	if !assert.NoError(b, err) {
		return ""
	}
	defer func() { _ = response.Body.Close() }()
	raw, err := io.ReadAll(response.Body)
	assert.NoError(b, err)
	assert.Less(b, response.StatusCode, 300, string(raw))
	return response.Header.Get("X-Agent-Run-Id")
}
