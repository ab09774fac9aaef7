package toolkit_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/ai/tool"
	"agentplatform/internal/org/toolkit"
	"agentplatform/internal/platform/problem"
	"agentplatform/internal/store/record"
)

// shopOf is a document with operations of two tags.
func shopOf(customers, orders int) string {
	var paths []string
	for tag, n := range map[string]int{"customers": customers, "orders": orders} {
		for i := range n {
			paths = append(paths, fmt.Sprintf(`"/%s/%d":{"get":{"operationId":"%[1]s_%[2]d","tags":[%[1]q]}}`, tag, i))
		}
	}
	return `{"openapi":"3.1.0","servers":[{"url":"/"}],"paths":{` + strings.Join(paths, ",") + `}}`
}

// shown are the names of a toolkit's tools, those that are off in brackets.
func shown(t *testing.T, s *toolkit.Toolkits, id string) (list []string) {
	t.Helper()
	_, tools, err := s.Offered(t.Context(), record.Of("o"), id)
	require.NoError(t, err)
	for _, one := range tools {
		name := one.Name
		if !one.Enabled {
			name = "(" + name + ")"
		}
		list = append(list, name)
	}
	return list
}

func TestAToolkitTakesWhatItsSelectionChooses(t *testing.T) {
	home := newSite(t)
	home.document = shopOf(2, 600)
	s := reach(t, home)
	d := toolkit.Draft{Kind: "openapi", Name: text("shop"), URL: text(home.URL + "/openapi.json")}
	_, err := s.Create(t.Context(), "o", d)
	require.ErrorContains(t, err, `over 500 operations (602): choose some with include, for example "tag:customers"`)
	d.Selection = tool.Selection{Include: []string{"tag:customers"}}
	e, err := s.Create(t.Context(), "o", d)
	require.NoError(t, err)
	assert.Equal(t, []string{"customers_0", "customers_1"}, shown(t, s, e.Value.ID))

	home.document = shopOf(3, 600)
	difference, err := s.Refresh(t.Context(), record.Of("o"), e.Value.ID)
	require.NoError(t, err, "a refresh chooses again")
	assert.Equal(t, []string{"customers_2"}, difference.Added)
	assert.Equal(t, []string{"customers_0", "customers_1", "(customers_2)"}, shown(t, s, e.Value.ID))

	chosen := func(include, exclude []string) error {
		c := toolkit.Choice{Include: &include, Exclude: &exclude}
		_, err := s.Select(t.Context(), record.Of("o"), e.Value.ID, 0, c)
		return err
	}
	require.NoError(t, chosen([]string{"tag:customers", "orders_1"}, []string{"*_0"}))
	assert.Equal(t, []string{"customers_1", "(customers_2)", "(orders_1)"}, shown(t, s, e.Value.ID))
	for _, c := range [][3]string{
		{"tag:customer", "*_0", "body.include[0]"}, {"orders_1", "x", "body.exclude[0]"},
		{" ", "*_0", "body.include[0]"},
	} {
		err := chosen([]string{c[0]}, []string{c[1]})
		p, ok := problem.As(err)
		require.True(t, ok, "%v", err)
		assert.Equal(t, c[2], p.Fields[0].Location)
	}
	require.ErrorContains(t, chosen(nil, nil), "over 500 operations")
	kept, err := s.Toolkit(t.Context(), record.Of("o"), e.Value.ID)
	require.NoError(t, err)
	assert.Equal(t, []string{"tag:customers", "orders_1"}, kept.Value.Selection.Include, "a refusal changes nothing")
	assert.Equal(t, []string{"customers_1", "(customers_2)", "(orders_1)"}, shown(t, s, e.Value.ID))
	_, err = s.Select(t.Context(), record.Of("o"), e.Value.ID, 1, toolkit.Choice{})
	require.True(t, problem.Is(err, "precondition_failed"), "%v", err)
}

