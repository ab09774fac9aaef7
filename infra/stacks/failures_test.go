//go:build infra

package stacks_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/infra/cloudwatch"
	"agentplatform/infra/stage"
	"agentplatform/internal/api/httpapi/httpapitest"
	"agentplatform/internal/api/httpapi/service"
	"agentplatform/internal/core/lifecycle"
	"agentplatform/internal/platform/logline"
	"agentplatform/internal/wiring/cloud"
	"agentplatform/internal/wiring/cloud/httpedge/gateway"
)

// logs are the lines that a function logs for a response. The deployed HTTP layer writes them.
type logs [][]byte

// logsOf lets the service answer the request of ask, in the wiring of the functions behind API Gateway.
func logsOf(t *testing.T, status int, ask func(t *testing.T, e httpapitest.API) int) logs {
	t.Helper()
	var out bytes.Buffer
	e := httpapitest.New(t, func(c *service.Config) {
		c.Log = logline.New(&out, 0)
		gateway.Add(&cloud.Platform{Metrics: cloud.NewMetrics(&out, "prod", time.Now)})(c)
	})
	require.Equal(t, status, ask(t, e), out.String())
	return bytes.Split(bytes.TrimSpace(out.Bytes()), []byte("\n"))
}

// aRunFails requests the answer to a message whose run fails.
func aRunFails(t *testing.T, e httpapitest.API) int {
	e.End(t, e.Begin(t, "idempotency_key", "k").RunID,
		lifecycle.Fail{Work: lifecycle.Work{Attempt: 1}, Error: "no luck"})
	return e.Chat("message", "m", "idempotency_key", "k").Code
}

// theServiceFails requests an answer that the service cannot give.
func theServiceFails(_ *testing.T, e httpapitest.API) int {
	e.Items.Break("")
	return e.Chat("message", "m").Code
}

// minute has the number of requests of each kind in a minute.
type minute struct{ served, runsFailed, failed, unreached int }

// front is the data that API Gateway and the function of POST /chat report and log.
type front struct {
	all    templates
	meter  *cloudwatch.Meter
	alarms []cloudwatch.Alarm

	runFailed, failed logs
}

func newFront(t *testing.T) *front {
	t.Helper()
	f := &front{
		all:       synthesised(t, "prod", func(*stage.Stage) {}),
		runFailed: logsOf(t, http.StatusInternalServerError, aRunFails),
		failed:    logsOf(t, http.StatusInternalServerError, theServiceFails),
	}
	return f
}

// begin discards the reported data.
func (f *front) begin(t *testing.T) {
	t.Helper()
	b, err := json.Marshal(f.all["Service"])
	require.NoError(t, err)
	f.alarms, f.meter, err = cloudwatch.Read(b)
	require.NoError(t, err)
}

// variable matches a variable of the access log.
var variable = regexp.MustCompile(`\$context\.[A-Za-z.]+`)

// access returns the line of a request in the access log. API Gateway writes "-" for an unknown value.
func (f *front) access(status, responseType string) []byte {
	setting := object(f.all.the("AWS::ApiGateway::Stage", "Gateway")["AccessLogSetting"])
	known := map[string]string{"$context.status": status, "$context.error.responseType": responseType}
	return []byte(variable.ReplaceAllStringFunc(fmt.Sprint(setting["Format"]), func(name string) string {
		if value := known[name]; value != "" {
			return value
		}
		return "-"
	}))
}

