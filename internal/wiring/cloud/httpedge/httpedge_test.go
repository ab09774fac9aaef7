package edge_test

import (
	"bytes"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"agentplatform/internal/cloud"
	"agentplatform/internal/cloud/edge"
	"agentplatform/internal/httpapi/service"
)

// The alarm GatewayErrors reads the metric by this name.
func TestFailuresOfTheServiceAreCounted(t *testing.T) {
	var out bytes.Buffer
	var c service.Config
	edge.CountFailures(&cloud.Platform{Metrics: cloud.NewMetrics(&out, "dev", time.Now)})(&c)
	assert.Empty(t, out.String())
	c.Failed()
	assert.Contains(t, out.String(), `"Metrics":[{"Name":"FailedAnswers","Unit":"Count"}]`)
}
