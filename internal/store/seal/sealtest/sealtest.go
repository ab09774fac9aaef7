// Package sealtest is the conformance suite of the seal port. Every adapter runs all of it.
package sealtest

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/store/seal"
)

// Run runs the suite; open makes a sealer.
func Run(t *testing.T, open func(*testing.T) seal.Sealer) {
	t.Run("a sealed text opens for its owner", func(t *testing.T) {
		s := open(t)
		for _, plain := range []string{"whsec_abc", "", "ein Täxt\x00\n", strings.Repeat("x", 4096)} {
			sealed, err := s.Seal(t.Context(), "org", plain)
			require.NoError(t, err)
			if plain != "" {
				assert.NotContains(t, sealed, plain)
			}
			for range 2 {
				got, err := s.Open(t.Context(), "org", sealed)
				require.NoError(t, err)
				assert.Equal(t, plain, got)
			}
		}
	})
	t.Run("a sealed text does not open for another owner", func(t *testing.T) {
		s := open(t)
		sealed, err := s.Seal(t.Context(), "org", "secret")
		require.NoError(t, err)
		_, err = s.Open(t.Context(), "other", sealed)
		require.ErrorIs(t, err, seal.ErrNotOurs)
	})
	t.Run("a modified text does not open", func(t *testing.T) {
		s := open(t)
		sealed, err := s.Seal(t.Context(), "org", "secret")
		require.NoError(t, err)
		last := sealed[len(sealed)-8]
		changed := sealed[:len(sealed)-8] + string('A'+(last-'A'+1)%26) + sealed[len(sealed)-7:]
		for _, bad := range []string{changed, sealed[:len(sealed)/2], "", "secret", "plain:secret", sealed + "AAAA"} {
			_, err := s.Open(t.Context(), "org", bad)
			require.Error(t, err, bad)
		}
	})
	t.Run("the same text is sealed differently each time", func(t *testing.T) {
		s := open(t)
		one, err := s.Seal(t.Context(), "org", "secret")
		require.NoError(t, err)
		two, err := s.Seal(t.Context(), "org", "secret")
		require.NoError(t, err)
		assert.NotEqual(t, one, two)
	})
}
