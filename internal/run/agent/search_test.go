package agent_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/ai/model"
	"agentplatform/internal/ai/tool"
	"agentplatform/internal/org/catalog"
	"agentplatform/internal/run/agent"
	"agentplatform/internal/store/citation"
	"agentplatform/internal/store/record"
)

func finds(found ...record.Source) func(*agent.Task) {
	return func(t *agent.Task) {
		t.Search = func(context.Context, string) ([]record.Source, record.Embeddings, error) {
			return found, record.Embeddings{{Model: "p/e", Tokens: 7}}, nil
		}
	}
}

// searches are the calls of one reply.
func searches(queries ...string) func(model.Request) (model.Reply, error) {
	return func(model.Request) (model.Reply, error) {
		r := model.Reply{Finish: "tool_calls"}
		for i, q := range queries {
			r.Calls = append(r.Calls, model.Call{
				ID: fmt.Sprint("c", i), Name: "search", Arguments: json.RawMessage(fmt.Sprintf(`{"query":%q}`, q)),
			})
		}
		return r, nil
	}
}

// Parallel searches that end at the same time get different numbers.
func TestSearchesBesideEachOtherHaveDifferentNumbers(t *testing.T) {
	m := &script{replies: []func(model.Request) (model.Reply, error){
		searches("a", "b", "c", "d", "e", "f"), textReply("[1][6]"),
	}}
	var ready sync.WaitGroup
	ready.Add(6)
	s := newStage(m, func(t *agent.Task) {
		t.Search = func(_ context.Context, query string) ([]record.Source, record.Embeddings, error) {
			ready.Done()
			ready.Wait()
			return []record.Source{{Document: query, Text: query}}, nil, nil
		}
	})
	r := s.work(t)
	assert.Len(t, citation.All(r.All), 6)
}

// A document that is deleted between two model calls of one attempt is not in the second.
func TestWhatIsDeletedMeanwhileIsNotShownAgain(t *testing.T) {
	m := &script{replies: []func(model.Request) (model.Reply, error){
		searches("a"), calls("2", "ask_nobody", `{}`), textReply("gone"),
	}}
	s := newStage(m, finds(swordfish))
	reads := 0
	s.task.CitationFilter = func(context.Context, []string) (citation.Hidden, error) {
		if reads++; reads == 1 {
			return nil, nil
		}
		return citation.Hidden{"d": citation.Deleted}, nil
	}
	s.work(t)
	assert.Contains(t, m.shown[1].Messages[2].Results[0].Text, "swordfish")
	assert.Equal(t, `{"n":1,"state":"deleted"}`, m.shown[2].Messages[2].Results[0].Text)
}

func TestAReaderThatCannotBeAskedEndsTheAttempt(t *testing.T) {
	s := newStage(&script{replies: []func(model.Request) (model.Reply, error){searches("a")}}, finds(swordfish))
	s.task.CitationFilter = func(context.Context, []string) (citation.Hidden, error) { return nil, errAway }
	_, err := s.Work(t.Context(), s.task)
	assert.ErrorIs(t, err, errAway)
}

var errAway = errors.New("the store is away")

// An answer without the documents would be final, so the attempt ends instead.
func TestAFirstSearchThatFailsForAWhileIsMadeAgain(t *testing.T) {
	s := newStage(&script{}, func(t *agent.Task) {
		t.Agent.Spec.Knowledge.Always = true
		t.Search = func(context.Context, string) ([]record.Source, record.Embeddings, error) {
			return nil, nil, errAway
		}
	})
	_, err := s.Work(t.Context(), s.task)
	require.ErrorIs(t, err, errAway)
	assert.Empty(t, s.journal)
}

// A search that needs an approval is not made before the first model call.
func TestASearchThatNeedsAnApprovalIsNotMadeFirst(t *testing.T) {
	asks := catalog.AgentApproval{Mode: "tools", Tools: []string{"search"}}
	for name, policy := range map[string]func(*agent.Task){
		"of the run's version": func(t *agent.Task) { t.Agent.Spec.Approval = asks },
		"as published":         func(t *agent.Task) { t.Published.AgentApproval = asks },
	} {
		m := &script{replies: []func(model.Request) (model.Reply, error){calls("1", "search", `{"query":"more"}`)}}
		s := newStage(m, func(task *agent.Task) {
			task.Agent.Spec.Knowledge.Always = true
			policy(task)
			task.Search = func(_ context.Context, query string) ([]record.Source, record.Embeddings, error) {
				t.Errorf("%s: %q was searched for", name, query)
				return nil, record.Embeddings{}, nil
			}
		})
		require.Len(t, s.work(t).Interrupts, 1, name)
	}
}

