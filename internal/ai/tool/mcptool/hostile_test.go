package mcptool_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/ai/tool"
	"agentplatform/internal/ai/tool/mcptool"
)

// scripted is a server that gives these answers, even in breach of the protocol.
func scripted(
	t *testing.T, answers map[string]func(params json.RawMessage) string,
) (address string, requests *atomic.Int64) {
	t.Helper()
	requests = &atomic.Int64{}
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
		requests.Add(1)
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
	return web.URL, requests
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

func TestAFailureHasWords(t *testing.T) {
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var m message
		_ = json.NewDecoder(r.Body).Decode(&m)
		m = message{Version: "2.0", ID: m.ID, Error: json.RawMessage(`{"code":-32000,"message":" "}`)}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(m.line())
	}))
	defer web.Close()
	_, err := (&mcptool.Kind{Client: http.DefaultClient}).Discover(t.Context(), tool.Endpoint{URL: web.URL})
	require.EqualError(t, err, "the server failed and gave no reason")
}

// Some servers begin JSON with a byte order mark.
func TestAMarkBeforeJSONIsDropped(t *testing.T) {
	address, _ := scripted(t, map[string]func(json.RawMessage) string{"tools/list": always(tools(`{"type":"object"}`))})
	to, err := url.Parse(address)
	require.NoError(t, err)
	proxy := httputil.NewSingleHostReverseProxy(to)
	proxy.ModifyResponse = func(r *http.Response) error {
		r.Body, r.ContentLength = io.NopCloser(io.MultiReader(strings.NewReader("\ufeff"), r.Body)), -1
		r.Header.Del("Content-Length")
		return nil
	}
	web := httptest.NewServer(proxy)
	defer web.Close()
	found, err := (&mcptool.Kind{Client: http.DefaultClient}).Discover(t.Context(), tool.Endpoint{URL: web.URL})
	require.NoError(t, err)
	assert.NotEmpty(t, found)
}

// FuzzAnswer makes a server list arbitrary JSON as its tools.
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
				len(one.Description) > tool.MaxDescription+len("…") {
				t.Fatalf("%+v", one)
			}
		}
	})
}

// A server may list more tools than a toolkit has: the toolkit chooses.
func TestAServerListsUpTo5000Tools(t *testing.T) {
	for n, want := range map[int]string{600: "", 5000: "", 5001: "over 5000 tools"} {
		all := make([]string, n)
		for i := range all {
			all[i] = fmt.Sprintf(`{"name":"t %d","inputSchema":{"type":"object"}}`, i)
		}
		list := `{"tools":[` + strings.Join(all, `,`) + `]}`
		address, _ := scripted(t, map[string]func(json.RawMessage) string{"tools/list": always(list)})
		found, err := (&mcptool.Kind{Client: http.DefaultClient}).Discover(t.Context(), tool.Endpoint{URL: address})
		if want != "" {
			require.ErrorContains(t, err, want)
			continue
		}
		require.NoError(t, err)
		assert.Len(t, found, n)
	}
}

// Popular servers describe a tool in up to 7,000 bytes. The part after the first 2,000 describes how to call it.
func TestADescriptionIsRead(t *testing.T) {
	for size, want := range map[int]int{7000: 7000, 20_000: tool.MaxDescription + len("…")} {
		description := strings.Repeat("x", size)
		address, _ := scripted(t, map[string]func(json.RawMessage) string{"tools/list": always(
			`{"tools":[{"name":"a","inputSchema":{"type":"object"},"description":"` + description + `"}]}`)})
		found, err := (&mcptool.Kind{Client: http.DefaultClient}).Discover(t.Context(), tool.Endpoint{URL: address})
		require.NoError(t, err)
		require.Len(t, found, 1)
		assert.Len(t, found[0].Description, want)
	}
}
