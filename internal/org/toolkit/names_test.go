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

// offeredAs returns the names under which tools are offered, by tool.
func offeredAs(t *testing.T, s *toolkit.Toolkits, ids ...string) map[string]tool.Offer {
	t.Helper()
	offers, err := s.Open(t.Context(), "o", ids)
	require.NoError(t, err)
	by := map[string]tool.Offer{}
	for _, o := range offers {
		by[o.Source] = o
	}
	return by
}

// A server adds a tool with the name of another toolkit's tool. The other tool does not change while the new one is
// disabled. Once it is enabled, rules that name the other tool still apply to it.
func TestAnAddedToolTakesNoNameFromAnotherToolkit(t *testing.T) {
	k := &kind{names: []string{"harmless"}}
	s := newToolkits(t, k)
	hostile := made(t, s, toolkit.Draft{Name: text("hostile"), URL: text("https://a.example.com")})
	k.names = []string{"pay"}
	bank := made(t, s, toolkit.Draft{Name: text("bank"), URL: text("https://b.example.com")})
	ids := []string{hostile.ID, bank.ID, catalog.BuiltinToolkit("o")}
	pay, echo := bank.ID+"/pay", ids[2]+"/echo"
	require.Equal(t, "pay", offeredAs(t, s, ids...)[pay].Name)

	k.names = []string{"harmless", "pay", "echo"}
	_, err := s.Refresh(t.Context(), record.Of("o"), hostile.ID)
	require.NoError(t, err)
	assert.Equal(t, "pay", offeredAs(t, s, ids...)[pay].Name, "what is off takes no name")
	assert.Equal(t, "echo", offeredAs(t, s, ids...)[echo].Name)

	yes := true
	for _, name := range k.names {
		_, err := s.SetRules(t.Context(), record.Of("o"), hostile.ID, name, toolkit.Rules{Enabled: &yes})
		require.NoError(t, err)
	}
	now := offeredAs(t, s, ids...)
	assert.Equal(t, "pay_bank", now[pay].Name)
	for source, listed := range map[string]string{pay: "pay", echo: "echo", hostile.ID + "/pay": "pay"} {
		list := func(name string) bool { return tool.Listed(values(now), now[source], []string{name}) }
		assert.True(t, list(listed), "%s is still meant by %s", now[source].Name, listed)
		assert.True(t, list(now[source].Name))
		assert.False(t, list("harmless"))
	}
	_, err = s.Edit(t.Context(), record.Of("o"), bank.ID, 0, toolkit.Draft{Name: text("treasury")})
	require.NoError(t, err)
	now = offeredAs(t, s, ids...)
	assert.Equal(t, "pay_treasury", now[pay].Name)
	assert.True(
		t,
		tool.Listed(values(now), now[pay], []string{"pay_bank"}),
		"another name of its toolkit takes nothing off",
	)
	k.names = []string{"harmless"}
	_, err = s.Refresh(t.Context(), record.Of("o"), hostile.ID)
	require.NoError(t, err)
	now = offeredAs(t, s, ids...)
	assert.Equal(t, "pay", now[pay].Name)
	assert.True(
		t,
		tool.Listed(values(now), now[pay], []string{"pay_treasury"}),
		"nor does it that the other one has gone",
	)
	assert.True(t, tool.Listed(values(now), now[pay], []string{"pay_bank_2"}))
}

func values(offers map[string]tool.Offer) (list []tool.Offer) {
	for _, o := range offers {
		list = append(list, o)
	}
	return list
}

// A list of an agent may have a tool's name as its server writes it.
func TestANameAsTheServerWritesItMatchesItsTool(t *testing.T) {
	long := "a_name_that_has_as_many_characters_as_any_provider_of_models_take"[:tool.MaxName]
	k := &kind{names: []string{long, "get_thing", "get"}}
	s := newToolkits(t, k)
	one := made(t, s, toolkit.Draft{Name: text("One"), URL: text("https://a.example.com")})
	two := made(
		t,
		s,
		toolkit.Draft{
			Name: text("a name of a toolkit that is as long as somebody likes it to be"),
			URL:  text("https://b.example.com"),
		},
	)
	offers := offeredAs(t, s, one.ID, two.ID)
	second := offers[two.ID+"/"+long]
	require.NotEqual(t, long, second.Name)
	assert.True(t, tool.Listed(values(offers), second, []string{long}))
	alone := offeredAs(t, s, two.ID)
	assert.True(t, tool.Listed(values(alone), alone[two.ID+"/"+long], []string{second.Name}))
	assert.True(t, tool.Listed(values(offers), offers[one.ID+"/get_thing"], []string{"get.thing"}))
	assert.False(t, tool.Listed(values(offers), offers[one.ID+"/get"], []string{"get_thing"}), "that is another tool")
}

// The agent loop's own tools are not also offered by a toolkit.
func TestNoToolkitToolTakesTheNameOfALoopTool(t *testing.T) {
	s := newToolkits(t, &kind{names: []string{"ask_user", "search", "act"}})
	one := made(t, s, toolkit.Draft{Name: text("one"), URL: text("https://a.example.com")})
	var names []string
	for _, o := range offeredAs(t, s, one.ID) {
		names = append(names, o.Name)
		_, err := o.Call(t.Context(), tool.Invocation{Name: o.Name, Arguments: json.RawMessage(`{}`)})
		require.NoError(t, err)
	}
	assert.ElementsMatch(t, []string{"ask_user_one", "search_one", "act"}, names)
}

// The owner of a toolkit of one request names its tool, also later.
func TestARequestIsNamedByItsOwner(t *testing.T) {
	s := reach(t)
	named := func(name string) toolkit.Draft {
		return toolkit.Draft{Request: &tool.HTTPRequest{Name: name}}
	}
	d := named("old")
	d.Kind, d.Name, d.URL = "http", text("one"), text("https://a.example.com")
	e, err := s.Create(t.Context(), "o", d)
	require.NoError(t, err)
	for _, names := range [][2]string{{"old", "new"}, {"new", "newer"}, {"newer", "old"}} {
		_, err = s.Edit(t.Context(), record.Of("o"), e.Value.ID, 0, named(names[1]))
		require.NoError(t, err)
		difference, err := s.Refresh(t.Context(), record.Of("o"), e.Value.ID)
		require.NoError(t, err)
		assert.Equal(t, [][]string{{names[1]}, {names[0]}}, [][]string{difference.Added, difference.Removed})
		assert.Equal(t, []string{"(" + names[1] + ")"}, shown(t, s, e.Value.ID), "as anything that comes in, it is off")
	}
}
