package toolkit_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/ai/tool"
	"agentplatform/internal/org/catalog"
	"agentplatform/internal/org/toolkit"
	"agentplatform/internal/store/record"
)

// policy is the approval of a tool; empty if no call needs one.
func policy(t *testing.T, s *toolkit.Toolkits, id, name string) string {
	t.Helper()
	one := only(t, s, id, name)
	require.Equal(t, name, one.Name)
	if one.Approval.Mode == "never" {
		return ""
	}
	return one.Approval.Mode
}

func never(t *testing.T, s *toolkit.Toolkits, id, name string) {
	t.Helper()
	_, err := s.SetRules(t.Context(), record.Of("o"), id, name,
		toolkit.Rules{Approval: &tool.Approval{Mode: "never"}, Loosen: agrees})
	require.NoError(t, err)
	require.Empty(t, policy(t, s, id, name))
}

// document is an OpenAPI document with an operation of each method, and another one.
func document(host, act, method string) []byte {
	paths := map[string]any{"/act": map[string]any{method: map[string]any{"operationId": act}}}
	for _, m := range []string{"get", "head", "post", "put", "patch", "delete"} {
		paths["/"+m] = map[string]any{m: map[string]any{"operationId": "of_" + m}}
	}
	raw, _ := json.Marshal(map[string]any{
		"openapi": "3.0.3", "servers": []any{map[string]any{"url": host}}, "paths": paths,
	})
	return raw
}

// A new tool needs an approval if its calls may change something. These are calls by other methods of HTTP than GET and
// HEAD, and tools of an MCP server that does not declare them read-only. Other hints change nothing.
func TestNewToolsThatMayChangeSomethingNeedAnApproval(t *testing.T) {
	k := &kind{names: []string{"look", "pay"}, reads: map[string]bool{"look": true}, safe: true}
	s := newToolkits(t, k)
	made, err := s.Create(t.Context(), "o", toolkit.Draft{
		Kind: "mcp", Name: text("n"), URL: text("https://a.example.com"),
	})
	require.NoError(t, err)
	for _, one := range made.Tools {
		assert.Equal(t, one.Name == "pay", one.Approval == tool.Always, one.Name)
		assert.True(t, one.Enabled)
	}
	k.names, k.reads["see"] = []string{"look", "pay", "see", "send"}, true
	_, err = s.Refresh(t.Context(), record.Of("o"), made.Value.ID)
	require.NoError(t, err)
	for name, want := range map[string]string{"look": "", "see": "", "pay": "always", "send": "always"} {
		assert.Equal(t, want, policy(t, s, made.Value.ID, name), name)
	}

	web := reach(t)
	made, err = web.Create(t.Context(), "o", toolkit.Draft{
		Kind: "openapi", Name: text("n"), Document: document("https://a.example.com", "act", "get"),
	})
	require.NoError(t, err)
	for name, want := range map[string]string{
		"act": "", "of_get": "", "of_head": "", "of_post": "always", "of_put": "always", "of_patch": "always",
		"of_delete": "always",
	} {
		assert.Equal(t, want, policy(t, web, made.Value.ID, name), name)
	}
	for _, method := range []string{"", "GET", "POST", "PUT", "PATCH", "DELETE"} {
		made, err = web.Create(t.Context(), "o", toolkit.Draft{Kind: "http", Name: text("n"),
			URL: text("https://a.example.com"), Request: &tool.HTTPRequest{Name: "act", Method: method}})
		require.NoError(t, err)
		assert.Equal(t, method == "" || method == "GET", policy(t, web, made.Value.ID, "act") == "", method)
	}
}

