package toolkit_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/ai/tool"
	"agentplatform/internal/org/catalog"
	"agentplatform/internal/org/toolkit"
	"agentplatform/internal/platform/problem"
	"agentplatform/internal/store/record"
)

// A preview returns the changes of the next refresh, with the tools as they are and as they would be, and changes
// nothing.
func TestAPreviewShowsWhatARefreshDoes(t *testing.T) {
	k := &kind{names: []string{"stays", "goes", "changes"}}
	s := newToolkits(t, k)
	id := made(t, s, toolkit.Draft{Name: text("one"), URL: text("https://a.example.com")}).ID
	scope := record.Of("o")
	_, err := s.SetRules(t.Context(), scope, id, "changes", toolkit.Rules{Approval: &tool.Approval{Mode: "always"}})
	require.NoError(t, err)
	read := func() any {
		kept, tools, err := s.Offered(t.Context(), scope, id)
		require.NoError(t, err)
		return []any{kept, tools}
	}
	before := read()
	k.names = []string{"changes", "stays", "comes"}
	preview, err := s.Preview(t.Context(), scope, id)
	require.NoError(t, err)
	assert.Equal(t, before, read())
	assert.Equal(t, [][]string{{"comes"}, {"goes"}, nil}, [][]string{preview.Added, preview.Removed, preview.Changed})

	k.about = "another"
	preview, err = s.Preview(t.Context(), scope, id)
	require.NoError(t, err)
	assert.Equal(t, []string{"changes", "stays"}, preview.Changed)
	require.Len(t, preview.Tools, 4)
	comes, goes, changes := preview.Tools[0], preview.Tools[1], preview.Tools[2]
	assert.Nil(t, comes.Before)
	assert.Equal(t, []any{"comes", false}, []any{comes.After.Name, comes.After.Enabled})
	assert.Nil(t, goes.After)
	assert.Equal(t, "goes", goes.Before.Name)
	assert.Equal(t, []any{"", "another", true, false, "always"}, []any{
		changes.Before.Description, changes.After.Description, changes.Before.Enabled, changes.After.Enabled,
		changes.After.Approval.Mode,
	})
	assert.Equal(t, before, read())

	done, err := s.Refresh(t.Context(), scope, id)
	require.NoError(t, err)
	preview.Tools = nil // which are in the preview only
	assert.Equal(t, preview, done)
	assert.NotEqual(t, before, read())
	_, err = s.Preview(t.Context(), scope, catalog.BuiltinToolkit("o"))
	assert.True(t, problem.Is(err, "conflict"))
	_, err = s.Preview(t.Context(), record.Of("another"), id)
	assert.True(t, problem.Is(err, "outside_organization"))
}

// Names are those of Open; a disabled tool takes none.
func TestToolsAreNamedAsTheyAreOpened(t *testing.T) {
	k := &kind{names: []string{"echo", "find"}}
	s := newToolkits(t, k)
	one := made(t, s, toolkit.Draft{Name: text("First"), URL: text("https://a.example.com"), Enabled: []string{"echo"}})
	two := made(t, s, toolkit.Draft{Name: text("Second"), URL: text("https://b.example.com")})
	named, err := s.Names(t.Context(), "o", []string{one.ID, two.ID, "0123456789abcdef01234567"})
	require.NoError(t, err)
	var names [][]string
	for _, n := range named {
		names = append(names, []string{n.Name, n.Tool.Name, n.Toolkit.ID})
	}
	assert.Equal(t, [][]string{
		{"echo", "echo", one.ID}, {"echo_Second", "echo", two.ID}, {"find", "find", two.ID},
	}, names)
	offers, err := s.Open(t.Context(), "o", []string{one.ID, two.ID})
	require.NoError(t, err)
	want := toolkit.Offers(named)
	for i, o := range offers {
		assert.NotNil(t, o.Call)
		o.Call, o.End = nil, nil
		assert.Equal(t, want[i], o)
	}
	assert.Len(t, offers, len(named))
}
