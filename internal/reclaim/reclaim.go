// Package reclaim gives memory back to the system while the process has little to do. Go itself keeps what a load took
// for two minutes and longer, and what the start alone touched for ever.
//
// The package must not know what the process does. It imports only the standard library.
package reclaim

import (
	"context"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

const (
	lookEvery = 2 * time.Second
	// worth is how much must have been allocated since memory was last given back, in bytes; with a large heap, as much
	// as lives in it, after which it would be collected anyway. Giving it back takes a garbage collection, and what is
	// used again must be mapped again: some hundredths of a second of one core for each 100 MB. After the start it is
	// worth it however little that was.
	worth = 16 << 20
	// calm is how much a process with little to do allocates at most between two looks, in bytes; with a large heap,
	// whose upkeep allocates more, an eighth of what lives in it.
	calm      = 4 << 20
	calmShare = 8
)

// Watch gives memory back each time the process has become quiet after work, its start included, until ctx ends.
func Watch(ctx context.Context) { watch(ctx, heap, giveBack) }

// state is how much the process has allocated so far, and what of it lives, in bytes.
type state struct{ allocated, live uint64 }

func watch(ctx context.Context, look func() state, giveBack func()) {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	before := look()
	start := true
	var given uint64 // what had been allocated when memory was last given back
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		now := look()
		quiet := now.allocated-before.allocated <= max(calm, now.live/calmShare)
		before = now
		if quiet && (start || now.allocated-given >= max(worth, now.live)) {
			start = false
			giveBack()
			before = look()
			given = before.allocated
		}
	}
}

func heap() state {
	samples := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}, {Name: "/gc/heap/live:bytes"}}
	metrics.Read(samples)
	return state{samples[0].Value.Uint64(), samples[1].Value.Uint64()}
}

func giveBack() {
	debug.FreeOSMemory()
	unmapProgram()
}
