package knowledge_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/ai/embedding"
	"agentplatform/internal/ai/embedding/builtinembedding"
	"agentplatform/internal/api/httpapi/httpapitest"
	"agentplatform/internal/api/httpapi/service"
	"agentplatform/internal/org/catalog"
)

// paid is a model whose texts cost seven tokens each.
type paid struct{ embedding.Model }

func (m paid) Embed(ctx context.Context, r embedding.Request) (embedding.Reply, error) {
	r.Name = builtinembedding.Name
	reply, err := m.Model.Embed(ctx, r)
	reply.Tokens = int64(7 * len(r.Texts))
	return reply, err
}

// world is the API with a model that costs, which bases have by default.
func world(t *testing.T) httpapitest.API {
	return httpapitest.New(t, func(c *service.Config) {
		c.Knowledge.Models.Providers["paid"] = paid{builtinembedding.New()}
		c.Knowledge.Models.Offered = []catalog.EmbeddingModel{{Provider: "paid", Name: "m"}}
	})
}

func ask[T any](t testing.TB, e httpapitest.API, status int, method, path, body string) (answer T) {
	t.Helper()
	w := e.Send(method, path, body)
	require.Equal(t, status, w.Code, w.Body)
	if w.Body.Len() > 0 {
		require.NoError(t, json.Unmarshal(w.Body.Bytes(), &answer))
	}
	return answer
}

type object = map[string]any

// idOf is the id of the document that an answer is.
func idOf(t testing.TB, w *httptest.ResponseRecorder) string {
	t.Helper()
	var d struct {
		DocumentID string `json:"document_id"`
	}
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &d))
	return d.DocumentID
}

func baseOf(t *testing.T, e httpapitest.API, provider string) string {
	t.Helper()
	body := fmt.Sprintf(`{"name":"b","embedding_model":{"provider":%q}}`, provider)
	if provider == "paid" {
		body = `{"name":"b"}`
	}
	return ask[object](t, e, http.StatusCreated, "POST", "/knowledge-bases", body)["knowledge_base_id"].(string)
}

// ledger returns kind and input tokens of the entries.
func ledger(t *testing.T, e httpapitest.API) (entries []string) {
	t.Helper()
	type list struct {
		Entries []struct {
			Kind        string `json:"kind"`
			EntryID     string `json:"entry_id"`
			InputTokens int64  `json:"input_tokens"`
		} `json:"entries"`
	}
	for _, one := range ask[list](t, e, http.StatusOK, "GET", "/analytics/usage", "").Entries {
		assert.NotEmpty(t, one.EntryID)
		entries = append(entries, fmt.Sprint(one.Kind, " ", one.InputTokens))
	}
	return entries
}

// A search is charged to its user, if a model used tokens for it. When a budget is used up, searches and documents that
// would use tokens are refused; other requests go on.
func TestSearchesAreChargedToTheAsker(t *testing.T) {
	e := world(t)
	costs, free := baseOf(t, e, "paid"), baseOf(t, e, "builtin")
	user := ask[object](t, e, http.StatusOK, "GET", "/me", "")["user"].(object)["user_id"].(string)
	ask[object](t, e, http.StatusOK, "PATCH", "/users/"+user, `{"budget":{"period":"month","max_tokens":7}}`)
	search := func(status int, base, mode string) object {
		return ask[object](t, e, status, "POST", "/search",
			fmt.Sprintf(`{"query":"q","knowledge_base_ids":[%q],"mode":%q}`, base, mode))
	}
	search(http.StatusOK, free, "hybrid")
	search(http.StatusOK, costs, "keyword")
	assert.Empty(t, ledger(t, e))
	search(http.StatusOK, costs, "hybrid")
	assert.Equal(t, []string{"search 7"}, ledger(t, e))

	refused := search(http.StatusTooManyRequests, costs, "hybrid")
	assert.Equal(t, []any{"budget_exhausted", object{"kind": "user", "id": user, "period": "month"}},
		[]any{refused["code"], refused["budget"]})
	assert.Contains(t, refused["message"], "7 of 7 tokens")
	documents := func(base string) string { return "/knowledge-bases/" + base + "/documents" }
	ask[object](t, e, http.StatusTooManyRequests, "POST", documents(costs), `{"text":"x"}`)
	search(http.StatusOK, costs, "keyword")
	search(http.StatusOK, free, "hybrid")
	ask[object](t, e, http.StatusCreated, "POST", documents(free), `{"text":"x"}`)
	assert.Equal(t, []string{"search 7"}, ledger(t, e))
}

// A search is answered also when its tokens cannot be stored; the log has the failure.
func TestSearchIsAnsweredWithoutTheLedger(t *testing.T) {
	e := world(t)
	baseOf(t, e, "paid")
	ask[object](t, e, http.StatusOK, "PATCH", "/organization", `{"budget":{"period":"month","max_tokens":7}}`)
	e.Items.Break("spent/")
	ask[object](t, e, http.StatusOK, "POST", "/search", `{"query":"q"}`)
	assert.Empty(t, ledger(t, e))
	assert.Contains(t, e.Written.String(), "the tokens of a search could not be charged")
	assert.Contains(t, e.Written.String(), "tokens=7")
}

// The audit log has each change of bases and documents once, by the name of its operation.
func TestChangesOfKnowledgeAreAudited(t *testing.T) {
	e := httpapitest.New(t)
	base := baseOf(t, e, "builtin")
	path := "/knowledge-bases/" + base
	document := ask[object](t, e, http.StatusCreated, "POST", path+"/documents", `{"text":"x"}`)["document_id"].(string)
	ask[object](t, e, http.StatusOK, "PATCH", path+"/documents/"+document, `{"title":"t","metadata":{"a":1}}`)
	ask[object](t, e, http.StatusAccepted, "POST", path+"/documents/"+document+"/reprocess", "")
	ask[object](t, e, http.StatusNoContent, "DELETE", path+"/documents/"+document, "")
	ask[object](t, e, http.StatusOK, "PATCH", path, `{"description":"d"}`)
	ask[object](t, e, http.StatusNoContent, "DELETE", path, "")
	ask[object](t, e, http.StatusOK, "POST", "/search", `{"query":"q"}`)

	type list struct {
		Entries []struct {
			Operation string   `json:"operation"`
			Subject   object   `json:"subject"`
			Changed   []string `json:"changed"`
		} `json:"entries"`
	}
	var got []string
	for _, one := range ask[list](t, e, http.StatusOK, "GET", "/audit-log", "").Entries {
		name := map[any]string{base: "BASE", document: "DOCUMENT"}[one.Subject["id"]]
		got = append(got, fmt.Sprint(one.Operation, " ", one.Subject["kind"], " ", name, " ", one.Changed))
	}
	assert.Equal(t, []string{
		"delete-knowledge-base knowledge_base BASE []",
		"edit-knowledge-base knowledge_base BASE [description]",
		"delete-document document DOCUMENT []",
		"reprocess-document document DOCUMENT []",
		"edit-document document DOCUMENT [metadata title]",
		"create-documents document DOCUMENT []",
		"create-knowledge-base knowledge_base BASE []",
	}, got)
}