// A rule that no call needs an approval was made for another call. That call changed nothing, or went elsewhere.
func TestAToolThatTurnsNeedsAnApprovalAgain(t *testing.T) {
	refresh := func(s *toolkit.Toolkits, id string, changed ...string) {
		t.Helper()
		d, err := s.Refresh(t.Context(), record.Of("o"), id)
		require.NoError(t, err)
		assert.Equal(t, changed, d.Changed)
	}
	t.Run("it read only", func(t *testing.T) {
		for _, safe := range []bool{false, true} { // whether the server declares it idempotent
			k := &kind{names: []string{"act"}, reads: map[string]bool{"act": true}, safe: safe}
			s := newToolkits(t, k)
			id := made(t, s, toolkit.Draft{Name: text("n"), URL: text("https://a.example.com")}).ID
			k.reads = nil
			refresh(s, id, "act")
			assert.Equal(t, "always", policy(t, s, id, "act"))
			assert.False(t, only(t, s, id, "act").Enabled)
			never(t, s, id, "act")
			refresh(s, id)
			assert.Empty(t, policy(t, s, id, "act"), "that was decided about this call")
			k.reads = map[string]bool{"act": true}
			refresh(s, id)
			k.reads = nil
			refresh(s, id, "act")
			assert.Equal(t, "always", policy(t, s, id, "act"), "each time")
		}
	})
	t.Run("it was away", func(t *testing.T) {
		k := &kind{names: []string{"act", "look"}}
		s := newToolkits(t, k)
		id := made(t, s, toolkit.Draft{Name: text("n"), URL: text("https://a.example.com")}).ID
		never(t, s, id, "act")
		k.names = []string{"look"}
		refresh(s, id)
		k.names = []string{"act", "look"}
		refresh(s, id)
		assert.Equal(t, "always", policy(t, s, id, "act"))
	})
	t.Run("its server was another one", func(t *testing.T) {
		s := newToolkits(t, &kind{names: []string{"act"}})
		id := made(t, s, toolkit.Draft{Name: text("n"), URL: text("https://a.example.com")}).ID
		never(t, s, id, "act")
		_, err := s.Edit(t.Context(), record.Of("o"), id, 0, toolkit.Draft{URL: text("https://b.example.com")})
		require.NoError(t, err)
		assert.Equal(t, "always", policy(t, s, id, "act"))
	})
	t.Run("its request was another one", func(t *testing.T) {
		for name, now := range map[string][]byte{
			"method": document("https://a.example.com", "act", "delete"),
			"host":   document("https://b.example.com", "act", "post"),
		} {
			s := reach(t)
			e, err := s.Create(t.Context(), "o", toolkit.Draft{
				Kind: "openapi", Name: text("n"), Document: document("https://a.example.com", "act", "post"),
			})
			require.NoError(t, err)
			id := e.Value.ID
			never(t, s, id, "act")
			_, err = s.Edit(t.Context(), record.Of("o"), id, 0, toolkit.Draft{Document: now})
			require.NoError(t, err)
			_, err = s.Refresh(t.Context(), record.Of("o"), id)
			require.NoError(t, err)
			assert.Equal(t, "always", policy(t, s, id, "act"), name)
		}
	})
	t.Run("it was written for another version of this program", func(t *testing.T) {
		k := &kind{names: []string{"act"}}
		s := newToolkits(t, k)
		id := made(t, s, toolkit.Draft{Name: text("n"), URL: text("https://a.example.com")}).ID
		never(t, s, id, "act")
		k.about = "acts"
		refresh(s, id, "act")
		assert.Empty(t, policy(t, s, id, "act"), "tools of toolkits that exist keep their policy")
	})
}

