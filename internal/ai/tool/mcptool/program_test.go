package mcptool_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/ai/tool"
	"agentplatform/internal/ai/tool/mcptool"
)

// scriptOf is a program that sh runs, with these as its arguments.
func scriptOf(script string, arguments ...string) tool.Endpoint {
	return tool.Endpoint{Command: append([]string{"sh", "-c", script}, arguments...)}
}

// What is left of a program's words where they were cut is whole: no part of an address or of a credential.
func TestNoPartOfAWordIsLeftWhereAProgramsWordsAreCut(t *testing.T) {
	const secret = "postgres://admin:hunter2@db.internal.corp/prod?x=SECRET"
	x := strings.Repeat("x ", 600)
	for name, c := range map[string]struct {
		text string
		want string // in the failure
	}{
		"in the last line":        {x + "cannot connect to " + secret + strings.Repeat(" y", 485), "x…"},
		"before a whole line":     {x + secret + "\n" + strings.Repeat("y", 970) + "\nat last", "\nat last"},
		"with no white space":     {strings.Repeat("x", 1200) + secret + strings.Repeat("y", 970), ""},
		"in the first line":       {strings.Repeat("x ", 485) + secret + strings.Repeat(" y", 1000), "x…"},
		"in an address of digits": {strings.Repeat("x ", 497) + "10.20.30.40:5432" + strings.Repeat(" y", 1000), "x…"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := (&mcptool.Kind{Client: http.DefaultClient}).Discover(t.Context(),
				scriptOf(`printf %s "$0" >&2; exit 1`, c.text))
			require.ErrorContains(t, err, "has ended (exit status 1)")
			assert.Contains(t, strings.ReplaceAll(err.Error(), " …", "…"), c.want)
			for _, part := range []string{"SECRET", "hunter2", "postgres", "corp", "10.20"} {
				assert.NotContains(t, err.Error(), part)
			}
		})
	}
}
