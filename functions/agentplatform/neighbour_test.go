package main

import (
	"context"
	"flag"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/proof/sim/planted"
)

var pairs = flag.Int("pairs", 0, "how many pairs of rounds, without and with a disturbance, are compared")

// Measures the p99 of a tenant's runs alone, and with an organization that requests fifty times its cap. It also
// measures it with webhook receivers that answer, and with receivers that never do.
func TestNeighbours(t *testing.T) {
	if *pairs == 0 {
		t.Skip("make neighbours does")
	}
	good := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer good.Close()
	hole := blackHole(t)
	list, err := planted.Bug{Edits: []planted.Edit{
		{File: "internal/wiring/boot/local.go", Old: "webhooksAtOnce = 128", New: "webhooksAtOnce = 0"},
	}}.Overlay("../..", t.TempDir())
	require.NoError(t, err)
	mute := built(t, "-overlay", list) // deliveries are stored but not sent
	binary := built(t)
	binary.environ = []string{"WEBHOOK_ALLOW_HOSTS=" + strings.TrimPrefix(good.URL, "https://") + "," + hole,
		trusting(t, good)}
	mute.environ = binary.environ
	round := func(binary *program, callback string, pause func(context.Context),
		beside func(*program) func(context.Context)) time.Duration {
		p := *binary // with its own data folder: the remains of one round must not disturb the next
		p.dir = t.TempDir()
		p.start()
		defer p.kill()
		return p.slowest(callback, pause, beside)
	}
	nothing := func(*program) func(context.Context) { return func(ctx context.Context) { <-ctx.Done() } }
	flatOut := func(context.Context) {}
	compare(t, "beside an organization that wants 50 times its cap", 1.5,
		func() time.Duration { return round(binary, "", tick, nothing) },
		func() time.Duration { return round(binary, "", tick, greed) })
	compare(t, "with receivers that never answer, flat out", 1.05,
		func() time.Duration { return round(binary, good.URL, flatOut, nothing) },
		func() time.Duration { return round(binary, "https://"+hole+"/", flatOut, nothing) })
	compare(t, "with receivers that never answer, against no senders", 1.25,
		func() time.Duration { return round(mute, "https://"+hole+"/", tick, nothing) },
		func() time.Duration { return round(binary, "https://"+hole+"/", tick, nothing) })
	// Receivers that answer keep the cores busy: internal/proof/sim/README.md.
	compare(t, "with receivers that never answer, with cores half idle", 1.25,
		func() time.Duration { return round(binary, good.URL, tick, nothing) },
		func() time.Duration { return round(binary, "https://"+hole+"/", tick, nothing) })
}

// greed is the load of an organization that requests fifty times its cap.
func greed(p *program) (want func(context.Context)) {
	const limit = 4
	theirs, agent := p.organization(limit)
	return func(ctx context.Context) {
		var clients sync.WaitGroup
		var refused atomic.Int64
		for range 50 * limit {
			clients.Go(func() {
				for ctx.Err() == nil {
					if status, _, err := theirs.post(ctx, "agent_id", agent, "message", "/sleep 200ms"); err != nil ||
						status == http.StatusTooManyRequests {
						refused.Add(1)
						select { // the answer requests a retry after one second, and the client waits about that long
						case <-time.After(time.Duration(500+rand.IntN(1000)) * time.Millisecond):
						case <-ctx.Done():
						}
					}
				}
			})
		}
		clients.Wait()
		assert.Greater(p.t, refused.Load(), int64(500), "it asks for too little")
	}
}

// blackHole accepts connections and sends nothing.
func blackHole(t *testing.T) (address string) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	var held []net.Conn
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			held = append(held, c)
		}
	}()
	t.Cleanup(func() {
		_ = l.Close()
		<-ended
		for _, c := range held {
			_ = c.Close()
		}
	})
	return l.Addr().String()
}

// slowest is the p99 of runs in ten seconds, while other work runs. Clients pause between their runs.
func (p *program) slowest(
	callback string, pause func(context.Context), beside func(*program) func(context.Context),
) time.Duration {
	agent := p.make("/agents", `{"name":"a"}`)["agent_id"].(string)
	disturb := beside(p)
	ctx, cancel := context.WithTimeout(p.t.Context(), 12*time.Second)
	defer cancel()
	var others, clients sync.WaitGroup
	others.Go(func() { disturb(ctx) })
	<-time.After(2 * time.Second) // the measurement is of the steady state, not of the start
	var mu sync.Mutex
	var took []time.Duration
	for range 8 {
		clients.Go(func() {
			for ctx.Err() == nil {
				form := []string{"agent_id", agent, "message", "hello"}
				if callback != "" {
					form = append(form, "callback_url", callback)
				}
				began := time.Now()
				status, _, err := p.post(context.WithoutCancel(ctx), form...)
				assert.NoError(p.t, err)
				assert.Equal(p.t, http.StatusOK, status)
				mu.Lock()
				took = append(took, time.Since(began))
				mu.Unlock()
				pause(ctx)
			}
		})
	}
	clients.Wait()
	others.Wait()
	slices.Sort(took)
	return took[len(took)*99/100]
}

// compare measures pairs of rounds in alternating order, and checks the median of their ratios against a limit.
func compare(t *testing.T, what string, limit float64, alone, disturbed func() time.Duration) {
	var ratios []float64
	for n := range *pairs {
		var quiet, loud time.Duration
		if n%2 == 0 {
			quiet = alone()
			loud = disturbed()
		} else {
			loud = disturbed()
			quiet = alone()
		}
		ratios = append(ratios, float64(loud)/float64(quiet))
		t.Logf("%s: p99 %s instead of %s", what, loud.Round(100*time.Microsecond), quiet.Round(100*time.Microsecond))
	}
	slices.Sort(ratios)
	median := ratios[len(ratios)/2]
	t.Logf("%s: the median of %d ratios is %.2f", what, len(ratios), median)
	assert.Less(t, median, limit, what)
}
