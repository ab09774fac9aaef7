package main

import (
	"context"
	"flag"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var pairs = flag.Int("pairs", 0, "how many pairs of rounds, without and with a disturbance, are compared")

// TestNeighbours measures what somebody's runs take at the slowest hundredth, alone and beside an organization that wants fifty times
// what its cap allows; and with receivers that answer, and with receivers that never do.
func TestNeighbours(t *testing.T) {
	if *pairs == 0 {
		t.Skip("make neighbours does")
	}
	good := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer good.Close()
	hole := blackHole(t)
	p := built(t)
	p.environ = []string{
		"WEBHOOK_ALLOW_HOSTS=" + strings.TrimPrefix(good.URL, "https://") + "," + hole, trusting(t, good),
	}
	p.start()
	defer p.stop()
	const limit = 4
	home := p.make("/organizations", fmt.Sprintf(`{"name":"greedy","caps":{"user":%d,"organization":%d}}`, limit, limit))["organization_id"].(string)
	user := p.make("/users", fmt.Sprintf(`{"email":"g@example.com","role":"admin","organization_id":%q}`, home))["user_id"].(string)
	greedy := &program{t: t, url: p.url, key: p.make("/api-keys", fmt.Sprintf(`{"name":"k","user_id":%q,"level":"admin","organization_id":%q}`, user, home))["key"].(string)}
	theirs := greedy.make("/agents", `{"name":"a"}`)["agent_id"].(string)
	agent := p.make("/agents", `{"name":"a"}`)["agent_id"].(string)

	want := func(ctx context.Context) {
		var clients sync.WaitGroup
		for range 50 * limit {
			clients.Go(func() {
				for ctx.Err() == nil {
					if status, _, err := greedy.post(ctx, "agent_id", theirs, "message", "/sleep 200ms"); err != nil || status == http.StatusTooManyRequests {
						select { // it is told to come back in a second
						case <-time.After(time.Second):
						case <-ctx.Done():
						}
					}
				}
			})
		}
		clients.Wait()
	}
	nothing := func(ctx context.Context) { <-ctx.Done() }
	p.compare("beside an organization that wants 50 times its cap", 1.5, func(disturbed bool) time.Duration {
		return p.slowest(agent, "", map[bool]func(context.Context){true: want, false: nothing}[disturbed])
	})
	p.compare("with receivers that never answer", 1.25, func(disturbed bool) time.Duration { // the aim is 1.05; a shared machine's noise is more than that
		return p.slowest(agent, map[bool]string{true: "https://" + hole + "/", false: good.URL}[disturbed], nothing)
	})
}

// blackHole accepts connections and says nothing.
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

// slowest is what a run takes at the slowest hundredth of some seconds, while something else goes on.
func (p *program) slowest(agent, callback string, beside func(context.Context)) time.Duration {
	ctx, cancel := context.WithTimeout(p.t.Context(), 5*time.Second)
	defer cancel()
	var others, clients sync.WaitGroup
	others.Go(func() { beside(ctx) })
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
				tick(ctx) // half of what it could do
			}
		})
	}
	clients.Wait()
	others.Wait()
	slices.Sort(took)
	return took[len(took)*99/100]
}

// compare measures pairs, and holds the median of their ratios to a limit.
func (p *program) compare(what string, limit float64, measure func(disturbed bool) time.Duration) {
	var ratios []float64
	for range *pairs {
		quiet, disturbed := measure(false), measure(true)
		ratios = append(ratios, float64(disturbed)/float64(quiet))
		p.t.Logf("%s: p99 %s instead of %s", what, disturbed.Round(100*time.Microsecond), quiet.Round(100*time.Microsecond))
	}
	slices.Sort(ratios)
	median := ratios[len(ratios)/2]
	p.t.Logf("%s: the median of %d ratios is %.2f", what, len(ratios), median)
	assert.Less(p.t, median, limit, what)
}
