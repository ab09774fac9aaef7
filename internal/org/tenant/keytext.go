package tenant

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"hash/crc32"
	"math/big"
	"strings"

	"agentplatform/internal/platform/host"
)

// An API key's text is "ap_", 8 hex digits that find it, "_", 43 base62 characters of secret, 6 of checksum. By the
// checksum, scanners and this service refuse a mistyped or invented key without a read of the store.
const (
	keyPrefix   = "ap_"
	publicSize  = 8
	secretSize  = 43
	sumSize     = 6
	keyTextSize = len(keyPrefix) + publicSize + 1 + secretSize + sumSize
)

// encode62 writes a number in base 62 with so many digits: 0-9, then A-Z, then a-z.
func encode62(n *big.Int, size int) string {
	text := strings.Map(func(digit rune) rune {
		if digit > '9' {
			digit ^= 'a' ^ 'A' // math/big has the small letters first
		}
		return digit
	}, n.Text(62))
	return strings.Repeat("0", size-len(text)) + text
}

func checksum(s string) string {
	return encode62(new(big.Int).SetUint64(uint64(crc32.ChecksumIEEE([]byte(s)))), sumSize)
}

func randomBytes(h host.Host, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(h.Int64N(256))
	}
	return b
}

// newPublic draws the 8 hex digits by which a key's text is found.
func newPublic(h host.Host) string { return hex.EncodeToString(randomBytes(h, publicSize/2)) }

// newKeyText draws the text of a key: 256 bits of secret.
func newKeyText(h host.Host, public string) string {
	return newText(h, keyPrefix+public+"_")
}

// newText draws the secret after a prefix, and adds the checksum.
func newText(h host.Host, prefix string) string {
	text := prefix + encode62(new(big.Int).SetBytes(randomBytes(h, 32)), secretSize)
	return text + checksum(text)
}

// parseKeyText returns the public part; ok is false when the text cannot be that of a key.
func parseKeyText(text string) (public string, ok bool) {
	if !isText(text, keyPrefix, keyTextSize) || text[len(keyPrefix)+publicSize] != '_' {
		return "", false
	}
	return text[len(keyPrefix) : len(keyPrefix)+publicSize], true
}

// isText reports whether a text can be that of a key or a token: prefix, length and checksum.
func isText(text, prefix string, size int) bool {
	return len(text) == size && strings.HasPrefix(text, prefix) && checksum(text[:size-sumSize]) == text[size-sumSize:]
}

func hashText(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

func sameHash(a, b string) bool {
	return a != "" && subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1
}
