//go:build !race

package main

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// searches is how fast an organization's small requests are answered, and how many are not.
func (p *program) searches() (p50, p99 time.Duration, failed int) {
	var took []time.Duration
	for range 500 {
		began := time.Now()
		status, _, err := p.call(p.t.Context(), "POST", "/search", "application/json",
			strings.NewReader(`{"query":"where?","knowledge_base_ids":[]}`))
		require.NoError(p.t, err)
		if status != http.StatusOK {
			failed++
		}
		took = append(took, time.Since(began))
		<-time.After(10 * time.Millisecond) // so it is some seconds of what others do
	}
	slices.Sort(took)
	return took[len(took)/2], took[len(took)*99/100], failed
}

// Small requests of an organization are answered beside others that hold all bodies which they may: bodies that do not
// end, drip, and are opened again when they are refused or ended.
func TestSmallRequestsBesideHeldBodies(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make bounds runs it")
	}
	p := abused(t)
	other, _ := p.organization(10)
	log := func(what string) (failed int) {
		p50, p99, failed := other.searches()
		t.Logf("%s: p50 %s, p99 %s, %d of 500 failed; %d MB", what, p50, p99, failed, p.memory())
		return failed
	}
	var attackers []*program
	for range 4 {
		theirs, _ := p.organization(10)
		attackers = append(attackers, theirs)
	}
	assert.Zero(t, log("alone"))
	for _, n := range []int{2, 4} {
		ended := make(chan struct{})
		var holding, filled sync.WaitGroup
		for _, theirs := range attackers[:n] {
			for range 4 {
				filled.Add(1)
				holding.Go(func() { theirs.holds(ended, filled.Done) })
			}
		}
		filled.Wait()
		assert.Zero(t, log(fmt.Sprintf("beside %d organizations", n)))
		close(ended)
		holding.Wait()
	}
}

// holds keeps a body of 8 MiB open that drips, and opens the next when it is refused or cut. It calls filled once, when
// the first has been sent but for its end, or was refused.
func (p *program) holds(ended <-chan struct{}, filled func()) {
	most := strings.Repeat("x", 8<<20-len(`{"query":"`)-5) // what is left has no room for a request
	for once := sync.OnceFunc(filled); ; {
		c, err := p.dial(fmt.Sprintf("POST /api/v1/search HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\n"+
			"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n"+`{"query":"`, p.key, 8<<20))
		if !assert.NoError(p.t, err) {
			return
		}
		_, err = io.WriteString(c, most)
		once()
		for err == nil {
			select {
			case <-ended:
				_ = c.Close()
				return
			case <-time.After(5 * time.Second):
				_, err = io.WriteString(c, "x")
			}
		}
		_ = c.Close()
	}
}