// Tools that a selection names may go later. A refresh takes the others.
func TestARefreshSkipsEntriesThatMatchNothing(t *testing.T) {
	home := newSite(t)
	web, peer := reach(t, home), &kind{}
	home.document, peer.names = shopOf(2, 2), []string{"customers_0", "orders_1"}
	kinds := map[*toolkit.Toolkits]string{web: "openapi", newToolkits(t, peer): "mcp"}
	scope, ids := record.Of("o"), map[*toolkit.Toolkits]string{}
	for s, kind := range kinds {
		s.Policy = web.Policy
		e, err := s.Create(t.Context(), "o", toolkit.Draft{Kind: kind, Name: text("n"),
			URL:       text(home.URL + "/openapi.json"),
			Selection: tool.Selection{Include: []string{"customers_0", "orders_1"}}})
		require.NoError(t, err)
		ids[s] = e.Value.ID
	}
	home.document, peer.names = shopOf(2, 1), []string{"customers_0", "more"}
	for s, kind := range kinds {
		preview, err := s.Preview(t.Context(), scope, ids[s])
		require.NoError(t, err)
		assert.Equal(t, []string{"orders_1"}, preview.Removed)
		_, err = s.Refresh(t.Context(), scope, ids[s])
		require.NoError(t, err, kind)
		assert.Equal(t, []string{"customers_0"}, shown(t, s, ids[s]))
		_, err = s.Select(t.Context(), scope, ids[s], 0, toolkit.Choice{Exclude: &[]string{"orders_1"}})
		require.ErrorContains(t, err, "body.exclude[0]", "what is asked for now is checked")
		_, err = s.Select(t.Context(), scope, ids[s], 0, toolkit.Choice{Exclude: &[]string{"customers_0"}})
		require.ErrorContains(t, err, "body.exclude: leaves nothing")
		_, err = s.Select(t.Context(), scope, ids[s], 0, toolkit.Choice{Exclude: &[]string{}})
		require.NoError(t, err, "the other list stays as it is")
	}
	home.document, peer.names = shopOf(0, 1), []string{"more"}
	type request func(context.Context, record.Scope, string) (toolkit.Difference, error)
	for s, kind := range kinds {
		for _, refresh := range []request{s.Refresh, s.Preview} {
			_, err := refresh(t.Context(), scope, ids[s])
			p, ok := problem.As(err)
			require.True(t, ok, "%s: %v", kind, err)
			assert.Empty(t, p.Fields, "the request has no field")
			require.ErrorContains(t, err, "offers now: include: no longer matches anything")
			assert.NotContains(t, err.Error(), "body")
		}
		assert.Equal(t, []string{"customers_0"}, shown(t, s, ids[s]), "a refusal changes nothing")
	}
}

func TestASelectionTravelsWithItsToolkit(t *testing.T) {
	s := reach(t)
	e, err := s.Create(t.Context(), "o", toolkit.Draft{Kind: "openapi", Name: text("shop"),
		BaseURL: text("https://shop.example.com"), Document: []byte(shopOf(1, 600)),
		Selection: tool.Selection{Include: []string{"*_0"}, Exclude: []string{"tag:orders"}}})
	require.NoError(t, err)
	list, keys, err := s.Export(t.Context(), record.Of("o"), []string{e.Value.ID})
	require.NoError(t, err)
	raw, err := json.Marshal(list[0])
	require.NoError(t, err)
	assert.Contains(t, string(raw), `"include":["*_0"],"exclude":["tag:orders"]`)
	ids, err := s.Import(t.Context(), record.Of("p"), keys, list, nil, unchecked)
	require.NoError(t, err)
	copied, err := s.Toolkit(t.Context(), record.Of("p"), ids[0])
	require.NoError(t, err)
	assert.Equal(t, e.Value.Selection, copied.Value.Selection)
	_, err = s.Refresh(t.Context(), record.Of("p"), ids[0])
	require.NoError(t, err)

	same, err := s.Import(t.Context(), record.Of("p"), keys, list, nil, unchecked)
	require.NoError(t, err)
	assert.Equal(t, ids, same)
	list[0].Exclude = nil
	other, err := s.Import(t.Context(), record.Of("p"), keys, list, nil, unchecked)
	require.NoError(t, err)
	assert.NotEqual(t, ids, other, "another selection is another toolkit")
	list[0].Include = []string{"tag:"}
	_, err = s.Import(t.Context(), record.Of("p"), keys, list, nil, unchecked)
	require.ErrorContains(t, err, "body.toolkits[0].include[0]")
}

