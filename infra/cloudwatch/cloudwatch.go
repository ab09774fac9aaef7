// Package cloudwatch evaluates the alarms of synthesised templates as CloudWatch would. A Meter records the metrics
// that services report, the logs of programs in the embedded metric format, and the counts of metric filters. An Alarm
// returns its state at a time. So a test can show that an alarm is raised by its own fault and by nothing else.
//
// It knows the statistics, expressions and treatments of missing data that these templates use, and refuses to read
// anything else. It must not know what any metric means. It imports only the standard library.
package cloudwatch

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// State is the state of an alarm. INSUFFICIENT_DATA is not one of the values. Each alarm that can be read here defines
// its treatment of missing data, so none has that state for longer than a moment.
type State string

// The states of an alarm.
const (
	OK     State = "OK"
	Raised State = "ALARM"
)

// Metric names a metric by its namespace, its name and its dimensions in order of their names, for example:
//
//	AWS/Lambda Errors FunctionName=WorkerFunction0A1B2C3D
//
// A dimension that refers to a resource has its logical id.
type Metric string

// Named returns the Metric of a namespace, a name and dimensions.
func Named(namespace, name string, dimensions map[string]string) Metric {
	parts := []string{namespace, name}
	for _, d := range slices.Sorted(maps.Keys(dimensions)) {
		parts = append(parts, d+"="+dimensions[d])
	}
	return Metric(strings.Join(parts, " "))
}

// Name returns the metric's name without namespace and dimensions.
func (m Metric) Name() string {
	_, rest, _ := strings.Cut(string(m), " ")
	name, _, _ := strings.Cut(rest, " ")
	return name
}

// Alarm is an alarm of a template.
type Alarm struct {
	Name        string
	Description string
	Period      time.Duration
	// Of the newest Evaluated periods, Breaching must breach the threshold for the alarm to be raised.
	Evaluated, Breaching int
	Threshold            float64
	Below                bool // a value below the threshold breaches it, else one above
	MissingBreaches      bool // a period without data breaches it

	watched expression
	series  map[string]series // by the ids of the expression
}

// series is a statistic of a metric.
type series struct {
	metric    Metric
	statistic string
}

// Metrics returns the metrics that the alarm watches, in order.
func (a Alarm) Metrics() []Metric {
	var all []Metric
	for _, id := range slices.Sorted(maps.Keys(a.series)) {
		all = append(all, a.series[id].metric)
	}
	return all
}

// filter counts lines of a log group as a metric. It counts a line if the line's object meets all terms.
type filter struct {
	group             string
	terms             []term
	metric            Metric
	amount, otherwise float64
}

// term compares a member of an object with a string.
type term struct {
	member, value string
	prefix        bool // the member begins with the value; otherwise it must equal the value
	not           bool // the result is inverted
}

// meets reports whether an object meets the term. An object without such a string never meets it.
func (t term) meets(object map[string]any) bool {
	text, is := object[t.member].(string)
	return is && t.not != (text == t.value || t.prefix && strings.HasPrefix(text, t.value))
}

// Read reads the alarms and the metric filters of templates, each a JSON object. It returns the alarms in order of
// their names, and a Meter that has the filters. It fails for anything that it would not evaluate as CloudWatch does.
func Read(templates ...[]byte) ([]Alarm, *Meter, error) {
	var alarms []Alarm
	meter := NewMeter()
	for _, raw := range templates {
		var t struct {
			Resources map[string]struct {
				Type       string
				Properties json.RawMessage
			}
		}
		if err := json.Unmarshal(raw, &t); err != nil {
			return nil, nil, fmt.Errorf("cloudwatch: the template: %w", err)
		}
		for id, r := range t.Resources {
			var err error
			switch r.Type {
			case "AWS::CloudWatch::Alarm":
				var a Alarm
				a, err = readAlarm(r.Properties)
				alarms = append(alarms, a)
			case "AWS::Logs::MetricFilter":
				var f filter
				f, err = readFilter(r.Properties)
				meter.filters = append(meter.filters, f)
			}
			if err != nil {
				return nil, nil, fmt.Errorf("cloudwatch: %s: %w", id, err)
			}
		}
	}
	slices.SortFunc(alarms, func(a, b Alarm) int { return strings.Compare(a.Name, b.Name) })
	return alarms, meter, nil
}

