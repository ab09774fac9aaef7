// Package embedding is the port to embedding models: texts in, vectors out. Texts of like meaning have like vectors.
//
// The caller guarantees:
//   - Texts are valid UTF-8 and not blank.
//   - Ending the context aborts the call.
//
// The adapter guarantees:
//   - There is one vector for each text, in order.
//   - Each vector has unit length, the requested dimensions and finite numbers.
//   - A text that is too long for the model is cut, not refused.
//   - Any number of texts is sent, in batches that the endpoint accepts.
//   - Every failure is an [Error] with a kind, or the context's own error.
//
// Adapters of endpoints keep these promises with [InBatches], which checks all that an endpoint returns.
//
// The package must not know documents, organizations or indexes. It imports egress, to report network failures,
// providerhttp, to read providers' failures, and host, to own its goroutines.
package embedding

import "context"

// MaxDimensions limits the numbers of a vector: the index on AWS takes no more, and no model in use has more.
const MaxDimensions = 4096

// Purpose is the use of a text. Some models embed questions and answers differently.
type Purpose string

// The purposes.
const (
	ForDocument Purpose = "document"
	ForQuery    Purpose = "query"
)

// Request asks for the vectors of texts. A reply holds all of them in memory, so a caller with very many texts sends
// several requests.
type Request struct {
	Name       string // of the model at its provider
	Dimensions int    // of the vectors; 0: as the model has them
	Purpose    Purpose
	Texts      []string
}

// Reply has a vector for each text.
type Reply struct {
	Vectors [][]float32 `json:"vectors,omitempty"`
	// Tokens are those that the endpoint counted, clipped to what is possible. With an error they are those used before
	// it.
	Tokens int64 `json:"tokens"`
}

// Model embeds texts. Implementations are safe for concurrent use.
type Model interface {
	Embed(ctx context.Context, r Request) (Reply, error)
}
