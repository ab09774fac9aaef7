//go:build peers

package peertest

import (
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
)

// TestThePageOfCounterparts writes the page from the rows that the other tests have stored. Only `make counterparts`
// runs it, after them.
func TestThePageOfCounterparts(t *testing.T) {
	if os.Getenv("WRITE_COUNTERPARTS") != "page" {
		t.Skip("make counterparts runs it")
	}
	WritePage(t)
}

// Counterparts that differ in their versions or variants alone share a row, in which each is found.
func TestUsesOfOneCounterpartShareARow(t *testing.T) {
	one := Counterpart{Name: "Peer", Version: "1.2", Works: "all"}
	other := Counterpart{Name: "Peer", Version: "1.2", Variant: "HTTP", Works: "all"}
	less := Counterpart{Name: "Peer", Version: "1.0", Works: "all", Not: "streams"}
	page := table([]Counterpart{less, other, one, one})
	assert.Equal(t, "| Peer | 1.2, 1.2 (HTTP) | all | – |\n| Peer | 1.0 | all | streams |\n", page)
	for _, c := range []Counterpart{one, other, less} {
		assert.True(t, c.on(page), c)
		c.Version += ".1"
		assert.False(t, c.on(page), c)
	}
}