type dimensions []struct {
	Name  string
	Value json.RawMessage
}

type metric struct {
	Namespace, MetricName string
	Dimensions            dimensions
}

// query is a metric's statistic, or an expression.
type query struct {
	ID         string `json:"Id"`
	MetricStat *struct {
		Metric metric
		Period int
		Stat   string
	}
	Expression string
	Label      string
	Period     int   // in seconds, of an expression; its metrics have the same period
	ReturnData *bool // nil: true
}

func readAlarm(raw []byte) (Alarm, error) {
	var p struct {
		AlarmName, AlarmDescription string
		ComparisonOperator          string
		EvaluationPeriods           int
		DatapointsToAlarm           int
		Threshold                   *float64
		TreatMissingData            string
		Metrics                     []query
		AlarmActions                []json.RawMessage
		// those of an alarm of one metric
		metric
		Statistic, ExtendedStatistic string
		Period                       int
	}
	if err := strict(raw, &p); err != nil {
		return Alarm{}, err
	}
	if p.Threshold == nil || p.EvaluationPeriods < 1 {
		return Alarm{}, fmt.Errorf("an alarm has a threshold and evaluation periods: %s", raw)
	}
	a := Alarm{
		Name: p.AlarmName, Description: p.AlarmDescription, Threshold: *p.Threshold, Evaluated: p.EvaluationPeriods,
		Breaching: p.DatapointsToAlarm, series: map[string]series{},
	}
	if a.Breaching == 0 {
		a.Breaching = a.Evaluated
	}
	switch p.ComparisonOperator {
	case "GreaterThanThreshold":
	case "LessThanThreshold":
		a.Below = true
	default:
		return Alarm{}, fmt.Errorf("the comparison %q is not known", p.ComparisonOperator)
	}
	switch p.TreatMissingData {
	case "notBreaching":
	case "breaching":
		a.MissingBreaches = true
	default:
		return Alarm{}, fmt.Errorf("the treatment of missing data %q is not known", p.TreatMissingData)
	}
	if p.Metrics != nil {
		err := a.readQueries(p.Metrics)
		return a, err
	}
	if err := a.add("m", p.metric, p.Statistic+p.ExtendedStatistic, p.Period); err != nil { // it has one of both
		return Alarm{}, err
	}
	a.watched = named("m")
	return a, nil
}

// add adds a metric, with its statistic and its period in seconds.
func (a *Alarm) add(id string, m metric, statistic string, period int) error {
	if !known(statistic) || period < 60 || period%60 != 0 {
		return fmt.Errorf("the statistic %q of %d s is not known", statistic, period)
	}
	p := time.Duration(period) * time.Second
	if a.Period != 0 && a.Period != p {
		return fmt.Errorf("the metrics of an alarm have one period, not %v and %v", a.Period, p)
	}
	a.Period = p
	a.series[id] = series{Named(m.Namespace, m.MetricName, m.Dimensions.values()), statistic}
	return nil
}

