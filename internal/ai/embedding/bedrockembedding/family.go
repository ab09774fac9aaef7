package bedrockembedding

import (
	"encoding/json"
	"slices"
	"strings"
	"time"

	"agentplatform/internal/ai/embedding"
	"agentplatform/internal/ai/providerhttp"
)

// family is a kind of models with the same requests and replies.
type family struct {
	name       string // part of the id of each of its models
	dimensions []int  // that may be asked for
	limits     embedding.Limits
	request    func(r embedding.Request) any
	read       func(body []byte, r embedding.Request) (embedding.Reply, error)
}

// timeout limits a call of Bedrock, which takes a few hundred milliseconds. An answer does not arrive after a minute.
const timeout = time.Minute

var families = []family{
	// https://docs.aws.amazon.com/bedrock/latest/userguide/model-parameters-titan-embed-text.html
	{"amazon.titan-embed-text-v2", []int{256, 512, 1024},
		embedding.Limits{Texts: 1, Bytes: 1 << 20, Characters: 50_000, Calls: 8, Timeout: timeout},
		titanRequest, titanReply},
	// https://docs.aws.amazon.com/bedrock/latest/userguide/model-parameters-embed-v4.html
	{"cohere.embed-v4", []int{256, 512, 1024, 1536},
		embedding.Limits{Texts: 96, Bytes: 1 << 20, Characters: 100_000, Timeout: timeout},
		cohere4Request, cohereReply},
	// https://docs.aws.amazon.com/bedrock/latest/userguide/model-parameters-embed-v3.html
	{"cohere.embed-", []int{1024},
		embedding.Limits{Texts: 96, Bytes: 1 << 20, Characters: 2048, Timeout: timeout},
		cohere3Request, cohereReply},
}

// familyOf is the family of the model that a request names.
func familyOf(r embedding.Request) (family, error) {
	for _, f := range families {
		if !strings.Contains(r.Name, f.name) {
			continue
		}
		if r.Dimensions != 0 && !slices.Contains(f.dimensions, r.Dimensions) {
			return family{}, embedding.Fail(embedding.BadRequest, "%s supports %v dimensions, not %d", r.Name,
				f.dimensions, r.Dimensions)
		}
		return f, nil
	}
	return family{}, embedding.Fail(embedding.BadRequest,
		"only amazon.titan-embed-text-v2 and cohere.embed are supported embedding models of Bedrock, not %q", r.Name)
}

type titan struct {
	Text       string `json:"inputText"`
	Dimensions int    `json:"dimensions,omitempty"`
	Normalize  bool   `json:"normalize"`
}

func titanRequest(r embedding.Request) any { return titan{r.Texts[0], r.Dimensions, true} }

func titanReply(body []byte, r embedding.Request) (embedding.Reply, error) {
	var answer struct {
		Embedding embedding.Numbers  `json:"embedding"`
		Tokens    providerhttp.Count `json:"inputTextTokenCount"`
	}
	if err := embedding.Decode(body, r, &answer); err != nil {
		return embedding.Reply{}, err
	}
	return embedding.Reply{Vectors: [][]float32{answer.Embedding}, Tokens: int64(answer.Tokens)}, nil
}

type cohere struct {
	Texts     []string `json:"texts"`
	Purpose   string   `json:"input_type"`
	Truncate  string   `json:"truncate"` // which end of a text that is too long
	Types     []string `json:"embedding_types"`
	Dimension int      `json:"output_dimension,omitempty"`
}

func cohere3Request(r embedding.Request) any {
	return cohere{Texts: r.Texts, Purpose: purpose(r), Truncate: "END", Types: []string{"float"}}
}

func cohere4Request(r embedding.Request) any {
	return cohere{r.Texts, purpose(r), "RIGHT", []string{"float"}, r.Dimensions}
}

func purpose(r embedding.Request) string {
	if r.Purpose == embedding.ForQuery {
		return "search_query"
	}
	return "search_document"
}

func cohereReply(body []byte, r embedding.Request) (embedding.Reply, error) {
	var answer struct {
		Embeddings byType `json:"embeddings"`
	}
	if err := embedding.Decode(body, r, &answer); err != nil {
		return embedding.Reply{}, err
	}
	return embedding.Reply{Vectors: answer.Embeddings}, nil
}

// byType is a list of vectors, or an object that has the list by its type.
type byType [][]float32

func (b *byType) UnmarshalJSON(raw []byte) error {
	var types struct {
		Float []embedding.Numbers `json:"float"`
	}
	into := any(&types)
	if len(raw) > 0 && raw[0] == '[' {
		into = &types.Float
	}
	if err := json.Unmarshal(raw, into); err != nil {
		return err
	}
	*b = make(byType, 0, len(types.Float))
	for _, v := range types.Float {
		*b = append(*b, v)
	}
	return nil
}
