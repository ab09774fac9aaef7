package cloudwatch

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Meter keeps reported metrics. Several goroutines may use it at the same time, but Quotas may not be changed
// meanwhile.
type Meter struct {
	Quotas map[Metric]float64 // the value of SERVICE_QUOTA for a metric

	mu      sync.Mutex
	samples map[Metric][]sample
	filters []filter
}

// NewMeter returns a Meter without metric filters. [Read] returns one with the filters of templates.
func NewMeter() *Meter { return &Meter{samples: map[Metric][]sample{}, Quotas: map[Metric]float64{}} }

type sample struct {
	at    time.Time
	value float64
}

// Put records a value of a metric, as a service reports it.
func (m *Meter) Put(metric Metric, at time.Time, value float64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.samples[metric] = append(m.samples[metric], sample{at, value})
}

// Log records a line that a program has logged to a log group, given by its logical id. It records the metrics that the
// line has in the embedded metric format, and the filters of the log group count the line. No filter counts a line that
// is not an object.
//
// In CloudWatch a filter's default value is for a minute in which lines came and none matched. Here each such line
// reports it. The sum is the same if the default is 0. Any other default is refused.
//
// https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/CloudWatch_Embedded_Metric_Format_Specification.html
func (m *Meter) Log(group string, at time.Time, line []byte) error {
	var object map[string]any
	if err := json.Unmarshal(line, &object); err != nil {
		return nil //nolint:nilerr // a line of text, which no filter of these stacks counts
	}
	for _, f := range m.filters {
		switch {
		case f.otherwise != 0:
			return fmt.Errorf("cloudwatch: the default value %g of %s is not known here", f.otherwise, f.metric)
		case f.group != group:
		case !slices.ContainsFunc(f.terms, func(t term) bool { return !t.meets(object) }):
			m.Put(f.metric, at, f.amount)
		default:
			m.Put(f.metric, at, f.otherwise)
		}
	}
	if object["_aws"] == nil {
		return nil
	}
	var embedded struct {
		AWS struct {
			Timestamp         int64
			CloudWatchMetrics []struct {
				Namespace  string
				Dimensions [][]string
				Metrics    []struct{ Name, Unit string }
			}
		} `json:"_aws"`
	}
	if err := json.Unmarshal(line, &embedded); err != nil {
		return fmt.Errorf("cloudwatch: a line in the embedded metric format: %w", err)
	}
	for _, d := range embedded.AWS.CloudWatchMetrics {
		for _, set := range d.Dimensions {
			dimensions := map[string]string{}
			for _, name := range set {
				value, ok := object[name].(string)
				if !ok {
					return fmt.Errorf("cloudwatch: the dimension %s is not in the line %s", name, line)
				}
				dimensions[name] = value
			}
			for _, metric := range d.Metrics {
				value, ok := object[metric.Name].(float64)
				if !ok {
					return fmt.Errorf("cloudwatch: the metric %s is not in the line %s", metric.Name, line)
				}
				m.Put(Named(d.Namespace, metric.Name, dimensions), at, value)
			}
		}
	}
	return nil
}

// statistic returns a statistic of a metric's values from start to before end.
func (m *Meter) statistic(metric Metric, statistic string, start, end time.Time) Value {
	m.mu.Lock()
	defer m.mu.Unlock()
	var values []float64
	sum := 0.0
	for _, s := range m.samples[metric] {
		if !s.at.Before(start) && s.at.Before(end) {
			values = append(values, s.value)
			sum += s.value
		}
	}
	if len(values) == 0 {
		return Value{}
	}
	slices.Sort(values)
	v := Value{there: true}
	switch statistic {
	case "Sum":
		v.number = sum
	case "Average":
		v.number = sum / float64(len(values))
	case "Minimum":
		v.number = values[0]
	case "Maximum":
		v.number = values[len(values)-1]
	default: // a percentile
		p, _ := percentile(statistic)
		v.number = values[max(int(math.Ceil(p/100*float64(len(values))))-1, 0)]
	}
	return v
}

// known reports whether [Meter.statistic] has a statistic.
func known(statistic string) bool {
	_, ok := percentile(statistic)
	return ok || slices.Contains([]string{"Sum", "Average", "Minimum", "Maximum"}, statistic)
}

func percentile(statistic string) (float64, bool) {
	number, found := strings.CutPrefix(statistic, "p")
	p, err := strconv.ParseFloat(number, 64)
	return p, found && err == nil && p > 0 && p < 100
}
