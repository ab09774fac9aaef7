package intake_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/events"
	"agentplatform/internal/ai/tool"
	"agentplatform/internal/core/lifecycle"
	"agentplatform/internal/org/catalog"
	"agentplatform/internal/org/tenant"
	"agentplatform/internal/platform/problem"
	"agentplatform/internal/run/intake"
	"agentplatform/internal/run/transition"
	"agentplatform/internal/store/record"
)

// approvals pauses a run for approvals of calls of these tools, with the ids a, b and so on.
func (w *world) approvals(run string, calls ...record.Interrupt) {
	w.claim(run)
	var pending []lifecycle.Pending
	for i := range calls {
		calls[i].ID, calls[i].Kind = string(rune('a'+i)), string(lifecycle.Approval)
		pending = append(pending, lifecycle.Pending{ID: calls[i].ID, Kind: lifecycle.Approval})
	}
	w.transition(run, transition.Change{Interrupts: calls,
		Event: lifecycle.Pause{Work: work, Interrupts: pending, ExpiresAt: w.Host.Now().Add(time.Hour)}})
}

func callOf(name, source, fingerprint string) record.Interrupt {
	return record.Interrupt{Source: source, Fingerprint: fingerprint, Interrupt: events.Interrupt{
		Tool: &events.InterruptTool{Name: name, Arguments: json.RawMessage(`{"n":1}`)}}}
}

const number = `{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"]}`

func offer(name, parameters string) tool.Offer {
	return tool.Offer{Spec: tool.Spec{Name: name, Parameters: json.RawMessage(parameters)},
		Source: "t/" + name, Fingerprint: "as it was"}
}

func edited(id, arguments string) record.Decision {
	return record.Decision{InterruptID: id, Decision: "edit", Arguments: json.RawMessage(arguments)}
}

// fieldsOf are the fields that a problem of kind Invalid names, with their messages.
func fieldsOf(t *testing.T, err error) map[string]string {
	t.Helper()
	p, is := problem.As(err)
	require.True(t, is, "%v", err)
	require.Equal(t, problem.Invalid, p.Kind, "%v", err)
	fields := map[string]string{}
	for _, f := range p.Fields {
		fields[f.Location] = f.Message
	}
	return fields
}

// An edit whose arguments the tool does not accept is refused, if the tool is still the one that the model requested.
// Nothing is decided then, and the run waits.
func TestEditThatDoesNotFitTheToolIsRefused(t *testing.T) {
	const take = "must fit the tool act: "
	act := callOf("act", "t/act", "as it was")
	for name, c := range map[string]struct {
		call   record.Interrupt
		offers []tool.Offer
		edit   string
		fault  string // of the arguments; empty: they are accepted
	}{
		"it fits": {act, []tool.Offer{offer("act", number)}, `{"n":2}`, ""},
		"a type":  {act, []tool.Offer{offer("act", number)}, `{"n":"2"}`, take + "n: got string, want integer"},
		"a missing member": {act, []tool.Offer{offer("act", number)}, `{}`,
			take + "missing property 'n'"},
		"among others": {act, []tool.Offer{offer("look", `{}`), offer("act", number)}, `{}`,
			take + "missing property 'n'"},
		"a tool that is gone":       {act, []tool.Offer{offer("look", number)}, `{}`, ""},
		"a tool that has changed":   {callOf("act", "t/act", "before"), []tool.Offer{offer("act", number)}, `{}`, ""},
		"another tool has the name": {callOf("act", "other/act", ""), []tool.Offer{offer("act", number)}, `{}`, ""},
		"a pause of an earlier version": {callOf("act", "", ""), []tool.Offer{offer("act", number)}, `{}`,
			take + "missing property 'n'"},
		"a schema that cannot be read": {act, []tool.Offer{offer("act", `{"type":7}`)}, `{}`, ""},
		"a tool without a schema":      {act, []tool.Offer{offer("act", ``)}, `{}`, ""},
		"a schema that refers to another": {act, []tool.Offer{offer("act", `{"$ref":"https://elsewhere.example/s"}`)},
			`{}`, ""},
		"a search": {callOf("search", "", ""), nil, `{"query":""}`,
			"must fit the tool search: query: minLength: got 0, want 1"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.agent = w.closed(func(s *catalog.AgentSpec) { s.ToolkitIDs = nil })
			listed := 0
			w.Tools = func(_ context.Context, organization string, _ []string) ([]tool.Offer, error) {
				listed++
				assert.Equal(t, w.who.Organization, organization)
				return c.offers, nil
			}
			if c.call.Tool.Name == "search" {
				w.agent = w.searches()
			}
			run := w.post(intake.Message{Text: "x"}).Run.ID()
			w.approvals(run, c.call, callOf("look", "", ""))
			resume := func(decisions ...record.Decision) error {
				_, err := w.Resume(t.Context(), w.who, run, "", decisions, nil, nil)
				return err
			}
			yes := record.Decision{InterruptID: "b", Decision: "approve"}
			err := resume(yes)
			require.Equal(t, "interrupts_mismatch", code(err))
			before, waiting := w.stored(), w.run(run)
			err = resume(yes, edited("a", c.edit))
			if c.fault == "" {
				require.NoError(t, err)
				assert.Equal(t, lifecycle.Queued, w.run(run).Status)
				return
			}
			assert.Equal(t, map[string]string{"body.decisions[1].arguments": c.fault}, fieldsOf(t, err))
			assert.Equal(t, before, w.stored(), "nothing is written")
			assert.Equal(t, waiting, w.run(run))
			require.NoError(t, resume(yes, record.Decision{InterruptID: "a", Decision: "approve"}), "it still waits")
			assert.Equal(t, 1, listed, "only an edit needs the tools")
		})
	}
}

