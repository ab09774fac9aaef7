//go:build !race

package mcptool_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/ai/tool"
	"agentplatform/internal/ai/tool/mcptool"
)

func TestTooLongListsOfAServerAreRefused(t *testing.T) {
	page := 0
	for name, c := range map[string]struct {
		tools   func(json.RawMessage) string
		wantErr string
	}{
		"pages without an end": {func(json.RawMessage) string {
			page++
			return fmt.Sprintf(`{"tools":[],"nextCursor":"c%d"}`, page)
		}, "does not end"},
		"one page again and again": {always(`{"tools":[],"nextCursor":"c"}`), "does not end"},
		"large pages without an end": {always(`{"tools":[],"nextCursor":"` + strings.Repeat("c", 1<<20) + `"}`),
			"over 20 MiB"},
		"too many tools": {always(`{"tools":[` +
			strings.Repeat(`{"name":"a","inputSchema":{"type":"object"}},`, 5000) +
			`{"name":"a","inputSchema":{"type":"object"}}]}`), "over 5000 tools"},
		"a schema that is deep": {always(tools(strings.Repeat(`{"not":`, 1_500_000) + `{}` + strings.Repeat(`}`,
			1_500_000))), "nesting depth"},
		"a list that is deep": {always(strings.Repeat(`[`, 10_000_000) + strings.Repeat(`]`, 10_000_000)),
			"nesting depth"},
	} {
		t.Run(name, func(t *testing.T) {
			address, requests := scripted(t, map[string]func(json.RawMessage) string{"tools/list": c.tools})
			_, err := (&mcptool.Kind{Client: http.DefaultClient}).Discover(t.Context(), tool.Endpoint{URL: address})
			var failure *tool.Error
			require.ErrorAs(t, err, &failure)
			assert.Contains(t, err.Error(), c.wantErr)
			assert.LessOrEqual(t, requests.Load(), int64(tool.MaxTools+20))
			assert.LessOrEqual(t, len(err.Error()), tool.EnoughText+10)
		})
	}
}
