package keyseal_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"agentplatform/internal/store/seal"
	"agentplatform/internal/store/seal/keyseal"
	"agentplatform/internal/store/seal/sealtest"
)

func TestContract(t *testing.T) {
	sealtest.Run(t, func(t *testing.T) seal.Sealer {
		s, err := keyseal.New(make([]byte, seal.KeySize))
		require.NoError(t, err)
		return s
	})
}

func TestKeyOfTheWrongSizeIsRefused(t *testing.T) {
	_, err := keyseal.New([]byte("short"))
	require.ErrorContains(t, err, "32 bytes")
}
