package cloud_test

import (
	"bytes"
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/core/lifecycle"
	"agentplatform/internal/run/transition"
	"agentplatform/internal/wiring/cloud"
)

func TestMetricsAreLinesThatCloudWatchReads(t *testing.T) {
	at := time.UnixMilli(1_800_000_000_123)
	var out bytes.Buffer
	m := cloud.NewMetrics(&out, "dev", func() time.Time { return at })
	before := lifecycle.Run{Status: lifecycle.Queued, QueuedAt: at}
	after := lifecycle.Run{Status: lifecycle.Running, UpdatedAt: at.Add(1500 * time.Millisecond)}
	m.Transition(transition.Move{Before: before, After: after})
	var line struct {
		AWS struct {
			Timestamp         int64
			CloudWatchMetrics []struct {
				Namespace  string
				Dimensions [][]string
				Metrics    []struct{ Name, Unit string }
			}
		} `json:"_aws"`
		Stage          string `json:"stage"`
		EnteredRunning float64
		StartLatency   float64
	}
	require.NoError(t, json.Unmarshal(out.Bytes(), &line))
	assert.Equal(t, at.UnixMilli(), line.AWS.Timestamp)
	require.Len(t, line.AWS.CloudWatchMetrics, 1)
	assert.Equal(t, cloud.Namespace, line.AWS.CloudWatchMetrics[0].Namespace)
	assert.Equal(t, [][]string{{"stage"}}, line.AWS.CloudWatchMetrics[0].Dimensions,
		"no other dimension: each value of one costs")
	assert.Equal(t, []struct{ Name, Unit string }{{"EnteredRunning", "Count"}, {"StartLatency", "Milliseconds"}},
		line.AWS.CloudWatchMetrics[0].Metrics)
	assert.Equal(t, "dev", line.Stage)
	assert.InDelta(t, 1, line.EnteredRunning, 0)
	assert.InDelta(t, 1500, line.StartLatency, 0)

	for _, c := range []struct {
		name   string
		metric string
		made   transition.Move
	}{
		{"not started in time", cloud.Unstartable,
			transition.Move{Before: before, After: lifecycle.Run{Status: lifecycle.Failed}}},
		{"taken over", cloud.Recovered, transition.Move{Before: lifecycle.Run{Status: lifecycle.Running},
			After: lifecycle.Run{Status: lifecycle.Running, Crashes: 1}}},
		{"paused", "EnteredAwaitingInput",
			transition.Move{Before: after, After: lifecycle.Run{Status: lifecycle.AwaitingInput}}},
	} {
		out.Reset()
		m.Transition(c.made)
		assert.Contains(t, out.String(), `"`+c.metric+`":1`, c.name)
	}
	out.Reset()
	m.Transition(transition.Move{Before: after, After: after}) // a heartbeat
	assert.Empty(t, out.String())
}

func TestCallsAreCountedWithTheirTime(t *testing.T) {
	for want, report := range map[string]func(*cloud.Metrics){
		`"ModelFailed":0,"ModelTime":1500,"ModelTried":1`: func(m *cloud.Metrics) {
			m.CalledModel("openai", 1500*time.Millisecond, false)
		},
		`"ModelFailed":1,"ModelTime":2,"ModelTried":1`: func(m *cloud.Metrics) {
			m.CalledModel("openai", 2*time.Millisecond, true)
		},
		`"ModelFailed":0,"ModelTime":3,"ModelTried":1`: func(m *cloud.Metrics) { // as its user asks
			m.CalledModel("demo", 3*time.Millisecond, true)
		},
		`"ToolFailed":1,"ToolTime":20,"ToolTried":1`: func(m *cloud.Metrics) {
			m.CalledTool(20*time.Millisecond, true)
		},
		`"OwnTime":7,`: func(m *cloud.Metrics) { m.Worked(7 * time.Millisecond) },
	} {
		var out bytes.Buffer
		report(cloud.NewMetrics(&out, "dev", time.Now))
		assert.Contains(t, out.String(), want)
	}
}
