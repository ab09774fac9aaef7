package tenant

import (
	"math/big"
	"testing"

	"github.com/stretchr/testify/assert"
)

// Keys that were given out must stay valid: their checksums are written in these digits.
func TestTheDigitsOfKeysStay(t *testing.T) {
	for n, text := range map[int64]string{0: "000", 9: "009", 10: "00A", 35: "00Z", 36: "00a", 61: "00z", 62: "010"} {
		assert.Equal(t, text, encode62(big.NewInt(n), 3))
	}
	assert.Equal(t, "1o7MUo", checksum("ap_"))
}
