// Package kmsseal is the seal port over KMS, as envelopes: each text is encrypted with a data key of its own, which only KMS
// can unwrap, and only for the organisation that it was made for.
//
// It knows no record. It imports its port and the SDK.
package kmsseal

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"strings"
	"sync"

	"github.com/aws/aws-sdk-go-v2/service/kms"
	"github.com/aws/aws-sdk-go-v2/service/kms/types"
	lru "github.com/hashicorp/golang-lru/v2/simplelru"

	"agentplatform/internal/seal"
)

// API is what is used of the SDK's client.
type API interface {
	GenerateDataKey(context.Context, *kms.GenerateDataKeyInput, ...func(*kms.Options)) (*kms.GenerateDataKeyOutput, error)
	Decrypt(context.Context, *kms.DecryptInput, ...func(*kms.Options)) (*kms.DecryptOutput, error)
}

// Sealer seals with data keys of a KMS key.
type Sealer struct {
	api API
	key string

	mu     sync.Mutex
	opened *lru.LRU[[2]string, string] // a sealed text never opens to anything else, so there is nothing to expire
}

// remembered is how many opened texts are kept in memory.
const remembered = 1000

// New makes a keeper over a client; key is the id or ARN of a KMS key.
func New(api API, key string) *Sealer {
	opened, _ := lru.NewLRU[[2]string, string](remembered, nil) // errs only on a size below 1
	return &Sealer{api: api, key: key, opened: opened}
}

const prefix = "kms1:"

// bound is what KMS holds a data key to.
func bound(owner string) map[string]string { return map[string]string{"owner": owner} }

// Seal seals a text.
func (s *Sealer) Seal(ctx context.Context, owner, plain string) (string, error) {
	data, err := s.api.GenerateDataKey(ctx, &kms.GenerateDataKeyInput{KeyId: &s.key, KeySpec: types.DataKeySpecAes256, EncryptionContext: bound(owner)})
	if err != nil {
		return "", err
	}
	sealed, err := seal.Encrypt(data.Plaintext, owner, plain)
	if err != nil {
		return "", err
	}
	// The length of the wrapped key, the wrapped key, the text.
	b := binary.BigEndian.AppendUint16(nil, uint16(len(data.CiphertextBlob))) //nolint:gosec // some hundred bytes
	b = append(append(b, data.CiphertextBlob...), sealed...)
	return prefix + base64.StdEncoding.EncodeToString(b), nil
}

// Open opens a text.
func (s *Sealer) Open(ctx context.Context, owner, sealed string) (string, error) {
	s.mu.Lock()
	plain, known := s.opened.Get([2]string{owner, sealed})
	s.mu.Unlock()
	if known {
		return plain, nil
	}
	encoded, ok := strings.CutPrefix(sealed, prefix)
	b, err := base64.StdEncoding.DecodeString(encoded)
	if !ok || err != nil || len(b) < 2 {
		return "", seal.ErrNotOurs
	}
	n := int(binary.BigEndian.Uint16(b))
	if len(b) < 2+n {
		return "", seal.ErrNotOurs
	}
	data, err := s.api.Decrypt(ctx, &kms.DecryptInput{KeyId: &s.key, CiphertextBlob: b[2 : 2+n], EncryptionContext: bound(owner)})
	var invalid *types.InvalidCiphertextException
	var wrong *types.IncorrectKeyException
	if errors.As(err, &invalid) || errors.As(err, &wrong) {
		return "", seal.ErrNotOurs
	}
	if err != nil {
		return "", err
	}
	if plain, err = seal.Decrypt(data.Plaintext, owner, b[2+n:]); err != nil {
		return "", err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.opened.Add([2]string{owner, sealed}, plain)
	return plain, nil
}
