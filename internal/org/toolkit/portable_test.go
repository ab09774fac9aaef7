package toolkit_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/ai/tool"
	"agentplatform/internal/org/catalog"
	"agentplatform/internal/org/toolkit"
	"agentplatform/internal/store/record"
)

// exported is the export of a toolkit with an uploaded OpenAPI document, as another deployment reads it.
func exported(t *testing.T, s *toolkit.Toolkits, from *site) []toolkit.Portable {
	t.Helper()
	e, err := s.Create(t.Context(), "o", toolkit.Draft{Kind: "openapi", Name: text("given"),
		Document: []byte(from.document)})
	require.NoError(t, err)
	list, keys, err := s.Export(t.Context(), record.Of("o"), []string{e.Value.ID})
	require.NoError(t, err)
	require.Equal(t, []string{e.Value.ID}, keys)
	raw, err := json.Marshal(list)
	require.NoError(t, err)
	list = nil
	require.NoError(t, json.Unmarshal(raw, &list))
	return list
}

func TestImportedToolkitHasItsUploadedDocument(t *testing.T) {
	home := newSite(t)
	home.setDocument(home.URL, "get", "/act")
	list := exported(t, reach(t, home), home)

	other := reach(t, home)
	scope := record.Of("o")
	ids, err := other.Import(t.Context(), scope, []string{list[0].Key}, list, nil, unchecked)
	require.NoError(t, err)
	assert.Equal(t, []string{"act"}, enabled(t, other, ids[0]))
	attempt, err := other.TestCall(t.Context(), scope, ids[0], "act", []byte(`{}`), func() error { return nil })
	require.NoError(t, err)
	assert.Equal(t, "done", attempt.Result)
	d, err := other.Refresh(t.Context(), scope, ids[0])
	require.NoError(t, err)
	assert.Equal(t, toolkit.Difference{}, d)
	assert.Equal(t, []string{"act"}, enabled(t, other, ids[0]))

	again, err := other.Import(t.Context(), scope, []string{list[0].Key}, list, nil, unchecked)
	require.NoError(t, err)
	assert.Equal(t, ids, again, "it is there")
	home.setDocument(home.URL, "get", "/another")
	list[0].Document = home.document
	another, err := other.Import(t.Context(), scope, []string{list[0].Key}, list, nil, unchecked)
	require.NoError(t, err)
	assert.NotEqual(t, ids, another, "another document is another toolkit")
	assert.Empty(t, enabled(t, other, another[0]), "a tool that is not what the document says is not enabled")
}

func TestEarlierExportFindsItsToolkit(t *testing.T) {
	home := newSite(t)
	home.setDocument(home.URL, "get", "/act")
	s := reach(t, home)
	list := exported(t, s, home)
	list[0].Document = "" // as earlier program versions exported it
	ids, err := s.Import(t.Context(), record.Of("o"), []string{list[0].Key}, list, nil, unchecked)
	require.NoError(t, err)
	assert.Equal(t, []string{list[0].Key}, ids)
}

func TestImportedDocumentIsCheckedLikeACreation(t *testing.T) {
	home := newSite(t)
	home.setDocument(home.URL, "get", "/act")
	good := exported(t, reach(t, home), home)[0]
	for name, spoil := range map[string]func(*toolkit.Portable){
		"no OpenAPI":      func(p *toolkit.Portable) { p.Document = "hello" },
		"too long":        func(p *toolkit.Portable) { p.Document = string(make([]byte, tool.MaxDocument+1)) },
		"of another kind": func(p *toolkit.Portable) { p.Kind, p.URL = "mcp", home.URL },
	} {
		t.Run(name, func(t *testing.T) {
			s, bad := reach(t, home), good
			spoil(&bad)
			list := []toolkit.Portable{good, bad}
			_, err := s.Import(t.Context(), record.Of("o"), []string{good.Key}, list, nil, unchecked)
			require.ErrorContains(t, err, "body.toolkits[1].")
			page, err := record.Resources[catalog.Toolkit](t.Context(), s.Store, record.Of("o"), "", 10)
			require.NoError(t, err)
			assert.Empty(t, page.Rows)
		})
	}
}
