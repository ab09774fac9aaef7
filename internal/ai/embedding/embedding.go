// Package embedding is the port to embedding models: texts in, vectors out, such that texts of like meaning have like
// vectors.
//
// The caller guarantees: texts are valid UTF-8 and not blank; ending the context aborts the call. The adapter
// guarantees: there is one vector for each text, in order, of unit length and of the asked dimensions, with finite
// numbers only; texts that are too long for the model are cut, not refused; however many texts come, they are sent in
// batches that the endpoint takes; every failure is an [Error] with a kind, or the context's own error. Adapters of
// endpoints keep it by [InBatches], which believes an endpoint nothing.
//
// It must not know documents, organizations or indexes. It imports egress, to report network failures, providerhttp,
// to read what providers say of failures, and host, to own its goroutines.
package embedding

import "context"

// MaxDimensions limits the numbers of a vector: the index on AWS takes no more, and no model in use has more.
const MaxDimensions = 4096

// Purpose says what a text is: some models embed questions and answers differently.
type Purpose string

// The purposes.
const (
	ForDocument Purpose = "document"
	ForQuery    Purpose = "query"
)

// Request asks for the vectors of texts. A reply holds all of them in memory: whoever has very many asks for some at a
// time.
type Request struct {
	Name       string // of the model at its provider
	Dimensions int    // of the vectors; 0: as the model has them
	Purpose    Purpose
	Texts      []string
}

// Reply has a vector for each text.
type Reply struct {
	Vectors [][]float32 `json:"vectors,omitempty"`
	// Tokens are those that the endpoint counted, as far as that can be true; with an error: those used before it.
	Tokens int64 `json:"tokens"`
}

// Model embeds texts. Implementations are safe for concurrent use.
type Model interface {
	Embed(ctx context.Context, r Request) (Reply, error)
}
