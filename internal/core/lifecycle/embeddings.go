package lifecycle

import (
	"slices"
	"strings"
)

// Embeddings are the tokens that embedding models used, by model. They are a part of the input tokens of the same
// [Usage], with their own price.
type Embeddings []Embedded

// Embedded is the number of tokens that one model used.
type Embedded struct {
	Model  string `json:"model"` // provider/name; empty for models above MaxEmbeddings
	Tokens int64  `json:"tokens"`
}

// MaxEmbeddings is the maximum number of models that are counted separately.
const MaxEmbeddings = 16

// With returns a copy with more tokens of models, sorted by model. It ignores counts that are not positive.
func (e Embeddings) With(more ...Embedded) Embeddings {
	e = slices.Clone(e)
	for _, m := range more {
		at, known := e.find(m.Model)
		if !known && len(e) >= MaxEmbeddings {
			m.Model = ""
			at, known = e.find(m.Model)
		}
		switch {
		case m.Tokens <= 0:
		case known:
			e[at].Tokens += m.Tokens
		default:
			e = slices.Insert(e, at, m)
		}
	}
	return e
}

func (e Embeddings) find(model string) (at int, known bool) {
	return slices.BinarySearchFunc(e, model,
		func(e Embedded, model string) int { return strings.Compare(e.Model, model) })
}

// Tokens is the sum of all models.
func (e Embeddings) Tokens() (sum int64) {
	for _, one := range e {
		sum += one.Tokens
	}
	return sum
}
