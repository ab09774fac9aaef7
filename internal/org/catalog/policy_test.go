package catalog_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"agentplatform/internal/ai/tool"
	"agentplatform/internal/org/catalog"
)

func spec(bases int, mode string, tools ...string) catalog.AgentSpec {
	return catalog.AgentSpec{
		Approval: catalog.AgentApproval{Mode: mode, Tools: tools}, KnowledgeBaseIDs: make([]string, bases),
		CanAsk: true,
	}
}

// A policy knows a tool by the name under which it is offered and by its own. A tool of the service counts while the
// agent has it. With other names, each call waits for an approval.
func TestAPolicyKnowsTheToolsOfItsAgent(t *testing.T) {
	offers := []tool.Offer{
		{Spec: tool.Spec{Name: "pay_bank"}, Own: "pay"}, {Spec: tool.Spec{Name: "look"}, Own: "look"},
	}
	for _, c := range []struct {
		of      catalog.AgentSpec
		unknown []string
		asks    bool // for look
	}{
		{spec(0, "never", "gone"), nil, false},
		{spec(0, "always", "gone"), nil, true},
		{spec(0, "tools"), nil, false},
		{spec(0, "tools", "pay", "pay_bank", "ask_user"), nil, false},
		{spec(0, "tools", "look"), nil, true},
		{spec(1, "tools", "search"), nil, false},
		{spec(0, "tools", "search"), []string{"search"}, true},
		{spec(0, "tools", "pay", "gone", "pay_shop"), []string{"gone", "pay_shop"}, true},
	} {
		assert.ElementsMatch(t, c.unknown, c.of.Unknown(offers), "%v", c.of.Approval)
		assert.Equal(t, c.asks, c.of.Policy(offers).Asks(offers, offers[1]), "%v", c.of.Approval)
	}
	more := append([]tool.Offer{{Spec: tool.Spec{Name: "gone"}}}, offers...)
	assert.False(t, spec(0, "tools", "gone").Policy(more).Asks(offers, offers[1]), "another version has the tool")
}

// A spec loosens another one's policy if a call that needed an approval needs it no longer.
func TestWhatAPolicyLoosens(t *testing.T) {
	const long = "a_name_that_is_longer_than_half_of_what_models_take"
	all := []tool.Offer{
		{Spec: tool.Spec{Name: "pay_bank"}, Own: "pay"}, {Spec: tool.Spec{Name: "look"}}, {Spec: tool.Spec{Name: long}},
	}
	for _, c := range []struct {
		was, now catalog.AgentSpec
		loosens  []string
	}{
		{spec(0, "never", "pay"), spec(0, "never"), nil},
		{spec(0, "always"), spec(0, "always"), nil},
		{spec(0, "always"), spec(0, "tools", "pay", "look", long), []string{"every tool"}},
		{spec(0, "always"), spec(0, "never"), []string{"every tool"}},
		{spec(0, "tools", "pay", "look"), spec(0, "never"), []string{"look", "pay"}},
		{spec(0, "tools", "pay", "look"), spec(0, "tools", "look"), []string{"pay"}},
		{spec(0, "tools", "pay", "look"), spec(0, "tools", "look", "pay", "more"), nil},
		{spec(0, "tools", "pay"), spec(0, "always"), nil},
		{spec(0, "tools", "pay_bank"), spec(0, "tools", "pay"), nil},
		{spec(0, "tools", "pay"), spec(0, "tools", "pay_bank"), nil},
		{spec(0, "tools", "pay_shop"), spec(0, "tools"), []string{"pay"}}, // which it may have been called
		{spec(0, "tools", long[:40]+"_shop"), spec(0, "tools"), []string{long}},
		{spec(0, "tools", "gone", ""), spec(0, "tools"), nil},
		{spec(1, "tools", "search"), spec(1, "always"), []string{"search"}},
		{spec(1, "tools", "search"), spec(0, "tools"), []string{"search"}},
		{spec(0, "tools", "search"), spec(0, "tools"), nil},
		{spec(0, "tools", "search"), spec(1, "tools"), []string{"search"}},
	} {
		got := c.now.Loosens(c.was, all)
		if len(c.loosens) == 0 {
			assert.Empty(t, got, "%v to %v", c.was.Approval, c.now.Approval)
			continue
		}
		assert.Equal(t, c.loosens, got, "%v to %v", c.was.Approval, c.now.Approval)
	}
}
