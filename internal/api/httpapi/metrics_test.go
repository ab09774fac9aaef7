package httpapi

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

// Each value of a label is a series that is kept for good, so the codes have a bound.
func TestTheLabelOfACodeIsOneThatTheDocumentHas(t *testing.T) {
	for _, c := range []struct {
		status     int
		code, want string
	}{
		{500, "run_failed", "run_failed"}, {503, "unavailable", "unavailable"}, {404, "not_found", "not_found"},
		{502, "what somebody else made up", "other"}, {500, "run_failed,internal", "other"},
		{404, "", ""}, {200, "", ""}, {200, "internal", ""}, {304, "", ""},
	} {
		assert.Equal(t, c.want, codeLabel(c.status, c.code), "%d %s", c.status, c.code)
	}
}
