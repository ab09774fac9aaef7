package cloudwatch_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/infra/cloudwatch"
)

var midnight = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// template has an alarm of a metric Load: 2 of 3 sums of five minutes are above 10.
const template = `{"Resources": {"A": {"Type": "AWS::CloudWatch::Alarm", "Properties": {"AlarmName": "a",
	"ComparisonOperator": "GreaterThanThreshold", "EvaluationPeriods": 3, "DatapointsToAlarm": 2, "Threshold": 10,
	"TreatMissingData": "notBreaching", "Namespace": "N", "MetricName": "Load", "Statistic": "Sum", "Period": 300,
	"Dimensions": [{"Name": "Queue", "Value": {"Fn::GetAtt": ["Q1", "QueueName"]}}]}}}}`

// changed returns the template with pairs of texts replaced.
func changed(t *testing.T, pairs ...string) []byte {
	t.Helper()
	for i := 0; i < len(pairs); i += 2 {
		require.Contains(t, template, pairs[i])
	}
	return []byte(strings.NewReplacer(pairs...).Replace(template))
}

func one(t *testing.T, pairs ...string) (cloudwatch.Alarm, *cloudwatch.Meter) {
	t.Helper()
	alarms, meter, err := cloudwatch.Read(changed(t, pairs...))
	require.NoError(t, err)
	require.Len(t, alarms, 1)
	return alarms[0], meter
}

const load = cloudwatch.Metric("N Load Queue=Q1")

// watching makes an alarm watch an expression of metrics x and y.
func watching(expression string) []string {
	metric := func(id string) string {
		return fmt.Sprintf(`{"Id": %q, "ReturnData": false, "MetricStat": {"Period": 300, "Stat": "Sum",
			"Metric": {"Namespace": "N", "MetricName": %q}}}`, id, id)
	}
	return []string{`"Namespace": "N", "MetricName": "Load", "Statistic": "Sum", "Period": 300,`,
		fmt.Sprintf(`"Metrics": [{"Id": "e", "Expression": %q}, %s, %s],`, expression, metric("x"), metric("y")),
		`"Dimensions": [{"Name": "Queue", "Value": {"Fn::GetAtt": ["Q1", "QueueName"]}}]`, `"AlarmActions": []`}
}

// The examples of CloudWatch's documentation. 0 is a point within the threshold, X is one beyond it, - is missing. The
// newest comes last.
func TestMissingDataIsTreatedAsDocumented(t *testing.T) {
	for _, c := range []struct {
		points              string
		atLeast             int // of three
		breaching, breaches cloudwatch.State
	}{
		{"0-X-X", 3, cloudwatch.OK, cloudwatch.OK},
		{"0----", 3, cloudwatch.OK, cloudwatch.OK},
		{"-----", 3, cloudwatch.Raised, cloudwatch.OK},
		{"0XX-X", 3, cloudwatch.Raised, cloudwatch.Raised},
		{"----X", 3, cloudwatch.Raised, cloudwatch.OK},
		{"X----", 3, cloudwatch.Raised, cloudwatch.OK},
		{"0-X-X", 2, cloudwatch.Raised, cloudwatch.Raised},
		{"00X0X", 2, cloudwatch.Raised, cloudwatch.Raised},
		{"0-X--", 2, cloudwatch.Raised, cloudwatch.OK},
		{"----0", 2, cloudwatch.Raised, cloudwatch.OK},
		{"----X", 2, cloudwatch.Raised, cloudwatch.OK},
	} {
		for treatment, want := range map[string]cloudwatch.State{"breaching": c.breaching, "notBreaching": c.breaches} {
			a, m := one(t, `"DatapointsToAlarm": 2`, fmt.Sprintf(`"DatapointsToAlarm": %d`, c.atLeast), "notBreaching",
				treatment)
			at := midnight
			for _, p := range c.points {
				if p != '-' {
					m.Put(load, at.Add(time.Minute), map[rune]float64{'0': 10, 'X': 11}[p])
				}
				at = at.Add(a.Period)
			}
			assert.Equal(t, want, a.State(m, at), "%s, %d of three, missing is %s", c.points, c.atLeast, treatment)
		}
	}
}

