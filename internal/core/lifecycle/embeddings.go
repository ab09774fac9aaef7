package lifecycle

import (
	"slices"
	"strings"
)

// Embeddings are the tokens that embedding models used, by model. They are a part of the input tokens beside which
// they stand, with a price of their own.
type Embeddings []Embedded

// Embedded is what one model used.
type Embedded struct {
	Model  string `json:"model"` // provider/name; empty for those that found no room
	Tokens int64  `json:"tokens"`
}

// MaxEmbeddings bounds the models that are told apart.
const MaxEmbeddings = 16

// With is a copy with more tokens of a model, in the order of the models' names. What is not positive adds nothing.
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

// Tokens is what all of them used.
func (e Embeddings) Tokens() (sum int64) {
	for _, one := range e {
		sum += one.Tokens
	}
	return sum
}
