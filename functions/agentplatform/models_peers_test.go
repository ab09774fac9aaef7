//go:build peers

package main

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/proof/peertest"
)

// onModels is a program that calls the provider openai at an address.
func onModels(t *testing.T, address string, environ ...string) *program {
	t.Helper()
	p := built(t)
	p.environ = append([]string{"OPENAI_BASE_URL=" + address + "/v1"}, environ...)
	p.start()
	t.Cleanup(p.stop)
	return p
}

// smallAgent makes an agent of a model at temperature 0, so that it answers the same each time. more are further
// members.
func (p *program) smallAgent(model string, more object) string {
	p.t.Helper()
	body := object{"name": "Small", "toolkit_ids": []string{},
		"model": object{"provider": "openai", "name": model, "temperature": 0}}
	for member, value := range more {
		body[member] = value
	}
	return p.ask(http.MethodPost, "/agents", body, http.StatusCreated)["agent_id"].(string)
}

// runOf posts a message and returns its run when the run has the status.
func (p *program) runOf(agent, status string, pairs ...string) object {
	p.t.Helper()
	code, made, err := p.post(p.t.Context(), append([]string{"agent_id", agent, "wait", "false"}, pairs...)...)
	require.NoError(p.t, err)
	require.Equal(p.t, http.StatusAccepted, code, made)
	return p.await(made["run_id"].(string), status)
}

// answerOf is the answer of a run that is completed.
func answerOf(t *testing.T, run object) string {
	t.Helper()
	result, ok := run["result"].(object)
	require.True(t, ok, run)
	return result["answer"].(string)
}

// converses makes a small model answer as a whole and in a stream, call a tool, wait for an approval, ask its user, and
// be cancelled while it writes. idle reports whether the server has no work.
func (p *program) converses(model string, idle func() bool) {
	t, builtin := p.t, p.ask(http.MethodGet, "/toolkits", nil, 200)["toolkits"].([]any)[0].(object)["toolkit_id"]
	plain := p.smallAgent(model, nil)
	tools := p.smallAgent(model, object{"toolkit_ids": []any{builtin}})
	careful := p.smallAgent(model, object{"toolkit_ids": []any{builtin}, "approval": object{"mode": "always"}})

	run := p.runOf(plain, "completed", "message", "What is the capital of France?")
	assert.Contains(t, answerOf(t, run), "Paris")
	usage := run["usage"].(object)
	assert.Greater(t, usage["input_tokens"], 10.0, "the server counts")
	assert.Greater(t, usage["output_tokens"], 2.0)

	var deltas []string
	var streamed object
	p.stream(plain, "Tell me about the city of Paris.", func(event object) bool {
		if text, _ := event["text"].(string); text != "" { // of the init event, or of a delta
			deltas = append(deltas, text)
		}
		streamed, _ = event["run"].(object)
		return event["event"] != "done"
	})
	assert.Greater(t, len(deltas), 1, "piece by piece")
	assert.Equal(t, answerOf(t, streamed), strings.Join(deltas, ""))

	run = p.runOf(tools, "completed", "message", "Use echo with the text hello.")
	assert.Equal(t, object{"text": "hello"}, p.calls(run, "echo")["arguments"])
	assert.Contains(t, strings.ToLower(answerOf(t, run)), "hello", "the result reaches the model")

	run = p.runOf(careful, "awaiting_input", "message", "Use echo with the text hello.")
	assert.Equal(t, "echo", p.decide(run, object{"decision": "approve"})["tool"].(object)["name"])
	assert.Equal(t, "hello", p.calls(p.await(run["run_id"].(string), "completed"), "echo")["output"])

	run = p.runOf(tools, "awaiting_input", "message", "Use ask_user.", "chat_id", "asks")
	assert.Equal(t, "clarification", p.decide(run, object{"decision": "answer", "message": "Oslo"})["kind"])
	assert.Equal(t, "Oslo", p.calls(p.await(run["run_id"].(string), "completed"), "ask_user")["output"])

	p.isCutShort(plain, idle)
}

