//go:build peers

package main

import (
	"bytes"
	"io"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/proof/peertest"
)

const (
	question = "How many days of holiday are there?"
	answered = "There are twenty-six days of holiday [1]."
	webPage  = `<!doctype html><title>Canteen</title><nav>Home</nav><h1>The canteen</h1>
		<p>Soup is served from noon. On Fridays there is fish.</p>`
)

// Fixtures of the tour: one vector for texts about holidays, one for any other text, and a model that searches and
// answers with a citation of a passage.
var holidays = []peertest.Fixture{
	{"match": object{"inputText": "oliday"}, "response": object{"embedding": slices.Repeat([]float32{1, 0}, 32)}},
	{"match": object{"inputText": ""}, "response": object{"embedding": slices.Repeat([]float32{0, 1}, 32)}},
	{"match": object{"userMessage": question, "hasToolResult": false}, "response": object{
		"toolCalls": []object{{"name": "search", "arguments": object{"query": "days of holiday"}}},
	}},
	{"match": object{"toolResultContains": "twenty-six"}, "response": object{"content": answered}},
}

// TestTheTourOfKnowledge is the tour of the README with a provider of another project, for the embeddings and for the
// agent's model. It has a real PDF, a web page, a question, and an answer with a citation that opens the page.
func TestTheTourOfKnowledge(t *testing.T) {
	p := built(t)
	models := peertest.Models(t, holidays...)
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = io.WriteString(w, webPage)
	}))
	defer web.Close()
	p.environ = []string{"OPENAI_BASE_URL=" + models + "/v1", "OPENAI_API_KEY=none",
		"EMBEDDING_MODELS=openai/some-embedding:64", "KNOWLEDGE_ALLOW_HOSTS=" + strings.TrimPrefix(web.URL, "http://")}
	p.start()
	defer p.stop()

	base := p.ask(http.MethodPost, "/knowledge-bases", object{"name": "Handbook"}, 201)
	assert.Equal(t, object{
		"provider": "openai", "name": "some-embedding", "dimensions": 64.0, "query_prefix": "", "passage_prefix": "",
	}, base["embedding_model"])
	documents := "/knowledge-bases/" + base["knowledge_base_id"].(string) + "/documents"
	handbook := p.isReady(documents, p.addFile(documents, "../../docs/handbook.pdf"))
	assert.InDelta(t, 3, handbook["page_count"], 0)
	page := p.isReady(documents, p.ask(http.MethodPost, documents, object{"url": web.URL + "/canteen"}, 201))
	assert.Equal(t, "Canteen", page["title"])

	for query, want := range map[string]object{question: handbook, "What does the canteen serve?": page} {
		for _, mode := range []string{"semantic", "hybrid"} {
			found := p.ask(http.MethodPost, "/search", object{"query": query, "mode": mode, "limit": 1}, 200)
			assert.Nil(t, found["degraded"], mode)
			require.Len(t, found["hits"], 1, mode)
			assert.Equal(t, want["document_id"], found["hits"].([]any)[0].(object)["document_id"], "%s %s", mode, query)
		}
	}

	agent := p.ask(http.MethodPost, "/agents", object{
		"name": "Librarian", "instructions": "You know the handbook.", "skip_check": true,
		"model":              object{"provider": "openai", "name": "some-model"},
		"knowledge_base_ids": []any{base["knowledge_base_id"]},
	}, 201)["agent_id"].(string)
	status, run, err := p.post(t.Context(), "agent_id", agent, "message", question)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, status, run)
	assert.Equal(t, answered, run["answer"])
	p.opens(documents, run, handbook)
	seenMock(t, "documents", "embeddings, search by the model, answer with a citation")
}

// opens checks that an answer cites a document once, and that the citation leads to its words and their page.
func (p *program) opens(documents string, run, document object) {
	p.t.Helper()
	require.Len(p.t, run["citations"], 1, run)
	citation := run["citations"].([]any)[0].(object)
	assert.InDelta(p.t, 1, citation["n"], 0)
	assert.Equal(p.t, document["document_id"], citation["document_id"])
	assert.Equal(p.t, document["title"], citation["title"])
	at := strings.Index(answered, "[1]")
	assert.Equal(p.t, []any{[]any{float64(at), float64(at + len("[1]"))}}, citation["at"])
	chunk := citation["chunk"].(object)
	assert.InDelta(p.t, 2, chunk["page_from"], 0)
	text := []rune(p.read(documents + "/" + document["document_id"].(string) + "/text"))
	from, to := int(chunk["start"].(float64)), int(chunk["end"].(float64))
	require.LessOrEqual(p.t, to, len(text))
	passage := string(text[from:to])
	assert.Contains(p.t, passage, "twenty-six days")
	assert.NotEmpty(p.t, citation["text"])
	assert.True(p.t, strings.HasPrefix(passage, citation["text"].(string)),
		"%q begins with %q", passage, citation["text"])
}

// addFile uploads a file.
func (p *program) addFile(documents, path string) object {
	p.t.Helper()
	data, err := os.ReadFile(path)
	require.NoError(p.t, err)
	var body bytes.Buffer
	form := multipart.NewWriter(&body)
	part, err := form.CreateFormFile("file", path)
	require.NoError(p.t, err)
	_, _ = part.Write(data)
	require.NoError(p.t, form.Close())
	status, made, err := p.call(p.t.Context(), http.MethodPost, documents, form.FormDataContentType(), &body)
	require.NoError(p.t, err)
	require.Equal(p.t, http.StatusCreated, status, made)
	return made
}

// isReady waits until a document's ingestion has ended successfully.
func (p *program) isReady(documents string, d object) object {
	p.t.Helper()
	for d["status"] == "pending" || d["status"] == "processing" {
		d = p.ask(http.MethodGet, documents+"/"+d["document_id"].(string)+"?wait_ms=5000", nil, http.StatusOK)
	}
	require.Equal(p.t, "ready", d["status"], d)
	return d
}

// read returns a body that is not JSON.
func (p *program) read(path string) string {
	p.t.Helper()
	r, err := http.NewRequestWithContext(p.t.Context(), http.MethodGet, p.url+path, nil)
	require.NoError(p.t, err)
	r.Header.Set("Authorization", "Bearer "+p.key)
	answer, err := http.DefaultClient.Do(r)
	require.NoError(p.t, err)
	defer func() { _ = answer.Body.Close() }()
	text, err := io.ReadAll(answer.Body)
	require.NoError(p.t, err)
	require.Equal(p.t, http.StatusOK, answer.StatusCode, string(text))
	return string(text)
}
