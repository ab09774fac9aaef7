package knowledge_test

import (
	"context"
	"fmt"
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/ai/embedding"
	"agentplatform/internal/ai/embedding/builtinembedding"
	"agentplatform/internal/api/httpapi/httpapitest"
	"agentplatform/internal/api/httpapi/service"
	"agentplatform/internal/org/catalog"
)

// down is a model that cannot be reached.
type down struct{ err error }

func (d down) Embed(context.Context, embedding.Request) (embedding.Reply, error) {
	return embedding.Reply{}, d.err
}

// The model of a base decides its results. No other model is used in place of the default, and the base is not made.
func TestABaseIsNotMadeWithoutItsDefaultModel(t *testing.T) {
	for _, err := range []error{
		fmt.Errorf("asking: %w", context.DeadlineExceeded),
		embedding.Fail(embedding.Retryable, "the endpoint answered 503"),
		embedding.Fail(embedding.BadRequest, "the endpoint answered 404"),
	} {
		e := httpapitest.New(t, func(c *service.Config) {
			c.Knowledge.Models.Providers["down"] = down{err}
			c.Knowledge.Models.Providers["paid"] = paid{builtinembedding.New()}
			c.Knowledge.Models.Offered = []catalog.EmbeddingModel{
				{Provider: "down", Name: "d"}, {Provider: "paid", Name: "m"},
			}
		})
		refused := ask[object](t, e, http.StatusServiceUnavailable, "POST", "/knowledge-bases", `{"name":"b"}`)
		assert.Equal(t, "embedding_unavailable", refused["code"])
		assert.Contains(t, refused["message"], "the default embedding model down/d cannot be reached: "+err.Error())
		assert.Empty(t, ask[object](t, e, http.StatusOK, "GET", "/knowledge-bases", "")["knowledge_bases"])

		made := ask[object](t, e, http.StatusCreated, "POST", "/knowledge-bases",
			`{"name":"b","embedding_model":{"provider":"paid","name":"m"}}`)
		assert.Equal(t, "paid", made["embedding_model"].(object)["provider"], "who names a model gets it")
		made = ask[object](t, e, http.StatusCreated, "POST", "/knowledge-bases",
			`{"name":"b","embedding_model":{"provider":"builtin"}}`)
		assert.Equal(t, "builtin", made["embedding_model"].(object)["provider"])
	}
	plain := ask[object](t, httpapitest.New(t), http.StatusCreated, "POST", "/knowledge-bases", `{"name":"b"}`)
	require.Equal(t, "builtin", plain["embedding_model"].(object)["provider"], "where no other is offered")
}
