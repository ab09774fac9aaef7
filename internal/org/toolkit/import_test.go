package toolkit_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/ai/tool"
	"agentplatform/internal/org/catalog"
	"agentplatform/internal/org/toolkit"
	"agentplatform/internal/platform/problem"
	"agentplatform/internal/store/record"
)

// An imported tool is checked like one that is created, refreshed or edited.
func TestAnImportedToolIsCheckedAsACreatedOne(t *testing.T) {
	s := newToolkits(t, &kind{names: []string{"first", "act"}})
	one := made(t, s, toolkit.Draft{Name: text("kit"), URL: text("https://a.example.com")})
	exported, _, err := s.Export(t.Context(), record.Of("o"), []string{one.ID})
	require.NoError(t, err)
	exported[0].Name = "another"
	for name, c := range map[string]struct {
		spoil func(*toolkit.Tool)
		field string
	}{
		"too long a time": {func(t *toolkit.Tool) { t.TimeoutMS = 1_000_000_000_000 }, ".timeout_ms"},
		"a time before":   {func(t *toolkit.Tool) { t.TimeoutMS = -1 }, ".timeout_ms"},
		"no mode":         {func(t *toolkit.Tool) { t.Approval.Mode = "bogus" }, ".approval"},
		"no pattern": {func(t *toolkit.Tool) {
			t.Approval = tool.Approval{Mode: "when", Argument: "a",
				Pattern: "("}
		}, ".approval"},
		"no pattern, and unused": {func(t *toolkit.Tool) { t.Approval.Pattern = "(" }, ".approval"},
		"a long pattern": {func(t *toolkit.Tool) { t.Approval.Pattern = strings.Repeat("a", 1_500_000) },
			".approval"},
		"no argument": {func(t *toolkit.Tool) { t.Approval.Mode = "when" }, ".approval"},
		"a long argument": {func(t *toolkit.Tool) { t.Approval.Argument = strings.Repeat("a", 1_500_000) },
			".approval"},
		"a long description": {func(t *toolkit.Tool) { t.Description = strings.Repeat("a", 3_000_000) }, ""},
		"a long problem":     {func(t *toolkit.Tool) { t.Problem = strings.Repeat("a", 3_000_000) }, ".enabled"},
		"a large binding": {func(t *toolkit.Tool) {
			t.Binding = []byte(`"` + strings.Repeat("a",
				3_000_000) + `"`)
		}, ""},
		"large parameters": {func(t *toolkit.Tool) {
			t.Parameters = []byte(`"` + strings.Repeat("a",
				3_000_000) + `"`)
		}, ""},
		"the name of another":     {func(t *toolkit.Tool) { t.Name = "first" }, ".enabled"},
		"on, though it cannot be": {func(t *toolkit.Tool) { t.Problem = "it does harm" }, ".enabled"},
	} {
		t.Run(name, func(t *testing.T) {
			bad := exported[0]
			bad.Tools = append([]toolkit.Tool{}, bad.Tools...)
			c.spoil(&bad.Tools[1])
			_, err := s.Import(t.Context(), record.Of("o"), []string{bad.Key}, []toolkit.Portable{bad}, nil, unchecked)
			require.ErrorContains(t, err, "body.toolkits[0].tools[1]"+c.field)
			assert.Less(t, len(err.Error()), 1_000)
			page, err := record.Resources[catalog.Toolkit](t.Context(), s.Store, record.Of("o"), "", 10)
			require.NoError(t, err)
			assert.Len(t, page.Rows, 1, "nothing is made")
		})
	}
	limit := 600_000
	exported[0].Tools[1].TimeoutMS, exported[0].Tools[1].Approval = limit, tool.Approval{Mode: "when", Argument: "a"}
	ids, err := s.Import(t.Context(), record.Of("o"), []string{exported[0].Key}, exported, agrees, unchecked)
	require.NoError(t, err)
	assert.Equal(t, limit, only(t, s, ids[0], "act").TimeoutMS)
}

func TestImportTakesAsManyToolkitsAsAnAgent(t *testing.T) {
	s := newToolkits(t, &kind{names: []string{"act"}})
	one := toolkit.Portable{Key: "k", Kind: "mcp", Name: "kit", URL: "https://a.example.com"}
	for field, c := range map[string]struct {
		keys []string
		list []toolkit.Portable
	}{
		"body.toolkits":          {[]string{"k"}, slices.Repeat([]toolkit.Portable{one}, 101)},
		"body.agent.toolkit_ids": {slices.Repeat([]string{"k"}, 101), []toolkit.Portable{one}},
	} {
		_, err := s.Import(t.Context(), record.Of("o"), c.keys, c.list, nil, unchecked)
		require.ErrorContains(t, err, field+": must be at most 100")
	}
	page, err := record.Resources[catalog.Toolkit](t.Context(), s.Store, record.Of("o"), "", 10)
	require.NoError(t, err)
	assert.Empty(t, page.Rows)
}

// A refusal names the member that is wrong, and has a code that clients know.
func TestARefusalNamesTheMemberThatIsWrong(t *testing.T) {
	home := newSite(t)
	s := reach(t, home)
	for field, d := range map[string]toolkit.Draft{
		"body.document": {Kind: "openapi", Document: []byte("hello")},
		"body.url":      {Kind: "openapi", URL: text(home.URL + "/act")},
		"body.request":  {Kind: "http", URL: text(home.URL), Request: &tool.HTTPRequest{Name: "a", Method: "BREW"}},
	} {
		d.Name = text("kit")
		_, err := s.Create(t.Context(), "o", d)
		var p *problem.Error
		require.ErrorAs(t, err, &p)
		assert.Equal(t, "invalid_request", p.Code)
		require.Len(t, p.Fields, 1)
		assert.Equal(t, field, p.Fields[0].Location)
	}
	_, err := s.Create(
		t.Context(),
		"o",
		toolkit.Draft{Kind: "http", Name: text("kit"), URL: text(home.URL), Request: &tool.HTTPRequest{
			Name: "a", Description: strings.Repeat("x", 30_000)}},
	)
	require.ErrorContains(t, err, "its description is over")
}

// gladly approves a call.
func gladly() error { return nil }

// agrees lets approvals be loosened.
func agrees(string) error { return nil }

// unchecked is for imports of which no agent is made.
func unchecked([]tool.Offer) error { return nil }