func TestTheFirstSearchIsNotAStepOfTheModel(t *testing.T) {
	one := 1
	m := &script{replies: []func(model.Request) (model.Reply, error){textReply("[1]")}}
	s := newStage(m, finds(swordfish))
	s.task.Agent.Spec.Knowledge.Always, s.task.Agent.Spec.Limits.MaxSteps = true, &one
	found := swordfish
	found.N = 1
	s.task.Steps = []record.Step{{
		Kind: record.ToolStep, CallID: "first", Name: "search", Outcome: "succeeded", Found: []record.Source{found},
	}}
	r := s.work(t)
	require.Empty(t, r.Failure)
	assert.Equal(t, "[1]", r.Answer.Text)
}

var swordfish = record.Source{Document: "d", Title: "Almanac", Text: "the swordfish sleeps"}

func TestASearchIsJournalledAsWhatWasFound(t *testing.T) {
	m := &script{replies: []func(model.Request) (model.Reply, error){
		calls("1", "search", `{"query":"fish"}`), textReply("It sleeps [1]."),
	}}
	s := newStage(m, finds(swordfish))
	r := s.work(t)
	assert.Equal(t, "It sleeps [1].", r.Answer.Text)
	found := r.All[1]
	assert.Equal(t, "succeeded", found.Outcome)
	assert.Empty(t, found.Output)
	require.Len(t, found.Found, 1)
	assert.Equal(t, 1, found.Found[0].N)
	assert.EqualValues(t, 7, found.InputTokens)
	shown := m.shown[1].Messages
	assert.Equal(t, `{"n":1,"title":"Almanac","text":"the swordfish sleeps"}`, shown[len(shown)-1].Results[0].Text)
	assert.Contains(t, m.shown[0].Instructions, citation.Instructions)
	assert.Equal(t, model.Search, m.shown[0].Tools[0].Name)
}

func TestAnAgentWithoutKnowledgeIsOfferedNoSearch(t *testing.T) {
	m := &script{replies: []func(model.Request) (model.Reply, error){
		calls("1", "search", `{"query":"fish"}`), textReply("no"),
	}}
	r := newStage(m, nil).work(t)
	assert.Equal(t, "no knowledge base", r.All[1].Output)
	assert.Empty(t, m.shown[0].Tools)
	assert.Empty(t, m.shown[0].Instructions)
}

func TestArgumentsOfASearchAreChecked(t *testing.T) {
	for _, arguments := range []string{`{}`, `{"query":""}`, `{"query":1}`, `{"query":"a","limit":100}`} {
		m := &script{replies: []turn{calls("1", "search", arguments), textReply("no")}}
		r := newStage(m, finds(swordfish)).work(t)
		assert.Equal(t, "failed", r.All[1].Outcome, arguments)
		assert.Contains(t, r.All[1].Output, "the arguments do not fit", arguments)
	}
}

func TestAFailedSearchIsReportedOnlyWhereTheModelMayReadIt(t *testing.T) {
	for want, err := range map[string]error{
		"the embedding model cannot be reached": tool.Fail("the embedding model cannot be reached"),
		"the tool could not be called":          errors.New("dial tcp 10.0.0.1: refused"),
	} {
		m := &script{replies: []func(model.Request) (model.Reply, error){
			calls("1", "search", `{"query":"a"}`), textReply("no"),
		}}
		s := newStage(m, func(t *agent.Task) {
			t.Search = func(context.Context, string) ([]record.Source, record.Embeddings, error) {
				return []record.Source{swordfish}, nil, err
			}
		})
		r := s.work(t)
		assert.Equal(t, want, r.All[1].Output)
		assert.Empty(t, r.All[1].Found)
	}
}

