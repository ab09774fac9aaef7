// Package seal is the port to the keeper of small secrets that must be read again, such as those that sign webhooks: text
// in, and text out that is of no use to whoever reads the store.
//
// The adapter guarantees that a sealed text opens for the owner it was sealed for and for no other, and that one that was
// changed does not open. The port imports the standard library alone.
package seal

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"errors"
)

// ErrNotOurs says that a text was not sealed for this owner by this keeper, or was changed since.
var ErrNotOurs = errors.New("seal: the text does not open")

// Sealer is the port.
type Sealer interface {
	// Seal makes a text that only Open, with the same owner, reads.
	Seal(ctx context.Context, owner, plain string) (string, error)
	// Open reads a sealed text.
	Open(ctx context.Context, owner, sealed string) (string, error)
}

// KeySize is the length of a key for Encrypt and Decrypt, in bytes.
const KeySize = 32

// Encrypt encrypts with AES-256-GCM, bound to an owner. A key may be used for many texts, not for thousands of millions.
func Encrypt(key []byte, owner, plain string) ([]byte, error) {
	box, err := boxOf(key)
	if err != nil {
		return nil, err
	}
	nonce := make([]byte, box.NonceSize())
	_, _ = rand.Read(nonce)
	return box.Seal(nonce, nonce, []byte(plain), []byte(owner)), nil
}

// Decrypt reads what Encrypt made.
func Decrypt(key []byte, owner string, sealed []byte) (string, error) {
	box, err := boxOf(key)
	if err != nil {
		return "", err
	}
	if len(sealed) < box.NonceSize() {
		return "", ErrNotOurs
	}
	plain, err := box.Open(nil, sealed[:box.NonceSize()], sealed[box.NonceSize():], []byte(owner))
	if err != nil {
		return "", ErrNotOurs
	}
	return string(plain), nil
}

func boxOf(key []byte) (cipher.AEAD, error) {
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCM(block)
}