func TestAPeriodCountsOnceItHasEnded(t *testing.T) {
	a, m := one(t, `"EvaluationPeriods": 3, "DatapointsToAlarm": 2`, `"EvaluationPeriods": 1`)
	m.Put(load, midnight, 6)
	m.Put(load, midnight.Add(5*time.Minute-1), 5)
	assert.Equal(t, cloudwatch.OK, a.State(m, midnight.Add(5*time.Minute-1)))
	assert.Equal(t, cloudwatch.Raised, a.State(m, midnight.Add(5*time.Minute)))
	m.Put(load, midnight.Add(5*time.Minute), 0)
	assert.Equal(t, cloudwatch.Raised, a.State(m, midnight.Add(10*time.Minute-1)))
	assert.Equal(t, cloudwatch.OK, a.State(m, midnight.Add(10*time.Minute)))
}

func TestStatistics(t *testing.T) {
	for statistic, want := range map[string]float64{
		"Sum": 5050, "Average": 50.5, "Minimum": 1, "Maximum": 100, "p50": 50, "p99": 99,
	} {
		a, m := one(t, `"Statistic": "Sum"`, `"Statistic": "`+statistic+`"`)
		for i := range 100 {
			m.Put(load, midnight, float64(i+1))
		}
		got, there := a.Value(m, midnight).Number()
		assert.True(t, there)
		assert.InDelta(t, want, got, 1e-9, statistic)
		_, there = a.Value(m, midnight.Add(a.Period)).Number()
		assert.False(t, there)
	}
}

func TestExpressions(t *testing.T) {
	for _, c := range []struct {
		expression, x, y string // empty: without data
		want             string
	}{
		{"x + y", "1", "2", "3"},
		{"x + y", "", "2", "2"},
		{"x - y", "", "2", "-2"},
		{"x + y", "", "", ""},
		{"100 * x / y", "1", "4", "25"},
		{"100 * x / y", "1", "", ""},
		{"100 * x / y", "1", "0", ""},
		{"100 * x / y", "", "4", "0"},
		{"2 * (x + 1)", "3", "", "8"},
		{"2 * (x + 1)", "", "", ""},
		{"100 * x / SERVICE_QUOTA(x)", "30", "", "60"},
		{"x / (1 - 1)", "1", "", ""},
	} {
		a, m := one(t, watching(c.expression)...)
		m.Quotas["N x"] = 50
		for metric, value := range map[cloudwatch.Metric]string{"N x": c.x, "N y": c.y} {
			if value != "" {
				var v float64
				_, err := fmt.Sscan(value, &v)
				require.NoError(t, err)
				m.Put(metric, midnight, v)
			}
		}
		got := ""
		if v, there := a.Value(m, midnight).Number(); there {
			got = fmt.Sprint(v)
		}
		assert.Equal(t, c.want, got, "%s of %q and %q", c.expression, c.x, c.y)
		assert.Equal(t, []cloudwatch.Metric{"N x", "N y"}, a.Metrics())
	}
}

func TestWhatIsNotKnownIsRefused(t *testing.T) {
	for _, changes := range [][]string{
		{"notBreaching", "ignore"}, {"GreaterThanThreshold", "GreaterThanOrEqualToThreshold"}, {"Sum", "IQM"},
		{`"Period": 300`, `"Period": 10`}, {`"Threshold": 10,`, ``}, {`"Threshold": 10`, `"ThresholdMetricId": "x"`},
		watching("FILL(x, 0) + y"), watching("MAX(x)"), watching("x > y"), watching("x +"), watching("z"),
		watching("1 + 1"), watching(`x "a"`),
	} {
		_, _, err := cloudwatch.Read(changed(t, changes...))
		assert.Error(t, err, changes)
	}
}

