package main

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var (
	soak      = flag.Duration("soak", 0, "how long the process works at half of its peak")
	killEvery = flag.Duration("kill-every", 5*time.Minute, "how long it lives at a time")
)

// The process works at half of its capacity and is killed at times. Its memory, goroutines and descriptors grow neither
// within a life nor from one to the next.
func TestSoak(t *testing.T) {
	if *soak == 0 {
		t.Skip("make soak does")
	}
	s := &steady{program: *built(t)}
	s.start()
	defer s.stop()
	w := &workers{steady: s, agent: s.make("/agents", `{"name":"a"}`)["agent_id"].(string)}

	peak := w.rate(t.Context(), 20*time.Second, 0)
	t.Logf("peak: %.0f requests/s; now half of it for %s", peak, *soak)
	ctx, cancel := context.WithTimeout(t.Context(), *soak)
	defer cancel()
	var beside sync.WaitGroup
	beside.Go(func() { w.rate(ctx, *soak, peak/2) })
	var lives []life
	for ctx.Err() == nil {
		l := s.live(ctx, *killEvery)
		if l.late.n > 0 { // otherwise it was cut short
			lives = append(lives, l)
			t.Logf("life %d: %s", len(lives), l)
		}
		if ctx.Err() == nil {
			s.restart()
		}
	}
	beside.Wait()
	require.GreaterOrEqual(t, len(lives), 2)
	first, last := lives[0], lives[len(lives)-1]
	for _, l := range lives {
		assert.Less(t, l.late.memory, l.early.memory*1.25+32, "MB within a life: %s", l)
		assert.Less(t, l.late.goroutines, l.early.goroutines*1.25+100, "goroutines within a life: %s", l)
		assert.Less(t, l.late.descriptors, l.early.descriptors*1.25+50, "descriptors within a life: %s", l)
	}
	assert.Less(t, last.late.memory, first.late.memory*1.25+32, "MB from the first life to the last")
	t.Logf("%d requests answered, %d of them after a kill had cut them off; %d runs looked at in the end",
		w.answered.Load(), w.repeated.Load(), len(w.sample))
	for _, run := range w.sample {
		status, v, err := s.call(t.Context(), "GET", "/runs/"+run+"?wait_ms=10000", "", nil)
		require.NoError(t, err)
		require.Equal(t, http.StatusOK, status, run)
		assert.NotNil(t, v["finished_at"], "%s is %s", run, v["status"])
	}
}

// workers are clients of a process that may be killed at any time.
type workers struct {
	*steady
	agent string

	answered, repeated, keys atomic.Int64
	mu                       sync.Mutex
	sample                   []string
}

// rate makes perSecond requests per second for a time d (0: as many as possible), and returns the number of answers per
// second.
func (w *workers) rate(ctx context.Context, d time.Duration, perSecond float64) float64 {
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	before, began := w.answered.Load(), time.Now()
	var next atomic.Int64
	var clients sync.WaitGroup
	for range 32 {
		clients.Go(func() {
			for ctx.Err() == nil {
				if perSecond > 0 {
					due := began.Add(time.Duration(float64(next.Add(1)) / perSecond * float64(time.Second)))
					select {
					case <-time.After(time.Until(due)):
					case <-ctx.Done():
						return
					}
				}
				w.one(context.WithoutCancel(ctx)) // a request that was started is finished
			}
		})
	}
	clients.Wait()
	return float64(w.answered.Load()-before) / time.Since(began).Seconds()
}

// one sends a message and answers the questions of its run.
func (w *workers) one(ctx context.Context) {
	n := w.keys.Add(1)
	form := []string{"agent_id", w.agent, "idempotency_key", strconv.FormatInt(n, 10), "message", "hello"}
	switch rand.IntN(10) {
	case 0:
		form[5] = "/ask Which?"
	case 1:
		form[5] = "/tool calculate {\"expression\":\"6*7\"}"
	case 2, 3:
		form = append(form, "chat_id", fmt.Sprint("chat-", rand.IntN(50)), "on_conflict", "enqueue", "wait", "false")
	}
	post := func(ctx context.Context, p *program) (int, map[string]any, error) { return p.post(ctx, form...) }
	v := w.until(ctx, post)
	run, _ := v["run_id"].(string)
	if run == "" {
		return // five are parked
	}
	if v["status"] == "awaiting_input" {
		w.until(ctx, func(ctx context.Context, p *program) (int, map[string]any, error) {
			return p.call(ctx, "POST", "/runs/"+run+"/cancel", "application/json", strings.NewReader(`{}`))
		})
	}
	if n%500 == 0 {
		w.mu.Lock()
		w.sample = append(w.sample, run)
		w.mu.Unlock()
	}
}

// until repeats a request until it is answered.
func (w *workers) until(
	ctx context.Context, ask func(ctx context.Context, p *program) (int, map[string]any, error),
) map[string]any {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for attempt := 0; ; attempt++ {
		url, key := w.address()
		status, v, err := ask(ctx, &program{t: w.t, url: url, key: key})
		if err == nil && status < 500 {
			w.answered.Add(1)
			if attempt > 0 {
				w.repeated.Add(1)
			}
			assert.Contains(w.t, []int{200, 202, 409}, status, "%v", v)
			return v
		}
		if ctx.Err() != nil {
			assert.Fail(w.t, "no answer for a minute", "%v %v", v, err)
			return nil
		}
		tick(ctx)
	}
}

// averages are the resources of a process: memory in MB, goroutines, descriptors; n is the number of measurements.
type averages struct{ memory, goroutines, descriptors, n float64 }

func (l *averages) add(memory, goroutines, descriptors int) {
	l.n++
	l.memory += (float64(memory) - l.memory) / l.n
	l.goroutines += (float64(goroutines) - l.goroutines) / l.n
	l.descriptors += (float64(descriptors) - l.descriptors) / l.n
}

// life is a process from start to end: its averages in the second quarter and in the last.
type life struct{ early, late averages }

func (l life) String() string {
	return fmt.Sprintf("%.0f MB, %.0f goroutines, %.0f descriptors, and later %.0f MB, %.0f, %.0f", l.early.memory,
		l.early.goroutines, l.early.descriptors, l.late.memory, l.late.goroutines, l.late.descriptors)
}

// live measures the process while it runs.
func (s *steady) live(ctx context.Context, d time.Duration) (l life) {
	began := time.Now()
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	for time.Since(began) < d {
		select {
		case <-ctx.Done():
			return l
		case <-ticker.C:
		}
		switch at := time.Since(began).Seconds() / d.Seconds(); {
		case at >= 0.25 && at < 0.5:
			l.early.add(s.memory(), s.goroutines(), s.descriptors())
		case at >= 0.75:
			l.late.add(s.memory(), s.goroutines(), s.descriptors())
		}
	}
	return l
}

// goroutines is the number of the process's goroutines.
func (p *program) goroutines() int {
	r, err := http.NewRequest(http.MethodGet, strings.TrimSuffix(p.url, "/api/v1")+"/metrics", nil)
	require.NoError(p.t, err)
	r.Header.Set("Authorization", "Bearer "+p.key)
	response, err := http.DefaultClient.Do(r)
	require.NoError(p.t, err)
	defer func() { _ = response.Body.Close() }()
	for lines := bufio.NewScanner(response.Body); lines.Scan(); {
		if count, ok := strings.CutPrefix(lines.Text(), "go_goroutines "); ok {
			n, err := strconv.Atoi(count)
			require.NoError(p.t, err)
			return n
		}
	}
	p.t.Fatal("the metrics do not tell")
	return 0
}
