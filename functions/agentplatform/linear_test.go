package main

import (
	"context"
	"flag"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/proof/linear"
	"agentplatform/internal/proof/sim/planted"
)

var histories = flag.Int("histories", 6, "how many histories of the real process are held to the models")

// steady is a program that can be killed and started while clients work.
type steady struct {
	program

	mu sync.RWMutex
}

func (s *steady) address() (url, key string) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.url, s.key
}

// restart kills the process and starts it again.
func (s *steady) restart() {
	s.kill() // clients still call the old address
	s.mu.Lock()
	defer s.mu.Unlock()
	s.start()
}

func serve(t *testing.T, build ...string) (*steady, linear.Service) {
	s := &steady{program: *built(t, build...)}
	s.start()
	status, made, err := s.call(t.Context(), "POST", "/agents", "application/json",
		strings.NewReader(`{"name":"linear"}`))
	require.NoError(t, err)
	require.Equal(t, 201, status)
	return s, linear.Service{Address: s.address, Agent: made["agent_id"].(string)}
}

// The observations of concurrent clients of the real process are linearizable with respect to the models of a chat and
// of a cap. In half of the histories the process is killed and started again during them.
func TestTheServiceIsLinearizable(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make test runs it")
	}
	s, service := serve(t)
	defer s.stop()
	operations, succeeded := 0, 0
	for n := range *histories {
		var struck sync.WaitGroup
		if n%2 == 1 {
			struck.Go(func() {
				// The random moment of the kill is the point of this test.
				<-time.After(time.Duration(20+rand.IntN(200)) * time.Millisecond)
				s.restart()
			})
		}
		var v linear.Verdict
		var err error
		switch seed := uint64(n); n % 6 {
		case 4:
			v, err = service.Caps(t.Context(), seed, 8, 10, 6, false)
		case 5:
			v, err = service.Caps(t.Context(), seed, 12, 8, 9, true)
		default:
			v, err = service.Chats(t.Context(), seed, 8+rand.IntN(25), 12)
		}
		struck.Wait()
		require.NoError(t, err)
		if !assert.Equal(t, porcupine.Ok, v.Result, "history %d:\n%s", n, v.Words) {
			file := filepath.Join(os.TempDir(), "history.html")
			require.NoError(t, v.Picture(file))
			t.Fatalf("its picture: %s", file)
		}
		operations, succeeded = operations+v.Operations, succeeded+v.Succeeded
	}
	t.Logf("%d histories, %d operations, %d%% of them succeeded", *histories, operations, 100*succeeded/operations)
	// About two thirds succeed; fewer if a busy machine starts the process slowly.
	assert.GreaterOrEqual(t, 100*succeeded/operations, 25, "too many refusals prove too little")
}

// A service without the chat lock is rejected, which shows that the check can fail.
func TestTheModelsRejectAServiceWithoutTheLock(t *testing.T) {
	if testing.Short() || *histories < 20 {
		t.Skip("long, a program of its own: make linearize runs it")
	}
	list, err := planted.Bug{Name: "no chat is busy", Edits: []planted.Edit{
		{
			File: "internal/run/intake/intake.go",
			Old:  `if err == nil && chat.Value.ActiveRun != "" {`, New: `if false {`,
		},
	}}.Overlay("../..", t.TempDir())
	require.NoError(t, err)
	s, service := serve(t, "-overlay", list)
	defer s.kill()
	for seed := range uint64(20) {
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second) // without the lock some calls are never answered
		v, err := service.Chats(ctx, seed, 8, 4)
		cancel()
		if err == nil && v.Result == porcupine.Illegal {
			return
		}
	}
	t.Error("20 histories of a service without the lock were found good")
}