func TestWhatItsSenderMayNotReadAnyMoreIsHiddenFromTheModel(t *testing.T) {
	m := &script{replies: []func(model.Request) (model.Reply, error){textReply("It is gone.")}}
	s := newStage(m, finds(swordfish))
	found := swordfish
	found.N = 1
	s.task.Steps = []record.Step{
		{Index: 0, Kind: record.ModelStep, Calls: []record.Call{
			{ID: "0", Name: "search", Arguments: json.RawMessage(`{"query":"a"}`)},
		}},
		{Index: 1, Kind: record.ToolStep, CallID: "0-0", Name: "search", Outcome: "succeeded",
			Found: []record.Source{found}},
	}
	s.task.CitationFilter = func(_ context.Context, documents []string) (citation.Hidden, error) {
		assert.Equal(t, []string{"d"}, documents)
		return citation.Hidden{"d": citation.Restricted}, nil
	}
	s.work(t)
	shown := m.shown[0].Messages
	assert.Equal(t, `{"n":1,"state":"restricted"}`, shown[len(shown)-1].Results[0].Text)
}

func TestTheMessageIsSearchedForOnceBeforeTheFirstModelCall(t *testing.T) {
	m := &script{replies: []func(model.Request) (model.Reply, error){
		calls("1", "search", `{"query":"more"}`), textReply("[1]"),
	}}
	var queries []string
	s := newStage(m, func(t *agent.Task) {
		t.Agent.Spec.Knowledge.Always = true
		t.Search = func(_ context.Context, query string) ([]record.Source, record.Embeddings, error) {
			queries = append(queries, query)
			return []record.Source{swordfish}, nil, nil
		}
	})
	s.work(t)
	assert.Equal(t, []string{"do it", "more"}, queries)
	for _, request := range m.shown {
		assert.Equal(t, `{"n":1,"title":"Almanac","text":"the swordfish sleeps"}`, request.Messages[0].Passages)
	}
	assert.Equal(t, "search", s.journal[0].Name, "journalled before the model is asked")

	again := newStage(&script{replies: m.replies[1:]}, nil)
	again.task.Steps, again.task.Search, again.task.Agent = s.journal[:1], s.task.Search, s.task.Agent
	again.work(t)
	assert.Len(t, queries, 2, "a later attempt does not search again")
}

// A question that continues an earlier message finds little alone.
func TestTheMessageBeforeIsSearchedForToo(t *testing.T) {
	user := func(text string) model.Message { return model.Message{Role: model.User, Text: text} }
	rain := model.Message{Role: model.Assistant, Text: "It rains."}
	long := strings.Repeat("é", 5000)
	for name, c := range map[string]struct {
		history, before []model.Message
		message, want   string
	}{
		"the first": {nil, nil, " And in Lisbon?\n", "And in Lisbon?"},
		"a further one": {[]model.Message{user("Hi"), rain, user("Rain in Porto?"), rain}, nil, "And in Lisbon?",
			"Rain in Porto?\nAnd in Lisbon?"},
		"in the request": {[]model.Message{user("Hi"), rain}, []model.Message{user("Rain?"), rain}, "And in Lisbon?",
			"Rain?\nAnd in Lisbon?"},
		"a file alone": {[]model.Message{user("Rain in Porto?"), rain, user(" "), rain}, nil, "And?",
			"Rain in Porto?\nAnd?"},
		"a long one before": {[]model.Message{user(long), rain}, nil, "And?", long[:1000] + "\nAnd?"},
		"a long one":        {[]model.Message{user("Rain?"), rain}, nil, long, long[:8000]},
		"a rather long one": {[]model.Message{user("Rain?"), rain}, nil, long[:2*3997], "Ra\n" + long[:2*3997]},
	} {
		s := newStage(&script{replies: []turn{textReply("no")}}, func(task *agent.Task) {
			task.Agent.Spec.Knowledge.Always = true
			task.History, task.Before, task.Message.Text = c.history, c.before, c.message
			task.Search = func(_ context.Context, query string) ([]record.Source, record.Embeddings, error) {
				assert.Equal(t, c.want, query, name)
				return nil, nil, nil
			}
		})
		s.work(t)
		assert.Equal(t, "search", s.journal[0].Name, name)
	}
}

func TestAMessageWithoutTextIsNotSearchedFor(t *testing.T) {
	m := &script{replies: []func(model.Request) (model.Reply, error){textReply("what?")}}
	s := newStage(m, func(t *agent.Task) {
		t.Agent.Spec.Knowledge.Always, t.Message.Text = true, " \n"
		t.Search = func(context.Context, string) ([]record.Source, record.Embeddings, error) {
			panic("it was searched")
		}
	})
	assert.Equal(t, "what?", s.work(t).Answer.Text)
}
