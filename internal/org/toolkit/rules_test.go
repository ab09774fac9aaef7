package toolkit_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/ai/tool"
	"agentplatform/internal/org/toolkit"
	"agentplatform/internal/store/record"
)

// only returns a toolkit's tool by name.
func only(t *testing.T, s *toolkit.Toolkits, id, name string) toolkit.Tool {
	t.Helper()
	_, tools, err := s.Offered(t.Context(), record.Of("o"), id)
	require.NoError(t, err)
	for _, one := range tools {
		if one.Name == name {
			return one
		}
	}
	return toolkit.Tool{}
}

// A tool that its server removes and offers again has the rules that its owner had set. If a call may change something,
// its approval begins again: the owner decided before the removal.
func TestAToolOfferedAgainHasItsRules(t *testing.T) {
	scope, limit, no := record.Of("o"), 5_000, false
	k := &kind{names: []string{"pay", "look"}, safe: true}
	s := newToolkits(t, k)
	one := made(t, s, toolkit.Draft{Name: text("bank"), URL: text("https://a.example.com")})
	asks := tool.Approval{Mode: "when", Argument: "amount", Pattern: "^[0-9]{3}"}
	_, err := s.SetRules(
		t.Context(),
		scope,
		one.ID,
		"pay",
		toolkit.Rules{Approval: &asks, TimeoutMS: &limit, RetrySafe: &no, Loosen: agrees},
	)
	require.NoError(t, err)
	refresh := func(names ...string) toolkit.Difference {
		t.Helper()
		k.names = names
		d, err := s.Refresh(t.Context(), scope, one.ID)
		require.NoError(t, err)
		return d
	}
	require.Equal(t, []string{"pay"}, refresh("look").Removed)
	e, err := s.Toolkit(t.Context(), scope, one.ID)
	require.NoError(t, err)
	assert.Equal(t, 1, e.Value.ToolCount, "what is gone is not counted")
	assert.Empty(t, only(t, s, one.ID, "pay"))
	_, err = s.SetRules(t.Context(), scope, one.ID, "pay", toolkit.Rules{RetrySafe: &no})
	require.ErrorContains(t, err, "pay")
	assert.NotContains(t, opened(t, s, one.ID), "pay")

	for n := range 3 { // in any order, and with edits of the toolkit in between
		many := []string{"look"}
		for i := range tool.MaxTools - 1 {
			many = append(many, fmt.Sprintf("t%d_%d", n, i))
		}
		refresh(many...)
		_, err := s.Edit(
			t.Context(),
			scope,
			one.ID,
			0,
			toolkit.Draft{Credentials: &tool.Credentials{Type: "bearer", Token: "x"}},
		)
		require.NoError(t, err)
		_, err = s.SetRules(t.Context(), scope, one.ID, "look", toolkit.Rules{Enabled: &no})
		require.NoError(t, err)
	}
	assert.Equal(t, []string{"pay"}, refresh("look", "pay").Added)
	back := only(t, s, one.ID, "pay")
	assert.False(t, back.Enabled)
	assert.Equal(t, tool.Always, back.Approval)
	assert.Equal(t, limit, back.TimeoutMS)
	assert.False(t, back.RetrySafe)
	_, err = s.SetRules(t.Context(), scope, one.ID, "pay", toolkit.Rules{Approval: &asks, Loosen: agrees})
	require.NoError(t, err)
	refresh("look")
	refresh("pay")
	assert.Equal(t, tool.Always, only(t, s, one.ID, "pay").Approval, "each time")

	k.reads = map[string]bool{"look": true}
	refresh("look", "pay")
	_, err = s.SetRules(t.Context(), scope, one.ID, "look", toolkit.Rules{Approval: &asks, Loosen: agrees})
	require.NoError(t, err)
	refresh("pay")
	refresh("look", "pay")
	assert.Equal(t, asks, only(t, s, one.ID, "look").Approval, "a call that changes nothing keeps what its owner set")
}

// A tool whose definition changes keeps its rules, too.
func TestAChangedToolKeepsItsRules(t *testing.T) {
	scope, no := record.Of("o"), false
	k := &kind{names: []string{"pay"}, safe: true}
	s := newToolkits(t, k)
	one := made(t, s, toolkit.Draft{Name: text("bank"), URL: text("https://a.example.com")})
	_, err := s.SetRules(
		t.Context(),
		scope,
		one.ID,
		"pay",
		toolkit.Rules{Approval: &tool.Approval{Mode: "always"}, RetrySafe: &no},
	)
	require.NoError(t, err)
	for _, about := range []string{"pays", "pays more"} {
		k.about = about
		d, err := s.Refresh(t.Context(), scope, one.ID)
		require.NoError(t, err)
		assert.Equal(t, []string{"pay"}, d.Changed)
		now := only(t, s, one.ID, "pay")
		assert.Equal(t, "always", now.Approval.Mode)
		assert.False(t, now.RetrySafe, "that it may be called twice is not for the server to say again")
	}
}