// isCutShort cancels a run in the middle of a long answer. The server stops its work.
func (p *program) isCutShort(agent string, idle func() bool) {
	p.stream(agent, "Count from 1 to 1000: 1, 2, 3, 4,", func(event object) bool {
		if event["event"] == "delta" {
			assert.False(p.t, idle())
			p.ask(http.MethodPost, "/runs/"+event["run_id"].(string)+"/cancel", object{}, http.StatusOK)
			p.await(event["run_id"].(string), "cancelled")
			return false
		}
		return true
	})
	require.Eventually(p.t, idle, 10*time.Second, 10*time.Millisecond, "it writes on for nobody")
}

// calls is the step of a run that calls a tool.
func (p *program) calls(run object, tool string) object {
	p.t.Helper()
	steps := p.ask(http.MethodGet, "/runs/"+run["run_id"].(string)+"/steps", nil, http.StatusOK)["steps"].([]any)
	for _, one := range steps {
		if step := one.(object); step["kind"] == "tool" && step["name"] == tool {
			return step
		}
	}
	require.Fail(p.t, "it calls "+tool, "%v", steps)
	return nil
}

// decide decides the one interrupt of a run and returns it.
func (p *program) decide(run, decision object) object {
	p.t.Helper()
	require.Len(p.t, run["interrupts"], 1, run)
	interrupt := run["interrupts"].([]any)[0].(object)
	decision["interrupt_id"] = interrupt["id"]
	p.ask(http.MethodPost, "/runs/"+run["run_id"].(string)+"/resume", object{"decisions": []object{decision}}, 200)
	return interrupt
}

// llamaIsIdle reports whether llama.cpp's server has no work.
func llamaIsIdle(t *testing.T, address string) func() bool {
	return func() bool {
		answer, err := http.Get(address + "/slots")
		require.NoError(t, err)
		defer func() { _ = answer.Body.Close() }()
		var slots []struct {
			Working bool `json:"is_processing"`
		}
		require.NoError(t, json.NewDecoder(answer.Body).Decode(&slots))
		require.Len(t, slots, 1)
		return !slots[0].Working
	}
}

// A real model on llama.cpp's server works for agents.
func TestTheServerOfLlamaCpp(t *testing.T) {
	address := peertest.Llama(t, 4096, "--jinja", "--chat-template-file", peertest.ToolsTemplate(t))
	onModels(t, address).converses("smol", llamaIsIdle(t, address))
	peertest.Seen(t, peertest.Counterpart{
		Area: "models", Name: "llama.cpp's server with SmolLM2", Version: peertest.LlamaVersion(t),
		Works: "answer, stream, usage, tool call with result, approval, question, cancel during an answer",
	})
}

// The embeddings of llama.cpp's server find documents by their meaning.
func TestEmbeddingsOfLlamaCpp(t *testing.T) {
	p := onModels(t, peertest.Llama(t, 2048, "--embeddings", "--pooling", "mean"), "EMBEDDING_MODELS=openai/smol")
	base := p.ask(http.MethodPost, "/knowledge-bases", object{"name": "Two"}, http.StatusCreated)
	assert.Equal(t, object{
		"provider": "openai", "name": "smol", "dimensions": 576.0, "query_prefix": "", "passage_prefix": "",
	}, base["embedding_model"])
	documents := "/knowledge-bases/" + base["knowledge_base_id"].(string) + "/documents"
	texts := map[string]string{
		"The cat and the dog sleep in the garden.": "Cats and dogs are sleeping in a garden.",
		"Shares fell as the bank raised its rates": "The bank raises rates and shares are falling",
	}
	ids := map[string]any{}
	for text := range texts {
		file := filepath.Join(t.TempDir(), "text.txt")
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
		ids[text] = p.isReady(documents, p.addFile(documents, file))["document_id"]
	}
	for text, query := range texts {
		found := p.ask(http.MethodPost, "/search", object{"query": query, "mode": "semantic", "limit": 1}, 200)
		assert.Nil(t, found["degraded"])
		require.Len(t, found["hits"], 1)
		assert.Equal(t, ids[text], found["hits"].([]any)[0].(object)["document_id"], query)
	}
	peertest.Seen(t, peertest.Counterpart{
		Area: "models", Name: "llama.cpp's server, embeddings", Version: peertest.LlamaVersion(t),
		Works: "knowledge base of 576 dimensions, semantic search",
	})
}
