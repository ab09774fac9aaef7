// Package keyseal is the seal port with one key that the deployment keeps, for a laptop.
package keyseal

import (
	"context"
	"encoding/base64"
	"fmt"
	"strings"

	"agentplatform/internal/seal"
)

// Sealer seals with a key.
type Sealer struct{ key []byte }

// New makes a keeper of a key of seal.KeySize bytes.
func New(key []byte) (*Sealer, error) {
	if len(key) != seal.KeySize {
		return nil, fmt.Errorf("keyseal: a key has %d bytes, not %d", seal.KeySize, len(key))
	}
	return &Sealer{key: key}, nil
}

const prefix = "key1:"

// Seal seals a text.
func (s *Sealer) Seal(_ context.Context, owner, plain string) (string, error) {
	b, err := seal.Encrypt(s.key, owner, plain)
	return prefix + base64.StdEncoding.EncodeToString(b), err
}

// Open opens a text.
func (s *Sealer) Open(_ context.Context, owner, sealed string) (string, error) {
	encoded, ok := strings.CutPrefix(sealed, prefix)
	b, err := base64.StdEncoding.DecodeString(encoded)
	if !ok || err != nil {
		return "", seal.ErrNotOurs
	}
	return seal.Decrypt(s.key, owner, b)
}
