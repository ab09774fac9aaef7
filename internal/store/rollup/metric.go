package rollup

import (
	"errors"
	"math"
)

// Metric is the quantity of a series.
type Metric string

// The metrics.
const (
	Runs         Metric = "runs"
	Completed    Metric = "completed"
	Failed       Metric = "failed"
	Cancelled    Metric = "cancelled"
	TimedOut     Metric = "timed_out"
	Errors       Metric = "errors" // failed and timed out
	InputTokens  Metric = "input_tokens"
	OutputTokens Metric = "output_tokens"
	ActiveMS     Metric = "active_ms"
	QueueMS      Metric = "queue_ms"
	ModelCalls   Metric = "model_calls"
	ToolCalls    Metric = "tool_calls"
	Cost         Metric = "cost"
)

// Price is the price of a model, per million tokens.
type Price struct{ Input, Output float64 }

// Prices are those of models, by provider/name.
type Prices map[string]Price

// Cost is the cost of tokens. Tokens of a model without a price cost nothing; priced reports whether any had one.
func (p Prices) Cost(tokens []Tokens) (cost float64, priced bool) {
	for _, t := range tokens {
		if price, there := p[t.Model]; there {
			cost += float64(t.Input)*price.Input + float64(t.Output)*price.Output
			priced = true
		}
	}
	return Rounded(cost / 1e6), priced
}

// Rounded is a cost to the billionth. So sums do not show the order in which fractions were added.
func Rounded(cost float64) float64 { return math.Round(cost*1e9) / 1e9 }

// Of is the quantity of a row.
func (m Metric) Of(k Key, r *Row, p Prices) float64 {
	switch m {
	case Runs:
		return float64(r.Entries)
	case Completed, Failed, Cancelled, TimedOut:
		return entriesIf(k.Status == string(m), r)
	case Errors:
		return entriesIf(k.Status == string(Failed) || k.Status == string(TimedOut), r)
	case InputTokens:
		return float64(r.Used().Input)
	case OutputTokens:
		return float64(r.Used().Output)
	case ActiveMS:
		return float64(r.ActiveMS)
	case QueueMS:
		return float64(r.QueueMS)
	case ModelCalls:
		return float64(r.ModelCalls)
	case ToolCalls:
		return float64(r.ToolCalls)
	case Cost:
		cost, _ := p.Cost(r.Tokens)
		return cost
	default:
		return 0
	}
}

func entriesIf(counts bool, r *Row) float64 {
	if !counts {
		return 0
	}
	return float64(r.Entries)
}

// Series counts a metric by group, in steps.
type Series struct {
	Metric  Metric
	GroupBy Dimension // empty: one group
	Prices  Prices

	Steps  int
	Groups int // that there may be at most

	Values map[string][]float64 // by group
}

// ErrTooManyGroups is the error of a series that would have too many groups.
var ErrTooManyGroups = errors.New("rollup: too many groups")

// Add counts a row in a step. The error is [ErrTooManyGroups].
func (s *Series) Add(step int, k Key, r *Row) error {
	group := s.GroupBy.Of(k)
	values := s.Values[group]
	if values == nil {
		if len(s.Values) >= s.Groups {
			return ErrTooManyGroups
		}
		values = make([]float64, s.Steps)
		s.Values[group] = values
	}
	values[step] += s.Metric.Of(k, r, s.Prices)
	return nil
}