// The syntax is that of CloudWatch's documentation. A string may end in a wildcard. A member that is absent matches
// nothing.
func TestAFilterMayCompareSeveralMembers(t *testing.T) {
	filtering := func(pattern string) (*cloudwatch.Meter, cloudwatch.Alarm, error) {
		alarms, m, err := cloudwatch.Read(fmt.Appendf(nil, `{"Resources": {"F": {"Type": "AWS::Logs::MetricFilter",
			"Properties": {"FilterPattern": %q, "LogGroupName": {"Ref": "Group"}, "MetricTransformations": [
			{"DefaultValue": 0, "MetricName": "Load", "MetricNamespace": "N", "MetricValue": "1"}]}}}}`, pattern),
			changed(t, `"Dimensions": [{"Name": "Queue", "Value": {"Fn::GetAtt": ["Q1", "QueueName"]}}]`,
				`"Dimensions": []`))
		if err != nil {
			return nil, cloudwatch.Alarm{}, err
		}
		return m, alarms[0], nil
	}
	for line, want := range map[string]float64{
		`{"status":"502","error":"INTEGRATION_FAILURE"}`: 1, `{"status":"500","error":"-"}`: 0, `{"status":"502"}`: 0,
		`{"status":"403","error":"WAF_FILTERED"}`: 0, `{"status":"5","error":"x"}`: 1, `{"status":502,"error":"x"}`: 0,
		`{"error":"x"}`: 0,
	} {
		m, a, err := filtering(`{ ($.error != "-") && ($.status = "5*") }`)
		require.NoError(t, err)
		require.NoError(t, m.Log("Group", midnight, []byte(line)))
		got, _ := a.Value(m, midnight).Number()
		assert.InDelta(t, want, got, 0, line)
	}
	for _, unknown := range []string{`{ $.a = "1" || $.b = "2" }`, `{ $.a > 5 }`, `{ $.a = 1 }`,
		`{ $.a = "*x" }`, `{ $.a = "x*y" }`, `ERROR`, `{ }`, `{ $.a.b = "1" }`} {
		_, _, err := filtering(unknown)
		assert.Error(t, err, unknown)
	}
}

func TestLogsAreCountedAndMetricsTakenFromThem(t *testing.T) {
	filtered := `{"Resources": {"F": {"Type": "AWS::Logs::MetricFilter", "Properties": {
		"FilterPattern": "{ $.level = \"ERROR\" }", "LogGroupName": {"Ref": "Group"}, "MetricTransformations": [
		{"DefaultValue": 0, "MetricName": "Logged", "MetricNamespace": "N", "MetricValue": "1"}]}},
		"A": {"Type": "AWS::CloudWatch::Alarm", "Properties": {"AlarmName": "a",
		"ComparisonOperator": "GreaterThanThreshold", "EvaluationPeriods": 1, "Threshold": 1, "Period": 60,
		"TreatMissingData": "notBreaching", "Namespace": "N", "MetricName": "Logged", "Statistic": "Sum"}},
		"B": {"Type": "AWS::CloudWatch::Alarm", "Properties": {"AlarmName": "b", "Dimensions": [
		{"Name": "stage", "Value": "dev"}], "ComparisonOperator": "LessThanThreshold", "EvaluationPeriods": 1,
		"Threshold": 5, "Period": 60, "TreatMissingData": "notBreaching", "Namespace": "Own", "MetricName": "Speed",
		"Statistic": "Average"}}}}`
	alarms, m, err := cloudwatch.Read([]byte(filtered))
	require.NoError(t, err)
	value := func(i int) string {
		v, there := alarms[i].Value(m, midnight).Number()
		return fmt.Sprint(v, there)
	}
	assert.Equal(t, "0 false", value(0))
	for _, line := range []string{`{"level":"INFO"}`, `no object`} {
		require.NoError(t, m.Log("Group", midnight, []byte(line)))
	}
	assert.Equal(t, "0 true", value(0), "lines came, and none matched")
	require.NoError(t, m.Log("Group", midnight, []byte(`{"level":"ERROR"}`)))
	require.NoError(t, m.Log("Group", midnight, []byte(`{"level":"ERROR","error":"x"}`)))
	require.NoError(t, m.Log("Other", midnight, []byte(`{"level":"ERROR"}`)))
	assert.Equal(t, "2 true", value(0))
	assert.Equal(t, cloudwatch.Raised, alarms[0].State(m, midnight.Add(time.Minute)))
	require.NoError(t, m.Log("Group", midnight, []byte(`{"stage":"dev","Speed":4,"_aws":{"CloudWatchMetrics":[
		{"Namespace":"Own","Dimensions":[["stage"]],"Metrics":[{"Name":"Speed","Unit":"Count"}]}],"Timestamp":0}}`)))
	assert.Equal(t, "4 true", value(1))
	assert.Equal(t, cloudwatch.Raised, alarms[1].State(m, midnight.Add(time.Minute)))
	assert.Equal(t, "Speed", alarms[1].Metrics()[0].Name())
	assert.Error(t, m.Log("Group", midnight, []byte(`{"_aws":{"CloudWatchMetrics":[
		{"Namespace":"Own","Dimensions":[["stage"]],"Metrics":[{"Name":"Speed"}]}]}}`)), "it lacks its dimension")
}