// pass reports the requests of a minute that begins at a time.
func (f *front) pass(t *testing.T, at time.Time, m minute) {
	t.Helper()
	log := func(group string, lines ...[]byte) {
		for _, line := range lines {
			require.NoError(t, f.meter.Log(f.all.id("AWS::Logs::LogGroup", group), at, line))
		}
	}
	for range m.served {
		log("GatewayLogs", f.access("200", "-"))
	}
	for range m.runsFailed {
		log("GatewayLogs", f.access("500", "-"))
		log("ChatLogs", f.runFailed...)
	}
	for range m.failed {
		log("GatewayLogs", f.access("500", "-"))
		log("ChatLogs", f.failed...)
	}
	for range m.unreached {
		log("GatewayLogs", f.access("504", "INTEGRATION_FAILURE"))
	}
	gateway := map[string]string{"ApiName": "agents-prod", "Stage": "api"}
	put := func(namespace, name string, value int, dimensions map[string]string) {
		f.meter.Put(cloudwatch.Named(namespace, name, dimensions), at, float64(value))
	}
	put("AWS/ApiGateway", "Count", m.served+m.runsFailed+m.failed+m.unreached, gateway)
	put("AWS/ApiGateway", "5XXError", m.runsFailed+m.failed+m.unreached, gateway)
	for _, name := range []string{"Chat", "Sweeper"} {
		id := f.all.id("AWS::Lambda::Function", name)
		put("AWS/Lambda", "Invocations", 1, map[string]string{"FunctionName": id})
	}
	for _, a := range f.alarms {
		for _, m := range a.Metrics() {
			if m.Name() == "HealthyHostCount" {
				f.meter.Put(m, at, 1)
			}
		}
	}
}

// raised returns the names of the alarms that are raised at a time.
func (f *front) raised(at time.Time) (names []string) {
	for _, a := range f.alarms {
		if a.State(f.meter, at) == cloudwatch.Raised {
			names = append(names, strings.TrimPrefix(a.Name, "agents-prod-"))
		}
	}
	return names
}

// blocked reports whether one of the raised alarms stops a deploy.
func (f *front) blocked(raised []string) bool {
	for _, g := range f.all.of("AWS::CodeDeploy::DeploymentGroup") {
		for _, name := range raised {
			alarm := f.all.id("AWS::CloudWatch::Alarm", name)
			if strings.Contains(text(g["AlarmConfiguration"]), `"`+alarm+`"`) {
				return true
			}
		}
	}
	return false
}

// A tenant whose agent fails every run raises no alarm and stops no deploy, for an hour. A failure of the service does
// both, also next to such a tenant, and for answers of the service and of the gateway.
func TestAlarmsDistinguishAFailedRunFromAFailureOfTheService(t *testing.T) {
	const length, settled = 60, 15 // minutes
	f, midnight := newFront(t), time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	both := []string{"ChatFailing", "GatewayErrors"}
	for _, c := range []struct {
		name   string
		each   minute
		raised []string
		blocks bool
	}{
		{"every run of a tenant fails", minute{runsFailed: 50}, nil, false},
		{"every run of one tenant of two fails", minute{served: 25, runsFailed: 25}, nil, false},
		{"the service fails", minute{served: 48, failed: 2}, both, true},
		{"the service fails beside such a tenant", minute{runsFailed: 48, failed: 2}, both, true},
		{"the gateway reaches no function", minute{served: 48, unreached: 2}, both[1:], false},
		{"it reaches none beside such a tenant", minute{runsFailed: 48, unreached: 2}, both[1:], false},
	} {
		t.Run(c.name, func(t *testing.T) {
			f.begin(t)
			for i := range length {
				f.pass(t, midnight.Add(time.Duration(i)*time.Minute), c.each)
				raised := f.raised(midnight.Add(time.Duration(i+1) * time.Minute))
				if c.raised == nil && i > 5 || i > settled { // before, there are minutes of which nothing is known
					require.Equal(t, c.raised, raised, "minute %d", i)
					require.Equal(t, c.blocks, f.blocked(raised), "minute %d", i)
				}
			}
		})
	}
	t.Run("a canary that fails is taken back within its five minutes", func(t *testing.T) {
		f.begin(t)
		for i := range 5 {
			f.pass(t, midnight.Add(time.Duration(i)*time.Minute), minute{served: 49, failed: 1})
		}
		assert.True(t, f.blocked(f.raised(midnight.Add(5*time.Minute))))
	})
}