func TestToolsOfAServerAreChosenByTheirNames(t *testing.T) {
	s := newToolkits(t, &kind{names: []string{"read_file", "read_page", "write_file"}})
	one := made(t, s, toolkit.Draft{Name: text("kit"), URL: text("https://a.example.com"),
		Selection: tool.Selection{Include: []string{"*_file"}, Exclude: []string{"write*"}}})
	assert.Equal(t, []string{"read_file"}, shown(t, s, one.ID))
	for entry, want := range map[string]string{
		"tag:x": "there are no tags", "reads": "there are read_file, read_page",
	} {
		_, err := s.Create(t.Context(), "o", toolkit.Draft{Kind: "mcp", Name: text("n"),
			URL: text("https://a.example.com"), Selection: tool.Selection{Include: []string{entry}}})
		require.ErrorContains(t, err, "body.include[0]")
		require.ErrorContains(t, err, want)
	}
	web := reach(t)
	_, err := web.Create(t.Context(), "o", toolkit.Draft{Kind: "http", Name: text("n"),
		URL: text("https://a.example.com"), Request: &tool.HTTPRequest{Name: "a"},
		Selection: tool.Selection{Exclude: []string{"a"}}})
	require.ErrorContains(t, err, "body.include: is only valid for kinds openapi and mcp")
}

// An entry is the server's own name of a tool, that name as models take it, or the name that the toolkit shows.
func TestAnEntryIsAnyNameOfATool(t *testing.T) {
	own := []string{"a.read", "a_read", "b/write"}
	var paths []string
	for i, id := range own {
		paths = append(paths, fmt.Sprintf(`"/%d":{"get":{"operationId":%q}}`, i, id))
	}
	document := `{"openapi":"3.1.0","paths":{` + strings.Join(paths, ",") + `}}`
	peer := newToolkits(t, &kind{})
	peer.Kinds["mcp"] = &lister{own: own}
	web := reach(t)
	for s, d := range map[*toolkit.Toolkits]toolkit.Draft{
		web:  {Kind: "openapi", BaseURL: text("https://a.example.com"), Document: []byte(document)},
		peer: {Kind: "mcp", URL: text("https://a.example.com")},
	} {
		d.Name = text("one")
		create := func(include ...string) string {
			d.Selection.Include = include
			e, err := s.Create(t.Context(), "o", d)
			require.NoError(t, err, "%s %v", d.Kind, include)
			return e.Value.ID
		}
		assert.Equal(t, []string{"a_read", "b_write"}, shown(t, s, create("a.read", "b/write")))
		assert.Equal(t, []string{"a_read"}, shown(t, s, create("a.*")))
		assert.Equal(t, []string{"b_write"}, shown(t, s, create("b_write")))
		id := create()
		require.Equal(t, []string{"a_read", "a_read_2", "b_write"}, shown(t, s, id))
		for _, c := range []struct{ entry, want string }{
			{"a_read_2", "a_read_2"}, {"a.read", "a_read"}, {"a_read_2", "a_read_2"}, {"b/write", "b_write"},
			{"a_read*", "a_read a_read_2"}, {"a_read_2", "a_read_2"},
		} {
			_, err := s.Select(t.Context(), record.Of("o"), id, 0, toolkit.Choice{Include: &[]string{c.entry}})
			require.NoError(t, err, "%s %s", d.Kind, c.entry)
			assert.Equal(t, c.want, strings.NewReplacer("(", "", ")", "").Replace(strings.Join(shown(t, s, id), " ")))
			_, err = s.Refresh(t.Context(), record.Of("o"), id)
			require.NoError(t, err, "a refresh chooses the same")
			assert.Len(t, shown(t, s, id), len(strings.Fields(c.want)))
		}
		_, err := s.Select(t.Context(), record.Of("o"), id, 0, toolkit.Choice{Include: &[]string{"a_read_3"}})
		require.ErrorContains(t, err, "body.include[0]")
		require.Equal(t, []string{"(a_read_2)"}, shown(t, s, id))
		imported(t, s, id, d.Kind)
	}
}

// imported checks that an import has the tool that its export shows as a_read_2, and no other by that name.
func imported(t *testing.T, s *toolkit.Toolkits, id, kind string) {
	t.Helper()
	list, keys, err := s.Export(t.Context(), record.Of("o"), []string{id})
	require.NoError(t, err)
	list[0].Tools[0].Enabled = true
	ids, err := s.Import(t.Context(), record.Of("p"), keys, list, nil, unchecked)
	require.NoError(t, err)
	_, tools, err := s.Offered(t.Context(), record.Of("p"), ids[0])
	require.NoError(t, err)
	require.Len(t, tools, 1)
	assert.Equal(t, "a_read_2", tools[0].Name)
	assert.Empty(t, tools[0].Problem)
	assert.True(t, tools[0].Enabled)
	if list[0].Tools[0].Name, list[0].Include = "harmless", []string{"a_read"}; kind == "openapi" {
		ids, err = s.Import(t.Context(), record.Of("p"), keys, list, nil, unchecked)
		require.NoError(t, err)
		_, tools, err = s.Offered(t.Context(), record.Of("p"), ids[0])
		require.NoError(t, err)
		assert.False(t, tools[0].Enabled, "a document in an import names its tools, and nothing else does")
	}
}

