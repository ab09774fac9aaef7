package cloud

import (
	"encoding/json"
	"io"
	"strings"
	"sync"
	"time"

	"agentplatform/internal/core/lifecycle"
	"agentplatform/internal/run/transition"
)

// Namespace is the CloudWatch namespace of the platform's own metrics.
const Namespace = "Agents"

// The platform's own metrics. Their only dimension is the stage: every value of a dimension costs money, so
// organizations and runs are in the logs instead.
const (
	Entered         = "Entered"       // followed by the status, e.g. EnteredCompleted
	StartLatency    = "StartLatency"  // ms from queued to running
	Recovered       = "Recovered"     // runs taken over after their worker was lost
	Unstartable     = "Unstartable"   // runs that no worker started in time
	PausesLate      = "PausesLate"    // pauses whose end the sweeper had to find
	SweepLeft       = "SweepLeft"     // due items that a sweep listed but did not reach; the log has their kinds
	WebhookAttempts = "WebhookTried"  // delivery attempts
	WebhookFailed   = "WebhookFailed" // delivery attempts without a successful response
	ModelAttempts   = "ModelTried"    // calls of models
	ModelFailed     = "ModelFailed"   // calls that the provider could not answer or throttled
	ModelTime       = "ModelTime"     // ms that a call of a model took
	ToolAttempts    = "ToolTried"     // calls of tools
	ToolFailed      = "ToolFailed"    // calls that ended in an error, of the tool or on the way to it
	ToolTime        = "ToolTime"      // ms that a call of a tool took
	OwnTime         = "OwnTime"       // ms of an agent's loop without waiting for a model or a tool
	SlowAnswers     = "SlowAnswers"   // of api, without the time that they waited for others (httpapi.Config.Slow)
	FailedAnswers   = "FailedAnswers" // of chat and api, that are failures of the service (httpapi.Config.Failed)
	OpenStreams     = "OpenStreams"   // on one task of the stream service
	RunsAtWork      = "RunsAtWork"    // on one task that executes many
	IngestWait      = "IngestWait"    // ms from a document's arrival until a function takes it
	IngestEnded     = "IngestEnded"   // ingestions that ended
	IngestFailed    = "IngestFailed"  // those that failed for a reason outside the document
	SearchAttempts  = "SearchTried"   // searches that were not refused
	SearchFailed    = "SearchFailed"  // those that could not be answered
	SearchTime      = "SearchTime"    // ms
	TermsLost       = "TermsLost"     // terms of chunks that did not fit into the index's metadata
)

// Metrics writes metrics as log lines in CloudWatch's embedded metric format.
type Metrics struct {
	mu    sync.Mutex
	out   io.Writer
	stage string
	now   func() time.Time
}

// NewMetrics makes a Metrics that writes to out; now is the clock.
func NewMetrics(out io.Writer, stage string, now func() time.Time) *Metrics {
	return &Metrics{out: out, stage: stage, now: now}
}

// Value is a metric's value with its unit in CloudWatch's spelling.
type Value struct {
	Name, Unit string
	Value      float64
}

// Put writes values as one line.
func (m *Metrics) Put(values ...Value) {
	type metric struct{ Name, Unit string }
	type directive struct {
		Namespace  string
		Dimensions [][]string
		Metrics    []metric
	}
	d := directive{Namespace: Namespace, Dimensions: [][]string{{"stage"}}}
	line := map[string]any{"stage": m.stage}
	for _, v := range values {
		d.Metrics = append(d.Metrics, metric{v.Name, v.Unit})
		line[v.Name] = v.Value
	}
	line["_aws"] = map[string]any{"Timestamp": m.now().UnixMilli(), "CloudWatchMetrics": []directive{d}}
	b, err := json.Marshal(line)
	if err != nil {
		return // it is made of strings and numbers
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	_, _ = m.out.Write(append(b, '\n'))
}

// Count counts one event.
func (m *Metrics) Count(name string) { m.Put(Value{name, "Count", 1}) }

// Transition counts the effects of a transition of a run.
func (m *Metrics) Transition(made transition.Move) {
	before, after := made.Before, made.After
	var values []Value
	count := func(name string) { values = append(values, Value{name, "Count", 1}) }
	if after.Status != before.Status {
		count(EnteredStatus(after.Status))
	}
	switch {
	case before.Status == lifecycle.Queued && after.Status == lifecycle.Running && after.Pause == before.Pause:
		values = append(values, Milliseconds(StartLatency, after.UpdatedAt.Sub(before.QueuedAt)))
	case before.Status == lifecycle.Queued && after.Status == lifecycle.Failed:
		count(Unstartable)
	case after.Crashes > before.Crashes:
		count(Recovered)
	}
	if len(values) > 0 {
		m.Put(values...)
	}
}

// Left reports the items that a sweep left to the next one, by kind.
func (m *Metrics) Left(left map[string]int) {
	sum := 0
	for _, n := range left {
		sum += n
	}
	m.Put(Value{SweepLeft, "Count", float64(sum)})
}

// EnteredStatus is the name of the metric of runs that entered a status.
func EnteredStatus(s lifecycle.Status) string {
	name := Entered
	for word := range strings.SplitSeq(string(s), "_") {
		name += strings.ToUpper(word[:1]) + word[1:]
	}
	return name
}

// Delivered counts a webhook delivery attempt.
func (m *Metrics) Delivered(delivered bool) {
	m.CountAttempt(WebhookAttempts, WebhookFailed, !delivered)
}

// CalledModel counts a call of a provider's model. The demo model fails as often as its user requests. Its failures are
// not failures of the service, so they do not count.
func (m *Metrics) CalledModel(provider string, took time.Duration, failed bool) {
	m.CountAttempt(ModelAttempts, ModelFailed, failed && provider != "demo", Milliseconds(ModelTime, took))
}

// CalledTool counts a call of a tool.
func (m *Metrics) CalledTool(took time.Duration, failed bool) {
	m.CountAttempt(ToolAttempts, ToolFailed, failed, Milliseconds(ToolTime, took))
}

// Worked reports the platform's own time in an attempt at a run.
func (m *Metrics) Worked(own time.Duration) { m.Put(Milliseconds(OwnTime, own)) }

// Milliseconds is a time as the value of a metric.
func Milliseconds(name string, d time.Duration) Value {
	return Value{name, "Milliseconds", float64(d.Milliseconds())}
}

// CountAttempt counts an attempt, and whether it failed, with further values.
func (m *Metrics) CountAttempt(attempt, failure string, failed bool, more ...Value) {
	n := 0.0
	if failed {
		n = 1
	}
	m.Put(append([]Value{{attempt, "Count", 1}, {failure, "Count", n}}, more...)...)
}
