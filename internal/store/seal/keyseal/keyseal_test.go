package keyseal_test

import (
	"bytes"
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

// A text that an earlier build sealed opens: its nonce comes first, then the ciphertext.
func TestTheFormatStays(t *testing.T) {
	s, err := keyseal.New(bytes.Repeat([]byte{7}, seal.KeySize))
	require.NoError(t, err)
	plain, err := s.Open(t.Context(), "o", "key1:dHdlbHZlIGJ5dGVz6ffCX316/d6KntMGyZrcCElKcAFiRmv5")
	require.NoError(t, err)
	require.Equal(t, "a secret", plain)
}

func TestKeyOfTheWrongSizeIsRefused(t *testing.T) {
	_, err := keyseal.New([]byte("short"))
	require.ErrorContains(t, err, "32 bytes")
}