// searches creates an agent with a knowledge base.
func (w *world) searches() string {
	b := catalog.KnowledgeBase{ID: w.Host.NewID(), Organization: w.who.Organization, Name: "b"}
	_, err := record.Create(w.t.Context(), w.Store, b, b.ID)
	require.NoError(w.t, err)
	return w.closed(func(s *catalog.AgentSpec) { s.KnowledgeBaseIDs = []string{b.ID} })
}

// Each edit that does not fit has its own field. A request that is malformed, not allowed, or about other interrupts is
// refused earlier.
func TestOrderOfTheRefusalsOfAnEdit(t *testing.T) {
	w := newWorld(t)
	group := w.group()
	w.agent = w.closed(func(s *catalog.AgentSpec) { s.ApproverGroupIDs = []string{group} })
	listed := 0
	w.Tools = func(context.Context, string, []string) ([]tool.Offer, error) {
		listed++
		return []tool.Offer{offer("act", number)}, nil
	}
	run := w.post(intake.Message{Text: "x"}).Run.ID()
	act := callOf("act", "t/act", "as it was")
	w.approvals(run, act, act, act)
	resume := func(who tenant.Principal, decisions ...record.Decision) error {
		_, err := w.Resume(t.Context(), who, run, "", decisions, nil, nil)
		return err
	}
	deep := `{"n":` + strings.Repeat("[", 65) + strings.Repeat("]", 65) + `}`
	large := `{"n":"` + strings.Repeat("x", 256<<10) + `"}`
	for _, malformed := range []string{`7`, ``, `{"n":1,"n":2}`, deep, large, `null`} {
		err := resume(w.who, edited("a", malformed))
		assert.Contains(t, fieldsOf(t, err)["body.decisions[0].arguments"], "must be an object")
	}
	outsider := w.who
	outsider.Level = tenant.LevelRun
	assert.Equal(t, "insufficient_permission",
		code(resume(outsider, edited("a", `{}`), edited("b", `{}`), edited("c", `{}`))))
	assert.Equal(t, "interrupts_mismatch", code(resume(w.who, edited("a", `{}`))))
	assert.Equal(t, "interrupts_mismatch", code(resume(w.who, edited("a", `{}`), edited("a", `{}`), edited("b", `{}`))))
	answer := record.Decision{InterruptID: "b", Decision: "answer", Message: "x"}
	assert.Equal(t, "body.decisions", about(resume(w.who, edited("a", `{}`), answer, edited("c", `{}`))))
	assert.Zero(t, listed, "the tools are not looked at before")
	missing := "must fit the tool act: missing property 'n'"
	assert.Equal(t, map[string]string{"body.decisions[0].arguments": missing, "body.decisions[2].arguments": missing},
		fieldsOf(t, resume(w.who, edited("c", `{}`), edited("a", `{"n":3}`), edited("b", `{"m":1}`))))
	require.NoError(t, resume(w.who, edited("c", `{"n":3}`), edited("a", `{"n":3}`), edited("b", `{"n":1}`)))
	assert.Equal(t, "not_awaiting_input", code(resume(w.who, edited("a", `{}`), edited("b", `{}`), edited("c", `{}`))))
}

// Tools that cannot be read are a temporary failure; nothing is decided.
func TestEditWhoseToolsCannotBeReadIsNotDecided(t *testing.T) {
	w := newWorld(t)
	w.Tools = func(context.Context, string, []string) ([]tool.Offer, error) {
		return nil, errors.New("the blob store is away")
	}
	run := w.post(intake.Message{Text: "x"}).Run.ID()
	w.approvals(run, callOf("act", "", ""))
	_, err := w.Resume(t.Context(), w.who, run, "", []record.Decision{edited("a", `{}`)}, nil, nil)
	assert.Equal(t, "unavailable", code(err))
	assert.Equal(t, lifecycle.AwaitingInput, w.run(run).Status)
	w.Tools = nil
	_, err = w.Resume(t.Context(), w.who, run, "", []record.Decision{edited("a", `{}`)}, nil, nil)
	require.NoError(t, err)
}

// A client that sends other functions with a decision may send as many as with a message.
func TestMoreFunctionsThanAModelTakesAreRefusedWithADecision(t *testing.T) {
	w := newWorld(t)
	w.Tenants = tenant.New(w.Store, w.Store.Cached(), w.Host, tenant.Defaults{
		UserCap: 5, OrganizationCap: 5, RateLimit: 1, RateBurst: 1, ActiveLimit: time.Minute,
		Tools: func(context.Context, string, []string) (on, off []tool.Offer, err error) {
			return make([]tool.Offer, tool.MaxOffered-2), nil, nil
		},
	}, nil)
	run := w.post(intake.Message{Text: "x"}).Run.ID()
	w.approvals(run, callOf("act", "", ""))
	list := []record.Function{
		{Name: "f", Parameters: json.RawMessage(`{"type":"object"}`)},
		{Name: "g", Parameters: json.RawMessage(`{"type":"object"}`)},
	}
	decisions := []record.Decision{{InterruptID: "a", Decision: "approve"}}
	brings := func(n int) *record.Context { return &record.Context{Functions: list[:n]} }
	_, err := w.Resume(t.Context(), w.who, run, "", decisions, nil, brings(2))
	p, is := problem.As(err)
	require.True(t, is, "%v", err)
	assert.Equal(t, problem.Invalid, p.Kind)
	assert.Contains(t, p.Message, "129 tools")
	_, err = w.Resume(t.Context(), w.who, run, "", decisions, nil, brings(1))
	require.NoError(t, err)
}
