//go:build infra

package stacks_test

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/infra/cloudwatch"
	"agentplatform/infra/stage"
)

// reported has the values of metrics in a period by their names, with the first dimension where there are several. A
// metric that is absent has no data.
type reported map[string]float64

// faults has the faults that alarms are for: an ordinary period, and periods with the fault.
var faults = []struct {
	alarms   string // a pattern of their names
	ordinary reported
	fault    []reported
}{
	{"GatewayErrors", reported{"Count": 1000, "FailedAnswers": 5, "GatewayUnanswered": 5}, []reported{
		{"Count": 1000, "FailedAnswers": 11}, {"Count": 1000, "GatewayUnanswered": 11},
		{"Count": 1000, "FailedAnswers": 6, "GatewayUnanswered": 5}}},
	{"AnswersSlow", reported{"SlowAnswers": 10, "Invocations": 1000},
		[]reported{{"SlowAnswers": 11, "Invocations": 1000}}},
	{"(Chat|Api|Broker|Reader|Worker|Webhook|Job|Ingest|Sweeper)Failing", reported{"Errors": 0, "Logged": 2},
		[]reported{{"Errors": 3}, {"Logged": 3}, {"Errors": 1, "Logged": 2}}},
	{"(Chat|Api|Broker|Reader|Worker|Webhook|Job|Ingest|Sweeper)Throttled", reported{"Throttles": 0},
		[]reported{{"Throttles": 1}}},
	{"AccountConcurrency", reported{"ResourceCount": 8}, []reported{{"ResourceCount": 9}}},
	{"(Run|Webhook)QueueOld", reported{"ApproximateNumberOfMessagesVisible": 100, "NumberOfMessagesReceived": 100},
		[]reported{{"ApproximateNumberOfMessagesVisible": 101, "NumberOfMessagesReceived": 100},
			{"ApproximateNumberOfMessagesVisible": 1, "NumberOfMessagesReceived": 0}}},
	{"JobQueueOld", reported{"ApproximateAgeOfOldestMessage": 1800},
		[]reported{{"ApproximateAgeOfOldestMessage": 1801}}},
	{"IngestQueueOld", reported{"ApproximateAgeOfOldestMessage": 3600},
		[]reported{{"ApproximateAgeOfOldestMessage": 3601}}},
	{"(Run|Webhook|Job|Ingest)DeadLetters", reported{"ApproximateNumberOfMessagesVisible": 0},
		[]reported{{"ApproximateNumberOfMessagesVisible": 1}}},
	{"StartsSlow", reported{"StartLatency": 900}, []reported{{"StartLatency": 30_001}}},
	{"WorkersLost", reported{"Recovered": 5}, []reported{{"Recovered": 6}}},
	{"RunsUnstartable", nil, []reported{{"Unstartable": 1}}},
	{"PausesLate", nil, []reported{{"PausesLate": 1}}},
	{"WebhooksFailing", reported{"WebhookTried": 100, "WebhookFailed": 50},
		[]reported{{"WebhookTried": 100, "WebhookFailed": 51}}},
	{"ModelsFailing", reported{"ModelTried": 100, "ModelFailed": 5}, []reported{{"ModelTried": 100, "ModelFailed": 6}}},
	{"IngestionsFailing", reported{"IngestEnded": 100, "IngestFailed": 5},
		[]reported{{"IngestEnded": 100, "IngestFailed": 6}}},
	{"SearchesFailing", reported{"SearchTried": 100, "SearchFailed": 5},
		[]reported{{"SearchTried": 100, "SearchFailed": 6}}},
	{"(Core|Feed)TableThrottled", nil, []reported{
		{"ReadThrottleEvents": 1}, {"WriteThrottleEvents": 1},
		{"WriteThrottleEvents GlobalSecondaryIndexName=owner": 1},
		{"WriteThrottleEvents GlobalSecondaryIndexName=due": 1},
	}},
	{"(Core|Feed)TableConflicts", reported{"TransactionConflict": 50}, []reported{{"TransactionConflict": 51}}},
	{"PauseMachineFailed", reported{"ExecutionsFailed": 0}, []reported{{"ExecutionsFailed": 1}}},
	{"PauseMachineThrottled", nil, []reported{{"ThrottledEvents": 1}, {"ExecutionThrottled": 1}}},
	{"SweeperSilent", reported{"Invocations": 1}, []reported{nil, {"Invocations": 0}}}, // Lambda reports no 0
	{"SweeperBehind", reported{"SweepLeft": 0}, []reported{{"SweepLeft": 1}}},
	{"OwnTimeLong", reported{"OwnTime": 200}, []reported{{"OwnTime": 5001}}},
	{"SpansDropped", nil, []reported{{"SpansDropped": 1}}},
	{"StreamUnhealthy", reported{"HealthyHostCount": 1}, []reported{nil, {"HealthyHostCount": 0}}},
	{"StreamErrors", reported{"Logged": 0},
		[]reported{{"HTTPCode_Target_5XX_Count": 6}, {"Logged": 6}, {"HTTPCode_Target_5XX_Count": 3, "Logged": 3}}},
	{"StreamsFull", reported{"OpenStreams": 1600}, []reported{{"OpenStreams": 1601}}},
}

