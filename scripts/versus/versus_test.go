package main

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/procfs"
)

func TestQuantile(t *testing.T) {
	var hundred []time.Duration
	for i := range 100 {
		hundred = append(hundred, time.Duration(99-i))
	}
	for q, want := range map[float64]time.Duration{0: 0, 0.5: 50, 0.99: 99, 1: 99} {
		if got := quantile(hundred, q); got != want {
			t.Errorf("quantile %v is %d, not %d", q, got, want)
		}
	}
	if hundred[0] != 99 {
		t.Error("the values keep their order")
	}
}

func TestMedianAndRange(t *testing.T) {
	if m := median([]float64{9, 1, 5}); m != 5 {
		t.Errorf("median of three is %v", m)
	}
	if m := median([]float64{4, 1, 2, 9}); m != 3 {
		t.Errorf("median of four is %v", m)
	}
	for want, values := range map[string][]float64{
		"3263 (0.50–12000)": {12000, 0.5, 3263}, "1.46 (1.40–100)": {1.4, 1.456, 100},
	} {
		if got := cell(values, ""); got != want {
			t.Errorf("%v is shown as %q, not %q", values, got, want)
		}
	}
}

func TestTableDividesRoundByRound(t *testing.T) {
	r := report{machine: "2 cores", date: time.Date(2026, 11, 27, 0, 0, 0, 0, time.UTC)}
	for round, rate := range [][3]int{{4000, 1000, 800}, {3000, 600, 500}} {
		for i, system := range []string{"ours", "dbos", "restate"} {
			r.samples = append(r.samples, sample{system: system, round: round + 1, runs: rate[i],
				took: time.Second, p50: 10 * time.Millisecond, p99: 20 * time.Millisecond, processor: 2 * time.Second})
		}
	}
	got := r.markdown(map[string]string{"ours": "commit 1", "dbos": "v1"})
	for _, want := range []string{
		"| ours | 64 | 3500 (3000–4000) | 10.0 | 20.0 | 0.58 |  |  |",
		"| DBOS Go | 64 | 800 (600–1000) | 10.0 | 20.0 | 2.67 | 4.50 × (4.00–5.00) | 0.22 × (0.20–0.25) |",
		"Medians of 2 rounds", "27 November 2026", "ours: commit 1.",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is not in\n%s", want, got)
		}
	}
}

func TestTreeHasEveryProcessOnce(t *testing.T) {
	all := []procfs.ProcStat{{PID: 1, UTime: 1000}, {PID: 10, PPID: 1, UTime: 1}, {PID: 11, PPID: 10, STime: 2},
		{PID: 12, PPID: 11, CUTime: 4}, {PID: 13, PPID: 10, CSTime: 8}, {PID: 20, PPID: 1, UTime: 16},
		{PID: 30, PPID: 1, UTime: 32}}
	if got := sumTree(all, []int{10, 20, 11}); got != 310*time.Millisecond {
		t.Errorf("the sum is %s", got)
	}
}

func TestAClientTakesOnlyRightAnswers(t *testing.T) {
	for name, c := range map[string]struct {
		answer func(w http.ResponseWriter)
		right  bool
	}{
		"right":          {func(w http.ResponseWriter) { _, _ = w.Write([]byte(`{"a": "yes", "b": "billed"}`)) }, true},
		"a part missing": {func(w http.ResponseWriter) { _, _ = w.Write([]byte(`{"a": "yes"}`)) }, false},
		"another status": {func(w http.ResponseWriter) {
			w.WriteHeader(http.StatusAccepted)
			_, _ = w.Write([]byte("yes billed"))
		}, false},
		"the end of the connection": {func(w http.ResponseWriter) {
			w.Header().Set("Connection", "close")
			_, _ = w.Write([]byte("yes billed"))
		}, false},
	} {
		var requests atomic.Int64
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if body, _ := io.ReadAll(r.Body); string(body) == "{}" && r.Header.Get("Authorization") == "Bearer key" {
				requests.Add(1)
			}
			c.answer(w)
		}))
		got, err := load(context.Background(), server{answers: []string{"yes", "billed"},
			request: func(ctx context.Context) (*http.Request, error) {
				r, err := http.NewRequestWithContext(ctx, http.MethodPost, s.URL+"/x", strings.NewReader("{}"))
				if err == nil {
					r.Header.Set("Authorization", "Bearer key")
				}
				return r, err
			}}, 50*time.Millisecond)
		s.Close()
		if (err == nil) != c.right || c.right && (got.runs < clients || int64(got.runs) != requests.Load()) {
			t.Errorf("%s: %v after %d requests of which %d are counted", name, err, requests.Load(), got.runs)
		}
	}
}
