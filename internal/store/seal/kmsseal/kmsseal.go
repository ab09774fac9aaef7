// Package kmsseal is the seal port over AWS KMS with envelope encryption. Each text is encrypted with its own data key.
// Only KMS can unwrap that key, and only for the owner for which it was made.
//
// It knows no record. It imports its port, an LRU cache and the SDK.
package kmsseal

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/kms"
	"github.com/aws/aws-sdk-go-v2/service/kms/types"
	lru "github.com/hashicorp/golang-lru/v2"

	"agentplatform/internal/store/seal"
)

// Sealer seals with data keys of one KMS key.
type Sealer struct {
	api    *kms.Client
	key    string
	opened *lru.Cache[[2]string, string] // plain texts by owner and sealed text; they never change
}

// remembered is how many plain texts are cached.
const remembered = 1000

// New makes a sealer over a client; key is the id or ARN of a KMS key.
func New(api *kms.Client, key string) *Sealer {
	opened, _ := lru.New[[2]string, string](remembered) // errs only on a size below 1
	return &Sealer{api: api, key: key, opened: opened}
}

const prefix = "kms1:"

// Owner is the one member of a data key's encryption context. Rights to the KMS key can be narrowed by it.
const Owner = "owner"

// Seal implements [seal.Sealer]. The error is one of KMS.
func (s *Sealer) Seal(ctx context.Context, owner, plain string) (string, error) {
	data, err := s.api.GenerateDataKey(ctx, &kms.GenerateDataKeyInput{KeyId: &s.key, KeySpec: types.DataKeySpecAes256,
		EncryptionContext: map[string]string{Owner: owner}})
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

// Open implements [seal.Sealer]. The error is [seal.ErrNotOurs], or one of KMS.
func (s *Sealer) Open(ctx context.Context, owner, sealed string) (string, error) {
	plain, known := s.opened.Get([2]string{owner, sealed})
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
	data, err := s.api.Decrypt(ctx, &kms.DecryptInput{KeyId: &s.key, CiphertextBlob: b[2 : 2+n],
		EncryptionContext: map[string]string{Owner: owner}})
	_, invalid := errors.AsType[*types.InvalidCiphertextException](err)
	if _, wrong := errors.AsType[*types.IncorrectKeyException](err); invalid || wrong {
		return "", seal.ErrNotOurs
	}
	if err != nil {
		return "", err
	}
	if plain, err = seal.Decrypt(data.Plaintext, owner, b[2+n:]); err != nil {
		return "", err
	}
	s.opened.Add([2]string{owner, sealed}, plain)
	return plain, nil
}