// report puts a period's values into the metrics that an alarm reads.
func report(t *testing.T, m *cloudwatch.Meter, a cloudwatch.Alarm, start time.Time, values reported) {
	t.Helper()
	for name, value := range values {
		found := false
		for _, metric := range a.Metrics() {
			bare, dimension, _ := strings.Cut(name, " ")
			ofIndex := strings.Contains(string(metric), " GlobalSecondaryIndexName=")
			if name == "Logged" && strings.HasPrefix(metric.Name(), name) || metric.Name() == bare &&
				ofIndex == (dimension != "") && strings.Contains(string(metric), dimension) {
				m.Put(metric, start.Add(time.Second), value)
				found = true
			}
		}
		require.True(t, found, "%s does not look at %s but at %v", a.Name, name, a.Metrics())
	}
}

// TestEveryAlarmIsRaisedByItsFault evaluates each alarm as CloudWatch would: in an ordinary time, then with the fault,
// and again without it. Values at the limit and just beyond it stand side by side.
func TestEveryAlarmIsRaisedByItsFault(t *testing.T) {
	all := synthesised(t, "prod", func(s *stage.Stage) {
		s.Settings["OTEL_EXPORTER_OTLP_ENDPOINT"] = "https://collector.example.com"
	})
	var raw [][]byte
	for _, template := range all {
		b, err := json.Marshal(template)
		require.NoError(t, err)
		raw = append(raw, b)
	}
	alarms, _, err := cloudwatch.Read(raw...)
	require.NoError(t, err)
	used, watched := map[string]bool{}, 0
	for _, a := range alarms {
		name := strings.TrimPrefix(a.Name, "agents-prod-")
		known := false
		for _, f := range faults {
			if !regexp.MustCompile("^(" + f.alarms + ")$").MatchString(name) {
				continue
			}
			require.False(t, known, "two entries are for %s", name)
			known, used[f.alarms] = true, true
			slowest := time.Duration(0)
			for _, fault := range f.fault {
				slowest = max(slowest, raisedAfter(t, a, f.ordinary, fault))
			}
			t.Logf("%-22s after %v", name, slowest)
		}
		watched += len(a.Metrics())
		assert.True(t, known, "nothing is known to raise %s", name)
	}
	t.Logf("%d alarms on %d metrics", len(alarms), watched)
	for _, f := range faults {
		assert.True(t, used[f.alarms], "there is no alarm %s", f.alarms)
	}
}