// A toolkit of more tools than a model takes begins with all of them disabled.
func TestAToolkitOfTooManyToolsBeginsDisabled(t *testing.T) {
	k := &kind{}
	for i := range tool.MaxOffered {
		k.names = append(k.names, fmt.Sprint("t", i))
	}
	s := newToolkits(t, k)
	most := made(t, s, toolkit.Draft{Name: text("kit"), URL: text("https://a.example.com")})
	assert.Equal(t, tool.MaxOffered, *most.EnabledCount)
	k.names = append(k.names, "more")
	over := made(t, s, toolkit.Draft{Name: text("kit"), URL: text("https://a.example.com")})
	assert.Equal(t, 0, *over.EnabledCount)
	assert.Equal(t, tool.MaxOffered+1, over.ToolCount)
	some := made(t, s, toolkit.Draft{Name: text("kit"), URL: text("https://a.example.com"), Enabled: []string{"t1"}})
	assert.Equal(t, 1, *some.EnabledCount)

	e, err := s.Edit(t.Context(), record.Of("o"), over.ID, 0, toolkit.Draft{Enabled: []string{"t3", "more"}})
	require.NoError(t, err)
	assert.Equal(t, 2, *e.Value.EnabledCount)
	e, err = s.Edit(t.Context(), record.Of("o"), over.ID, 0, toolkit.Draft{Enabled: []string{}})
	require.NoError(t, err)
	assert.Equal(t, 0, *e.Value.EnabledCount)
	_, err = s.Edit(t.Context(), record.Of("o"), over.ID, 0, toolkit.Draft{Enabled: []string{"t3", "none"}})
	require.ErrorContains(t, err, "body.enabled[1]")

	for n, ids := range map[int][]string{tool.MaxOffered + 1: {most.ID, some.ID}, 0: {over.ID}} {
		on, off, err := s.ToolsOf(t.Context(), "o", ids)
		require.NoError(t, err)
		assert.Len(t, on, n)
		assert.NotEmpty(t, off)
	}
	many := toolkit.Portable{Key: "k", Kind: "mcp", Name: "kit", URL: "https://b.example.com"}
	for _, name := range k.names {
		one := toolkit.Tool{Enabled: true}
		one.Name, one.Parameters = name, json.RawMessage(`{"type":"object"}`)
		many.Tools = append(many.Tools, one)
	}
	_, err = s.Import(t.Context(), record.Of("o"), []string{"k"}, []toolkit.Portable{many}, nil, unchecked)
	require.ErrorContains(t, err, "body.toolkits: have 129 enabled tools together")
}

// A selection chooses before the tools of a toolkit are counted.
func TestASelectionChoosesBeforeTheLimit(t *testing.T) {
	for name, c := range map[string]struct {
		tools  int
		choose tool.Selection
		want   string
	}{
		"a few":           {600, tool.Selection{Include: []string{"t_1", "t_2*"}}, ""},
		"without some":    {600, tool.Selection{Exclude: []string{"t_1*"}}, ""},
		"all":             {600, tool.Selection{}, "over 500 tools (600)"},
		"too many":        {600, tool.Selection{Include: []string{"t*"}}, "over 500 tools (600)"},
		"without too few": {600, tool.Selection{Exclude: []string{"t_7"}}, "over 500 tools (599)"},
		"as many as can":  {500, tool.Selection{}, ""},
		"by names of the toolkit": {
			1200, tool.Selection{Include: []string{"a_*"}, Exclude: []string{"a_1*"}}, "over 500 tools"},
	} {
		t.Run(name, func(t *testing.T) {
			k := &kind{}
			for i := range c.tools {
				if k.names = append(k.names, fmt.Sprint("t_", i)); c.tools == 1200 {
					k.names[i] = "a"
				}
			}
			_, err := newToolkits(t, k).Create(t.Context(), "o", toolkit.Draft{
				Kind: "mcp", Name: text("n"), Command: []string{"serve", "tools"}, Selection: c.choose})
			if c.want == "" {
				require.NoError(t, err)
				return
			}
			p, ok := problem.As(err)
			require.True(t, ok, "%v", err)
			assert.Equal(t, "body.include", p.Fields[0].Location)
			assert.Contains(t, p.Error(), c.want)
		})
	}
}
