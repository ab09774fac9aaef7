package mcptool_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/ai/tool"
	"agentplatform/internal/ai/tool/mcptool"
)

// scripted is a server that gives the answers it is told to, in breach of the protocol if need be.
func scripted(
	t *testing.T, answers map[string]func(params json.RawMessage) string,
) (address string, asked *atomic.Int64) {
	t.Helper()
	asked = &atomic.Int64{}
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var call struct {
			ID     json.RawMessage
			Method string
			Params json.RawMessage
		}
		if r.Method != http.MethodPost || json.NewDecoder(r.Body).Decode(&call) != nil {
			w.WriteHeader(http.StatusMethodNotAllowed)
			return
		}
		asked.Add(1)
		result := `{"protocolVersion":"2025-06-18","capabilities":{"tools":{},"resources":{},"prompts":{}},` +
			`"serverInfo":{"name":"s","version":"1"}}`
		if answer := answers[call.Method]; answer != nil {
			result = answer(call.Params)
		}
		if call.ID == nil {
			w.WriteHeader(http.StatusAccepted)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"jsonrpc":"2.0","id":`+string(call.ID)+`,"result":`+result+`}`)
	}))
	t.Cleanup(func() {
		web.CloseClientConnections()
		web.Close()
	})
	return web.URL, asked
}

func always(answer string) func(json.RawMessage) string {
	return func(json.RawMessage) string { return answer }
}

func tools(schema string) string {
	return `{"tools":[{"name":"act","description":"acts","inputSchema":` + schema + `}]}`
}

func TestATooLargeSchemaIsShortened(t *testing.T) {
	address, _ := scripted(t, map[string]func(json.RawMessage) string{
		"tools/list": always(tools(`{"type":"object","description":"` + strings.Repeat(`\u0001`, 100_000) + `"}`)),
	})
	found, err := (&mcptool.Kind{Client: http.DefaultClient}).Discover(t.Context(), tool.Endpoint{URL: address})
	require.NoError(t, err)
	assert.JSONEq(t, `{"type":"object"}`, string(found[0].Parameters))
}

// FuzzAnswer has a server list arbitrary JSON as its tools.
func FuzzAnswer(f *testing.F) {
	for _, seed := range []string{
		tools(`{"type":"object"}`), tools(`null`), tools(`[]`), `{"tools":null}`, `{"tools":[null]}`, `null`, `[]`,
		`{"tools":[{}],"nextCursor":""}`, `{"tools":[{"name":1}]}`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, answer string) {
		address, _ := scripted(t, map[string]func(json.RawMessage) string{"tools/list": always(answer)})
		found, err := (&mcptool.Kind{Client: http.DefaultClient}).Discover(t.Context(), tool.Endpoint{URL: address})
		var failure *tool.Error
		if err != nil && !assert.ErrorAs(t, err, &failure) {
			t.Fatal(err)
		}
		for _, one := range found {
			if tool.Name(one.Name) != one.Name || len(one.Parameters) > tool.MaxSchema || !json.Valid(one.Parameters) ||
				len(one.Description) > tool.EnoughText+10 {
				t.Fatalf("%+v", one)
			}
		}
	})
}

// A selection chooses before the tools of a toolkit are counted.
func TestASelectionChoosesBeforeTheLimit(t *testing.T) {
	list := func(n int) string {
		all := make([]string, n)
		for i := range all {
			all[i] = fmt.Sprintf(`{"name":"t %d","inputSchema":{"type":"object"}}`, i)
		}
		return `{"tools":[` + strings.Join(all, `,`) + `]}`
	}
	for name, c := range map[string]struct {
		tools  int
		choose tool.Selection
		want   string
	}{
		"a few, as the server names them": {600, tool.Selection{Include: []string{"t 1", "t 2*"}}, ""},
		"a few, by their clean names":     {600, tool.Selection{Include: []string{"t_1"}}, ""},
		"without some":                    {600, tool.Selection{Exclude: []string{"t 1*"}}, ""},
		"all":                             {600, tool.Selection{}, "over 500 tools (600)"},
		"too many":                        {600, tool.Selection{Include: []string{"t*"}}, "over 500 tools (600)"},
		"without too few":                 {600, tool.Selection{Exclude: []string{"t 7"}}, "over 500 tools (599)"},
		"as many as may be":               {500, tool.Selection{}, ""},
		"as many as may be listed":        {5000, tool.Selection{Include: []string{"t 1"}}, ""},
		"more than may be listed":         {5001, tool.Selection{Include: []string{"t 1"}}, "over 5000 tools"},
	} {
		t.Run(name, func(t *testing.T) {
			address, _ := scripted(t, map[string]func(json.RawMessage) string{"tools/list": always(list(c.tools))})
			found, err := (&mcptool.Kind{Client: http.DefaultClient}).Discover(t.Context(),
				tool.Endpoint{URL: address, Selection: c.choose})
			if c.want != "" {
				var failure *tool.Error
				require.ErrorAs(t, err, &failure)
				assert.Contains(t, failure.Message, c.want)
				assert.Equal(t, c.tools <= 5000, failure.Field == "include")
				return
			}
			require.NoError(t, err)
			assert.Len(t, found, c.tools, "who chooses gets the whole list")
		})
	}
}
