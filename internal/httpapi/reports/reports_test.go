package reports

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

// A cell must not be a formula to a spreadsheet that opens the ledger.
func TestCellsAreNoFormulas(t *testing.T) {
	for cell, want := range map[string]string{
		"": "", "plain": "plain", "1": "1", "=1+1": "'=1+1", "+1": "'+1", "-1": "'-1", "@a": "'@a", "a=b": "a=b",
	} {
		assert.Equal(t, want, defuse(cell))
	}
}
