package agent_test

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/ai/tool"
	"agentplatform/internal/run/agent"
)

// Many models write null, or nothing, for the arguments of a tool that needs none. Each of these calls was refused, and
// cost another model call.
func TestEmptyArgumentsAreNoneWhereNoneAreNeeded(t *testing.T) {
	for _, arguments := range []string{`null`, ``, ` `, "\n", "\u00a0", `""`, `" \n"`, ` null `, `"null"`,
		`[]`, `"[]"`, `"{}"`} {
		for schema, fits := range map[string]bool{
			`{}`: true, `{"type":"object"}`: true, `{"type":"object","properties":{"n":{"type":"integer"}}}`: true,
			`{"type":"object","required":["n"]}`: false, `{"type":"object","minProperties":1}`: false,
		} {
			var made []string
			s := newStage(&script{replies: []turn{calls("a", "act", arguments), textReply("done")}}, offers(
				func(_ context.Context, i tool.Invocation) (string, error) {
					made = append(made, string(i.Arguments))
					return "ok", nil
				}))
			s.task.Tools[0].Parameters = json.RawMessage(schema)
			r := s.work(t)
			require.NotNil(t, r.Answer, r.Failure)
			if !fits {
				assert.Empty(t, made, "%q for %s", arguments, schema)
				assert.Contains(t, r.All[1].Output, "the arguments do not fit")
				continue
			}
			assert.Equal(t, []string{`{}`}, made, "%q for %s", arguments, schema)
			assert.JSONEq(t, `{}`, string(r.All[0].Calls[0].Arguments), "so it is journalled")
		}
	}
	s := newStage(&script{replies: []turn{calls("a", "ask_user", `null`), textReply("done")}}, func(t *agent.Task) {
		t.Agent.Spec.CanAsk = true
	})
	r := s.work(t)
	assert.NotNil(t, r.Answer, "nobody is asked an empty question")
}

// Ollama's and Zhipu's models write the object as a text (ollama#12413, quarkus-langchain4j#2642).
func TestArgumentsInATextAreTheObjectInIt(t *testing.T) {
	for arguments, want := range map[string]string{
		`"{\"n\": 7}"`: `{"n":7}`, ` "\n{\"n\":7}" `: `{"n":7}`, `"{\"n\""`: "",
		`"\"{\\\"n\\\":7}\""`: "", `["{}"]`: "", `"x"`: "",
	} {
		var made []string
		s := newStage(&script{replies: []turn{calls("a", "act", arguments), textReply("done")}}, offers(
			func(_ context.Context, i tool.Invocation) (string, error) {
				made = append(made, string(i.Arguments))
				return "ok", nil
			}))
		r := s.work(t)
		require.NotNil(t, r.Answer, r.Failure)
		if want == "" {
			assert.Empty(t, made, arguments)
			continue
		}
		assert.Equal(t, []string{want}, made, arguments)
		assert.JSONEq(t, want, string(r.All[0].Calls[0].Arguments), "so it is journalled, and people see it so")
	}
}
