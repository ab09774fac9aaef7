// Package keyseal is the seal port with one key that the deployment keeps, for local use.
package keyseal

import (
	"context"
	"encoding/base64"
	"fmt"
	"strings"

	"agentplatform/internal/store/seal"
)

// Sealer seals with one key.
type Sealer struct{ key []byte }

// New makes a sealer with a key of [seal.KeySize] bytes; another length is an error.
func New(key []byte) (*Sealer, error) {
	if len(key) != seal.KeySize {
		return nil, fmt.Errorf("keyseal: a key has %d bytes, not %d", seal.KeySize, len(key))
	}
	return &Sealer{key: key}, nil
}

const prefix = "key1:"

// Seal implements [seal.Sealer].
func (s *Sealer) Seal(_ context.Context, owner, plain string) (string, error) {
	b, err := seal.Encrypt(s.key, owner, plain)
	return prefix + base64.StdEncoding.EncodeToString(b), err
}

// Open implements [seal.Sealer]. The error is [seal.ErrNotOurs].
func (s *Sealer) Open(_ context.Context, owner, sealed string) (string, error) {
	encoded, ok := strings.CutPrefix(sealed, prefix)
	b, err := base64.StdEncoding.DecodeString(encoded)
	if !ok || err != nil {
		return "", seal.ErrNotOurs
	}
	return seal.Decrypt(s.key, owner, b)
}
