package gateway_test

import (
	"bytes"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"agentplatform/internal/api/httpapi/service"
	"agentplatform/internal/wiring/cloud"
	"agentplatform/internal/wiring/cloud/httpedge/gateway"
)

// The alarm GatewayErrors reads the metric by this name.
func TestFailuresOfTheServiceAreCounted(t *testing.T) {
	var out bytes.Buffer
	var c service.Config
	gateway.Add(&cloud.Platform{Metrics: cloud.NewMetrics(&out, "dev", time.Now)})(&c)
	assert.Empty(t, out.String())
	c.Failed()
	assert.Contains(t, out.String(), `"Metrics":[{"Name":"FailedAnswers","Unit":"Count"}]`)
}
