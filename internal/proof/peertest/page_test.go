//go:build peers

package peertest

import (
	"os"
	"testing"
)

// TestThePageOfCounterparts writes the page from the rows that the other tests have stored. It runs for
// `make counterparts` alone, after them.
func TestThePageOfCounterparts(t *testing.T) {
	if os.Getenv("WRITE_COUNTERPARTS") != "page" {
		t.Skip("make counterparts runs it")
	}
	WritePage(t)
}