// readQueries reads the queries of an alarm: one metric, or one expression of metrics.
func (a *Alarm) readQueries(queries []query) (err error) {
	returned := ""
	for _, q := range queries {
		if q.ReturnData == nil || *q.ReturnData {
			if returned != "" {
				return fmt.Errorf("%s and %s are both returned", returned, q.ID)
			}
			returned = q.ID
		}
		switch {
		case q.MetricStat == nil && q.Expression != "":
			if a.watched, err = parse(q.Expression); err != nil {
				return err
			}
			if q.ID != returned {
				return fmt.Errorf("the expression %s is not the one that is returned", q.ID)
			}
		case q.MetricStat != nil && q.Expression == "":
			if err = a.add(q.ID, q.MetricStat.Metric, q.MetricStat.Stat, q.MetricStat.Period); err != nil {
				return err
			}
		default:
			return fmt.Errorf("%s is neither a metric nor an expression", q.ID)
		}
	}
	if a.watched == nil {
		a.watched = named(returned)
	}
	for _, id := range a.watched.ids() {
		if _, there := a.series[id]; !there {
			return fmt.Errorf("there is no metric %s", id)
		}
	}
	return nil
}

// values returns the dimensions by name. A value that is not a string stands for a resource. It becomes the logical id
// if it is a simple reference.
func (d dimensions) values() map[string]string {
	all := map[string]string{}
	for _, one := range d {
		all[one.Name] = referred(one.Value)
	}
	return all
}

// referred returns the string of a value, or the logical id that it refers to.
func referred(raw json.RawMessage) string {
	var s string
	if json.Unmarshal(raw, &s) == nil {
		return s
	}
	var r struct {
		Ref         string
		GetAtt      []string `json:"Fn::GetAtt"`
		ImportValue string   `json:"Fn::ImportValue"`
	}
	if json.Unmarshal(raw, &r) == nil {
		switch {
		case r.Ref != "":
			return r.Ref
		case len(r.GetAtt) == 2:
			return r.GetAtt[0]
		case r.ImportValue != "":
			return r.ImportValue
		}
	}
	return string(raw)
}

func readFilter(raw []byte) (filter, error) {
	var p struct {
		FilterPattern         string
		LogGroupName          json.RawMessage
		MetricTransformations []struct {
			MetricNamespace, MetricName, MetricValue string
			DefaultValue                             float64
		}
	}
	if err := strict(raw, &p); err != nil {
		return filter{}, err
	}
	if len(p.MetricTransformations) != 1 {
		return filter{}, fmt.Errorf("%d metrics of a filter", len(p.MetricTransformations))
	}
	m := p.MetricTransformations[0]
	f := filter{group: referred(p.LogGroupName), metric: Named(m.MetricNamespace, m.MetricName, nil),
		otherwise: m.DefaultValue}
	var err error
	if f.terms, err = readTerms(p.FilterPattern); err != nil {
		return filter{}, err
	}
	f.amount, err = strconv.ParseFloat(m.MetricValue, 64)
	return f, err
}

// aTerm matches a comparison with a string, which may end in a wildcard.
var aTerm = regexp.MustCompile(`^\$\.(\w+) (=|!=) "([^"*]*)(\*?)"$`)

// readTerms reads a filter pattern for objects: one comparison, or several in parentheses. A line must meet all of
// them.
// https://docs.aws.amazon.com/AmazonCloudWatch/latest/logs/FilterAndPatternSyntax.html
func readTerms(pattern string) (terms []term, err error) {
	inner := strings.TrimSuffix(strings.TrimPrefix(pattern, "{ "), " }")
	parts := strings.Split(inner, " && ")
	for _, part := range parts {
		if len(parts) > 1 {
			part = strings.TrimSuffix(strings.TrimPrefix(part, "("), ")")
		}
		found := aTerm.FindStringSubmatch(part)
		if found == nil || "{ "+inner+" }" != pattern {
			return nil, fmt.Errorf("the pattern %s is not known", pattern)
		}
		terms = append(terms, term{member: found[1], not: found[2] == "!=", value: found[3], prefix: found[4] != ""})
	}
	return terms, nil
}

// strict decodes an object and fails for an unknown member.
func strict(raw []byte, v any) error {
	d := json.NewDecoder(strings.NewReader(string(raw)))
	d.DisallowUnknownFields()
	return d.Decode(v)
}
