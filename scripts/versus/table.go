package main

import (
	"fmt"
	"math"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"
)

func quantile(d []time.Duration, q float64) time.Duration {
	if len(d) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(d))
	return sorted[min(len(sorted)-1, int(q*float64(len(sorted))))]
}

func median(v []float64) float64 {
	if len(v) == 0 {
		return math.NaN()
	}
	sorted := slices.Sorted(slices.Values(v))
	middle := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[middle]
	}
	return (sorted[middle-1] + sorted[middle]) / 2
}

// cell is the median of the rounds, and their range.
func cell(v []float64) string {
	if len(v) == 0 {
		return "–"
	}
	if len(v) == 1 {
		return digits(v[0])
	}
	return fmt.Sprintf("%s (%s–%s)", digits(median(v)), digits(slices.Min(v)), digits(slices.Max(v)))
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

// of applies a measure to the samples of a system with so many clients, in the order of the rounds.
func of(samples []sample, system string, clients int, measure func(sample) float64) []float64 {
	var all []float64
	for _, s := range samples {
		if s.System == system && s.Clients == clients {
			all = append(all, measure(s))
		}
	}
	return all
}

// markdown is what is printed: the figures of all systems, how ours stands to each, and what was measured where.
func markdown(r report, chosen []string, loads []int) string {
	var b strings.Builder
	b.WriteString("| system | clients | runs a second | p50, ms | p99, ms | p99/p50 | processor a run, ms |\n")
	b.WriteString("|---|---|---|---|---|---|---|\n")
	for _, clients := range loads {
		for _, name := range chosen {
			column := func(measure func(sample) float64) string { return cell(of(r.Samples, name, clients, measure)) }
			fmt.Fprintf(&b, "| %s | %d | %s | %s | %s | %s | %s |\n", systems[name].title, clients, column(sample.rate),
				column(func(s sample) float64 { return s.P50 }), column(func(s sample) float64 { return s.P99 }),
				column(sample.tail), column(sample.each))
		}
	}
	b.WriteString(beside(r, chosen, loads))
	rounds := 0
	for _, s := range r.Samples {
		rounds = max(rounds, s.Round)
	}
	what := "One round."
	if rounds > 1 {
		what = fmt.Sprintf("Medians of %d rounds, and their ranges.", rounds)
	}
	fmt.Fprintf(&b, "\n%s No run failed. %s, %s.\n", what, r.Machine, r.Date.Format("2 January 2006"))
	for _, name := range chosen {
		fmt.Fprintf(&b, "%s: %s.\n", systems[name].title, r.Versions[name])
	}
	return b.String()
}

// beside divides ours by each of the others, round by round.
func beside(r report, chosen []string, loads []int) string {
	if !slices.Contains(chosen, "ours") || len(chosen) < 2 {
		return ""
	}
	var b strings.Builder
	b.WriteString("\n| ours divided by | clients | runs a second | p50 | processor a run |\n|---|---|---|---|---|\n")
	for _, clients := range loads {
		for _, name := range chosen {
			if name == "ours" {
				continue
			}
			column := func(measure func(sample) float64) string {
				return cell(ratios(of(r.Samples, "ours", clients, measure), of(r.Samples, name, clients, measure)))
			}
			fmt.Fprintf(&b, "| %s | %d | %s | %s | %s |\n", systems[name].title, clients, column(sample.rate),
				column(func(s sample) float64 { return s.P50 }), column(sample.each))
		}
	}
	return b.String()
}

func ratios(a, b []float64) []float64 {
	var all []float64
	for i := range min(len(a), len(b)) {
		all = append(all, a[i]/b[i])
	}
	return all
}

// machine says what the figures are of.
func machine() string {
	model := "unknown processor"
	if text, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		for line := range strings.Lines(string(text)) {
			if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
				model = strings.TrimSpace(value)
				break
			}
		}
	}
	return fmt.Sprintf("%d cores (%s), %s/%s, %s", runtime.NumCPU(), model, runtime.GOOS, runtime.GOARCH,
		runtime.Version())
}