// Looser rules need the right to loosen. A tighter or an equal rule needs no right but that of an edit.
func TestAPolicyIsLoosenedByWhoMayDoSo(t *testing.T) {
	when := func(argument, pattern string) tool.Approval {
		return tool.Approval{Mode: "when", Argument: argument, Pattern: pattern}
	}
	never, always := tool.Approval{Mode: "never"}, tool.Always
	for _, c := range []struct {
		was, now tool.Approval
		loosens  bool
	}{
		{never, never, false}, {never, when("a", "x"), false}, {never, always, false}, {always, always, false},
		{tool.Approval{}, never, false}, {never, tool.Approval{}, false},
		{always, never, true}, {always, tool.Approval{}, true}, {always, when("a", ""), true},
		{when("a", "x"), never, true}, {when("a", "x"), always, false}, {when("a", "x"), when("a", "x"), false},
		{when("a", "x"), when("A", "x"), false}, {when("a", "x"), when("b", "x"), true},
		{when("a", "x"), when("a", "xy"), true}, {when("a", "x"), when("a", ""), false},
		{when("a", ""), when("a", "x"), true}, {when("a", "x"), when("a", "x|y"), false},
		{when("a", `\Qx`), when("a", `\Qx|y`), true}, {when("a", "x"), when("a", "y|x"), true},
	} {
		assert.Equal(t, c.loosens, c.now.Loosens(c.was), "%v to %v", c.was, c.now)
	}

	s := newToolkits(t, &kind{names: []string{"pay"}})
	id := made(t, s, toolkit.Draft{Name: text("n"), URL: text("https://a.example.com")}).ID
	no := errors.New("not you")
	yes, on := tool.Approval{Mode: "never"}, false
	for _, loosen := range []toolkit.Loosen{nil, func(what string) error { return fmt.Errorf("%s: %w", what, no) }} {
		_, err := s.SetRules(t.Context(), record.Of("o"), id, "pay",
			toolkit.Rules{Approval: &yes, Enabled: &on, Loosen: loosen})
		require.ErrorContains(t, err, "the tool pay")
		assert.True(t, only(t, s, id, "pay").Enabled, "nothing is half done")
		assert.Equal(t, "always", policy(t, s, id, "pay"))
	}
}

// The tools of a document get the approvals in it, as far as the importer may loosen them. It cannot declare that
// the tools of an MCP server only read.
func TestAnImportLoosensAsTheImporterMay(t *testing.T) {
	tools := func(approval, more string) []toolkit.Portable {
		var p toolkit.Portable
		require.NoError(t, json.Unmarshal([]byte(`{"key":"k","kind":"mcp","name":"n","url":"https://a.example.com",
			"tools":[{"name":"act","enabled":true,"parameters":{"type":"object"},"retry_safe":true,
			"binding":{"name":"act"}`+approval+more+`}]}`), &p))
		return []toolkit.Portable{p}
	}
	const claim, method = `,"read_only":true`, `,"binding":{"name":"act","method":"GET"}`
	no := func(string) error { return errors.New("not you") }
	for approval, c := range map[string]struct {
		becomes string
		loosens bool
	}{
		"":                              {"always", false},
		`,"approval":{}`:                {"always", false},
		`,"approval":{"mode":"always"}`: {"always", false},
		`,"approval":{"mode":"never"}`:  {"", true},
		`,"approval":{"mode":"when","argument":"a"}`: {"when", true},
	} {
		for _, more := range []string{"", claim, method} {
			s := newToolkits(t, &kind{names: []string{"act"}})
			_, err := s.Import(t.Context(), record.Of("o"), []string{"k"}, tools(approval, more), no, unchecked)
			assert.Equal(t, c.loosens, err != nil, approval)
			ids, err := s.Import(t.Context(), record.Of("o"), []string{"k"}, tools(approval, more), agrees, unchecked)
			require.NoError(t, err)
			assert.Equal(t, c.becomes, policy(t, s, ids[0], "act"), approval)
			again, err := s.Import(t.Context(), record.Of("o"), []string{"k"}, tools(approval, more), no, unchecked)
			require.NoError(t, err, "rules of a toolkit that is there are not taken")
			assert.Equal(t, ids, again)
		}
	}
	s := newToolkits(t, &kind{names: []string{"look"}, reads: map[string]bool{"look": true}})
	id := made(t, s, toolkit.Draft{Name: text("n"), URL: text("https://a.example.com")}).ID
	out, _, err := s.Export(t.Context(), record.Of("o"), []string{id})
	require.NoError(t, err)
	assert.Equal(t, "never", out[0].Tools[0].Approval.Mode, "an export says what it means")

	refused := errors.New("the agent cannot be made")
	_, err = s.Import(t.Context(), record.Of("p"), []string{"k"}, tools("", ""), no, func(of []tool.Offer) error {
		require.Len(t, of, 1)
		assert.Equal(t, "act", of[0].Name)
		return refused
	})
	require.ErrorIs(t, err, refused)
	for _, err := range record.All[catalog.Toolkit](t.Context(), s.Store, record.Of("p"), 10) {
		require.NoError(t, err)
		t.Error("a toolkit was made for an agent that was not")
	}
}
