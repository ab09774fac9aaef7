// Package openaiembedding implements the embedding port with any endpoint that has OpenAI's embeddings API: OpenAI
// itself, Ollama, vLLM, llama.cpp's server, LiteLLM.
//
// The API has no member for a text's purpose. The caller adds the prefix that marks a query or a passage
// ([embedding.Options]). Retries are the caller's. The package must not know documents or indexes. It imports its port
// and providerhttp.
package openaiembedding

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"sync"
	"time"

	"agentplatform/internal/ai/embedding"
	"agentplatform/internal/ai/providerhttp"
)

// limits are what every such endpoint accepts; most accept more. A small machine needs a minute for a batch, and OpenAI
// accepts 8,192 tokens of a text. A model for which they are too large refuses the batch.
var limits = embedding.Limits{Texts: 32, Bytes: 256 << 10, Characters: 32_000, Timeout: 2 * time.Minute}

// Model calls one endpoint of the embeddings API. It is safe for concurrent use.
type Model struct {
	endpoint providerhttp.Endpoint
	plain    sync.Map // names of models that refuse a format; deployments name few
}

// New makes the model of an endpoint, such as https://api.openai.com/v1 (the default). The key may be empty where
// the endpoint needs none.
func New(baseURL, key string, client *http.Client) *Model {
	header := http.Header{}
	if key != "" {
		header.Set("Authorization", "Bearer "+key)
	}
	url := providerhttp.Join(cmp.Or(baseURL, "https://api.openai.com/v1"), "/embeddings")
	return &Model{endpoint: providerhttp.Endpoint{URL: url, Header: header, Client: client}}
}

// Embed calls the endpoint, in as many requests as it needs.
func (m *Model) Embed(ctx context.Context, r embedding.Request) (embedding.Reply, error) {
	return embedding.InBatches(ctx, r, limits, m.call)
}

// The request body: https://platform.openai.com/docs/api-reference/embeddings/create
type request struct {
	Model      string   `json:"model"`
	Input      []string `json:"input"`
	Format     string   `json:"encoding_format,omitempty"` // some endpoints need it, and some refuse it
	Dimensions int      `json:"dimensions,omitempty"`
}

// response is the body of an answer: https://platform.openai.com/docs/api-reference/embeddings/object
type response struct {
	Error providerhttp.Trouble `json:"error"`
	Data  []item               `json:"data"`
	Usage struct {
		Prompt providerhttp.Count `json:"prompt_tokens"`
		Total  providerhttp.Count `json:"total_tokens"`
	} `json:"usage"`
}

type item struct {
	Index     *int              `json:"index"` // of the text; some endpoints send none
	Embedding embedding.Numbers `json:"embedding"`
}

// call makes one request, and another where the first is refused for its format.
func (m *Model) call(ctx context.Context, r embedding.Request) (embedding.Reply, error) {
	body := request{r.Name, r.Texts, "float", r.Dimensions}
	if _, plain := m.plain.Load(r.Name); plain {
		body.Format = ""
	}
	reply, err := m.send(ctx, r, body)
	if f, is := errors.AsType[*embedding.Error](err); is && f.Kind == embedding.BadRequest && body.Format != "" &&
		f.Trouble.Names("encoding_format") {
		body.Format = ""
		plain, failed := m.send(ctx, r, body)
		if failed == nil {
			m.plain.Store(r.Name, true)
		}
		if embedding.KindOf(failed) != embedding.BadRequest { // or else the first failure is the cause
			return plain, failed
		}
	}
	return reply, err
}

// send makes one request. Its error may be shown.
func (m *Model) send(ctx context.Context, r embedding.Request, body request) (reply embedding.Reply, err error) {
	defer func() { err = embedding.Redact(err, m.endpoint.URL, m.endpoint.Header) }()
	raw, err := json.Marshal(body)
	if err != nil {
		return reply, embedding.Fail(embedding.BadRequest, "the request cannot be written: %w", err)
	}
	answer, err := m.endpoint.Post(ctx, raw, "application/json")
	if err != nil {
		return reply, embedding.Unreachable(err)
	}
	defer func() { _ = answer.Body.Close() }()
	if answer.StatusCode != http.StatusOK {
		return reply, embedding.FromHTTP(providerhttp.Refusal(answer))
	}
	if raw, err = io.ReadAll(embedding.Bounded(answer.Body, r)); err != nil {
		return reply, embedding.Unreachable(err)
	}
	return read(raw, r)
}

func read(body []byte, r embedding.Request) (embedding.Reply, error) {
	var answer response
	if err := embedding.Decode(body, r, &answer); err != nil {
		return embedding.Reply{}, err
	}
	if answer.Error.There {
		return embedding.Reply{}, embedding.FromHTTP(http.StatusOK, answer.Error)
	}
	reply := embedding.Reply{Tokens: int64(max(answer.Usage.Total, answer.Usage.Prompt))}
	if len(answer.Data) == 0 || answer.Data[0].Index == nil {
		for _, one := range answer.Data {
			reply.Vectors = append(reply.Vectors, one.Embedding)
		}
		return reply, nil
	}
	var err error
	reply.Vectors, err = inOrder(answer.Data)
	return reply, err
}

// inOrder puts each vector at the position of its index. Each index must stand once.
func inOrder(items []item) ([][]float32, error) {
	vectors := make([][]float32, len(items))
	for _, one := range items {
		if one.Index == nil || *one.Index < 0 || *one.Index >= len(items) || vectors[*one.Index] != nil {
			return nil, embedding.Fail(embedding.Malformed,
				"the embedding model's provider does not state which vector belongs to which text")
		}
		vectors[*one.Index] = one.Embedding
	}
	return vectors, nil
}
