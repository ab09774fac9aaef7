package main

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/procfs"
)

func quantile(d []time.Duration, q float64) time.Duration {
	sorted := slices.Sorted(slices.Values(d))
	return sorted[min(len(sorted)-1, int(q*float64(len(sorted))))]
}

func median(v []float64) float64 {
	sorted := slices.Sorted(slices.Values(v))
	middle := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[middle]
	}
	return (sorted[middle-1] + sorted[middle]) / 2
}

// cell formats the median of the rounds with its unit, and their range.
func cell(v []float64, unit string) string {
	return fmt.Sprintf("%s%s (%s–%s)", digits(median(v)), unit, digits(slices.Min(v)), digits(slices.Max(v)))
}

// digits shows three significant digits, or all before the point.
func digits(f float64) string {
	switch {
	case f >= 99.95:
		return fmt.Sprintf("%.0f", f)
	case f >= 9.995:
		return fmt.Sprintf("%.1f", f)
	}
	return fmt.Sprintf("%.2f", f)
}

// of applies a measure to the samples of a system, in the order of the rounds.
func (r report) of(system string, measure func(sample) float64) []float64 {
	var all []float64
	for _, s := range r.samples {
		if s.system == system {
			all = append(all, measure(s))
		}
	}
	return all
}

// markdown returns the table of all systems, with ours divided by each of the others, and with the versions and the
// machine.
func (r report) markdown(versions map[string]string) string {
	var b strings.Builder
	b.WriteString("| system | clients | runs a second | p50, ms | p99, ms | processor a run, ms | ours: runs " +
		"| ours: processor |\n")
	b.WriteString("|---|---|---|---|---|---|---|---|\n")
	for _, s := range systems {
		all := func(measure func(sample) float64) []float64 { return r.of(s.name, measure) }
		share := func(measure func(sample) float64) string {
			if s.name == "ours" {
				return ""
			}
			return cell(ratios(r.of("ours", measure), all(measure)), " ×")
		}
		fmt.Fprintf(&b, "| %s | %d | %s | %s | %s | %s | %s | %s |\n", s.title, clients, cell(all(sample.rate), ""),
			digits(median(all(func(s sample) float64 { return milliseconds(s.p50) }))),
			digits(median(all(func(s sample) float64 { return milliseconds(s.p99) }))),
			digits(median(all(sample.each))), share(sample.rate), share(sample.each))
	}
	fmt.Fprintf(&b, "\nMedians of %d rounds, and their ranges. No run failed. %s, %s.\n",
		len(r.of("ours", sample.rate)), r.machine, r.date.Format("2 January 2006"))
	for _, s := range systems {
		fmt.Fprintf(&b, "%s: %s.\n", s.title, versions[s.name])
	}
	return b.String()
}

// ratios divides round by round.
func ratios(a, b []float64) []float64 {
	var all []float64
	for i := range min(len(a), len(b)) {
		all = append(all, a[i]/b[i])
	}
	return all
}

// machine describes the machine of the figures.
func machine() string {
	model := "unknown processor"
	if fs, err := procfs.NewDefaultFS(); err == nil {
		if all, err := fs.CPUInfo(); err == nil && len(all) > 0 {
			model = all[0].ModelName
		}
	}
	return fmt.Sprintf("%d cores (%s), %s/%s, %s", runtime.NumCPU(), model, runtime.GOOS, runtime.GOARCH,
		runtime.Version())
}
