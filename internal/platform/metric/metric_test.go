package metric_test

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/platform/metric"
)

func TestARenamedMetricHasItsFormerNameToo(t *testing.T) {
	all := prometheus.NewRegistry()
	attempts := prometheus.NewCounter(prometheus.CounterOpts{
		Namespace: metric.Namespace, Name: "webhook_attempts_total",
	})
	other := prometheus.NewCounter(prometheus.CounterOpts{Name: "other_total"})
	all.MustRegister(attempts, other)
	attempts.Add(3)
	families, err := metric.WithFormerNames(all).Gather()
	require.NoError(t, err)
	values := map[string]float64{}
	var names []string
	for _, f := range families {
		names = append(names, f.GetName())
		values[f.GetName()] = f.GetMetric()[0].GetCounter().GetValue()
	}
	assert.IsIncreasing(t, names)
	assert.Equal(t, map[string]float64{
		"agentplatform_webhook_attempts_total": 3, "webhook_tries_total": 3, "other_total": 0,
	}, values)
}
