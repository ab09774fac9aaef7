// Package index is the port to the index that searches chunks of documents by words and by vectors.
//
// The contents of an index are derived: they can be lost and put again. An index decides nothing. It returns
// candidates, which the caller checks against the present documents, and ranks.
//
// Chunks live in collections. A collection is a knowledge base in one of its builds: it is searched as a whole, with
// one set of settings. All of its vectors have the same dimensions. The caller names it.
//
// It must not know organizations, permissions, texts, languages or embedding models. It imports the standard library.
package index

import (
	"context"
	"errors"
)

// ErrInvalid is wrapped by errors about invalid puts and queries; nothing was changed.
var ErrInvalid = errors.New("index: invalid")

// Limits of an index. Callers cut or refuse longer input before.
const (
	MaxName       = 1024 // bytes of the name of a collection or a document
	MaxChunks     = 1000 // of one Put
	MaxChunkTerms = 4096 // distinct ones, in a chunk
	MaxTerm       = 1024 // bytes
	MaxWeight     = 65535
	MaxLength     = 1 << 20 // words of a chunk
	MaxDimensions = 4096
	MaxTerms      = 1024 // words of a query
	MaxVariants   = 64   // of a word of a query
	MaxDocuments  = 100  // that a query names
	MaxLimit      = 10_000
)

// Version names the indexed chunks of one version of a document.
type Version struct {
	Collection string
	Document   string
	Number     int
}

// ChunkID names a chunk.
type ChunkID struct {
	Version
	Index int
}

// Chunk is what is indexed of a chunk.
type Chunk struct {
	Index  int       // its number in the version
	Terms  []Term    // distinct, in no order
	Length int       // of the chunk, in words
	Vector []float32 // of unit length
}

// Term is a word after analysis, with its weight. The weight is how often it occurs, where an occurrence in a title may
// count more than once.
type Term struct {
	Text   string // not empty; of any bytes
	Weight int    // at least 1
}

// Query asks for candidates.
type Query struct {
	Collections []string
	Documents   []string // only chunks of these, at most MaxDocuments; none: of all
	// Terms are the words of the query. Each word is its variants, which are distinct terms. A chunk that has one of
	// them has the word. A term may be a variant of several words. None: no search by words.
	Terms  [][]string
	Vector []float32 // of unit length; nil: no search by vectors
	Limit  int       // candidates by words, and as many by vectors; at least 1; see Result.More
	// Chunks is about how many chunks the collections have together, if the caller knows it. It is for an index that
	// cannot count; 0: unknown.
	Chunks int
}

// Candidate is a chunk that may be a hit.
type Candidate struct {
	Version
	Index   int
	Length  int     // as it was put
	Weights []int   // for each word of the query, the highest weight of its variants in the chunk; 0: it has none
	Cosine  float64 // with the query's vector, exact up to the error of 8-bit quantisation; 0 without a vector
}

// Statistics are the numbers that BM25 needs of all chunks of the queried collections, for a query that has words. They
// may be approximate, and may count chunks that were removed a while ago.
type Statistics struct {
	Chunks      int
	Length      float64 // mean, in words
	Frequencies []int   // for each word of the query, the number of chunks that have it
}

// Result is the answer to a query: the best by words and the best by vectors, each chunk once, in no order. It has all
// chunks with one of the words, if there are at most as many as the limit. The choice of the best may be approximate.
type Result struct {
	Candidates []Candidate
	Statistics Statistics
	// More reports that a query with a higher limit may find others. It is false if there are none, or if the index
	// would not find more with any limit.
	More bool
}

// Index searches chunks. Implementations are safe for concurrent use. The error is one that wraps [ErrInvalid], that of
// the context, or one of the store. A change that returned an error of the store may have been made, wholly or for some
// of the chunks: the caller makes it again.
type Index interface {
	// Put adds chunks to a version. Putting a chunk again replaces it. When Put returns, all queries find the chunks,
	// also those of other processes, also after a crash. All vectors of a collection have the same dimensions until it
	// is dropped.
	Put(ctx context.Context, v Version, dimensions int, chunks []Chunk) error

	// Remove removes all chunks of a version. It returns no error for a missing version.
	Remove(ctx context.Context, v Version) error

	// Drop removes a collection with all its chunks. It returns no error for a missing collection.
	Drop(ctx context.Context, collection string) error

	// Query returns candidates. Collections that do not exist are empty. A collection whose vectors have other
	// dimensions than the query's is searched by words only.
	Query(ctx context.Context, q Query) (Result, error)
}