// raisedAfter returns how long a fault lasts until the alarm is raised.
func raisedAfter(t *testing.T, a cloudwatch.Alarm, ordinary, fault reported) time.Duration {
	t.Helper()
	m := cloudwatch.NewMeter()
	for _, metric := range a.Metrics() {
		m.Quotas[metric] = 10 // as of a new account
	}
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	pass := func(values reported) cloudwatch.State {
		report(t, m, a, at, values)
		at = at.Add(a.Period)
		return a.State(m, at)
	}
	if !a.MissingBreaches {
		assert.Equal(t, cloudwatch.OK, a.State(m, at), "%s, when there was never anything to report", a.Name)
	}
	const most = 10 // periods
	for range most {
		pass(ordinary)
	}
	for range most {
		assert.Equal(t, cloudwatch.OK, pass(ordinary), "%s, in an ordinary time", a.Name)
	}
	periods := 1
	for ; pass(fault) == cloudwatch.OK; periods++ {
		require.Less(t, periods, most, "%s is not raised by %v", a.Name, fault)
	}
	assert.GreaterOrEqual(t, periods, a.Breaching, "%s is raised by less than it says", a.Name)
	for range most - 1 {
		pass(ordinary)
	}
	assert.Equal(t, cloudwatch.OK, pass(ordinary), "%s, when %v is over", a.Name, fault)
	return time.Duration(periods) * a.Period
}

// An alarm watches things that exist. A metric of AWS has the dimensions of a resource of these stacks, or of the
// account.
func TestAlarmsLookAtResourcesThatExist(t *testing.T) {
	all := synthesised(t, "prod", func(*stage.Stage) {})
	b, err := json.Marshal(all["Service"])
	require.NoError(t, err)
	alarms, _, err := cloudwatch.Read(b)
	require.NoError(t, err)
	exported := map[string]bool{}
	for _, o := range object(all["Data"]["Outputs"]) {
		exported[fmt.Sprint(object(object(o)["Export"])["Name"])] = true
	}
	groups := map[string]bool{}
	for _, f := range all.of("AWS::Logs::MetricFilter") {
		to := object(list(f["MetricTransformations"])[0])
		groups[fmt.Sprint(to["MetricNamespace"], " ", to["MetricName"])] = true
		assert.NotNil(t, all.of("AWS::Logs::LogGroup")[fmt.Sprint(object(f["LogGroupName"])["Ref"])])
	}
	seen := map[string]int{}
	for _, a := range alarms {
		for _, m := range a.Metrics() {
			parts := strings.SplitN(string(m), " ", 3)
			dimensions := strings.Join(parts[2:], "")
			of := map[string]string{"AWS/Lambda": "AWS::Lambda::Function", "AWS/SQS": "AWS::SQS::Queue",
				"AWS/States": "AWS::StepFunctions::StateMachine"}[parts[0]]
			seen[parts[0]]++
			switch _, value, _ := strings.Cut(dimensions, "="); {
			case groups[string(m)]:
			case parts[0] == "Agents":
				assert.Equal(t, "stage=prod", dimensions, m)
			case parts[0] == "AWS/DynamoDB":
				_, value, _ = strings.Cut(dimensions, "TableName=")
				assert.True(t, exported[value], m)
			case parts[0] == "AWS/ApiGateway":
				assert.Equal(t, "ApiName=agents-prod Stage=api", dimensions)
				assert.Equal(t, "agents-prod", all.the("AWS::ApiGateway::RestApi", "")["Name"])
			case parts[0] == "AWS/Usage", m == "AWS/States ThrottledEvents APIName=StartExecution": // of the account
			case parts[0] == "AWS/ApplicationELB":
				assert.Contains(t, dimensions, "LoadBalancer=")
				assert.Contains(t, dimensions, "TargetGroup="+all.id("AWS::ElasticLoadBalancingV2::TargetGroup", ""))
			default:
				assert.NotNil(t, all.of(of)[value], "%s: there is no %s %s", m, of, value)
			}
		}
	}
	for _, namespace := range []string{"AWS/Lambda", "AWS/SQS", "AWS/States", "AWS/DynamoDB", "AWS/ApiGateway",
		"AWS/Usage", "AWS/ApplicationELB", "Agents"} {
		assert.NotZero(t, seen[namespace], namespace)
	}
}
