//go:build !race

package sim_test

import (
	"io"
	"testing"

	"github.com/stretchr/testify/require"

	"agentplatform/internal/proof/sim"
)

func TestTheSameSeedGivesTheSameTrace(t *testing.T) {
	for _, seed := range []uint64{1, 2, 3, 65, 66, 83} { // from 64 on with documents; 83: rights change, too
		one, two := sim.Simulate(seed, io.Discard), sim.Simulate(seed, nil)
		require.Empty(t, one.Failure)
		require.Equal(t, seed > 64, one.Documents != nil)
		require.Equal(t, one.Trace, two.Trace, "seed %d", seed)
		require.Equal(t, one, two)
	}
}
