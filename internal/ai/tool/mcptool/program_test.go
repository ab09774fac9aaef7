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

// A program's output is cut between words: no part of an address or of a credential is shown.
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

// The library quotes a program's output. A failure shows little of the quotation, too, and no address.
func TestAMessageOfAProgramIsNotQuotedWhole(t *testing.T) {
	_, err := (&mcptool.Kind{Client: http.DefaultClient}).Discover(t.Context(), scriptOf(
		`printf '{"jsonrpc":"http://user:hunter2@host/%s"}\n' $(head -c 300000 /dev/zero | tr '\0' x); cat >/dev/null`))
	require.ErrorContains(t, err, "the server's program wrote output that is not MCP: ")
	assert.NotContains(t, err.Error(), "hunter2")
	assert.LessOrEqual(t, len(err.Error()), 2*tool.EnoughText)
}

// A program's last message needs no line end. A text in several lines is not a message: the failure has the reason.
func TestAMessageOfAProgramIsALine(t *testing.T) {
	result := `{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}`
	begin := `read line; printf '{"jsonrpc":"2.0","id":1,"result":%s}\n' "$0"; read line; read line; `
	k := &mcptool.Kind{Client: http.DefaultClient}
	found, err := k.Discover(t.Context(), scriptOf(begin+`printf '{"jsonrpc":"2.0","id":2,"result":%s}' "$1"`, result,
		tools(`{"type":"object"}`)))
	require.NoError(t, err)
	assert.Len(t, found, 1)

	for _, indented := range []string{
		"{\n  \"jsonrpc\": \"2.0\",\n  \"id\": 2,\n  \"result\": \"word\"\n}",
		"{ \"jsonrpc\": \"2.0\",\r\n  \"id\": 2, \"result\": \"word\" }",
		"{\"jsonrpc\":\"2.0\",\"id\":2,\"result\":{\n}}",
		"{\n\t\"id\": 2,\n\t\"result\": \"word\",\n\t\"jsonrpc\": \"2.0\"\n}",
	} {
		_, err = k.Discover(t.Context(), scriptOf(begin+`printf '%s\n' "$1"; exit 3`, result, indented))
		require.EqualError(t, err, "the server's program has ended (exit status 3): "+
			"it wrote a message over several lines; a message must be one line")
	}
}
