// Package seal is the port to the encryption of small secrets that must be read again, such as the keys that sign
// webhooks. A reader of the store cannot use the sealed texts.
//
// The adapter guarantees that a sealed text opens only for the owner for which it was sealed, and that a modified text
// does not open. The port imports only the standard library.
package seal

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"errors"
)

// ErrNotOurs is returned for a text that was not sealed for this owner with this key, or was modified since.
var ErrNotOurs = errors.New("seal: the text does not open")

// Sealer is the port. Implementations are safe for concurrent use.
type Sealer interface {
	// Seal encrypts a text so that only Open with the same owner reads it. The error is one of the adapter's key
	// service.
	Seal(ctx context.Context, owner, plain string) (string, error)
	// Open decrypts a sealed text. The error is [ErrNotOurs], or one of the adapter's key service.
	Open(ctx context.Context, owner, sealed string) (string, error)
}

// KeySize is the length of a key of Encrypt and Decrypt in bytes.
const KeySize = 32

// Encrypt encrypts with AES-256-GCM, bound to an owner. The result is the nonce followed by the ciphertext. A key may
// encrypt many texts, but not billions, as nonces are random. It returns an error if the key has a wrong length.
func Encrypt(key []byte, owner, plain string) ([]byte, error) {
	box, err := boxOf(key)
	if err != nil {
		return nil, err
	}
	return box.Seal(nil, nil, []byte(plain), []byte(owner)), nil
}

// Decrypt decrypts the result of Encrypt. The error is [ErrNotOurs], or the error of a key with a wrong length.
func Decrypt(key []byte, owner string, sealed []byte) (string, error) {
	box, err := boxOf(key)
	if err != nil {
		return "", err
	}
	plain, err := box.Open(nil, nil, sealed, []byte(owner))
	if err != nil {
		return "", ErrNotOurs
	}
	return string(plain), nil
}

// boxOf is a cipher that puts its random nonces before the ciphertext.
func boxOf(key []byte) (cipher.AEAD, error) {
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCMWithRandomNonce(block)
}
