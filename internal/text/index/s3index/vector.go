package s3index

import (
	"cmp"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3vectors/document"
	"github.com/aws/aws-sdk-go-v2/service/s3vectors/types"

	"agentplatform/internal/text/index"
)

// metadata is the metadata of a vector. Names are short, because their bytes count.
type metadata struct {
	Terms    []string `document:"t,omitempty"` // names of terms
	Document string   `document:"d"`           // name of the document
	Version  string   `document:"v"`           // and of its version
	Chunk    string   `document:"chunk"`       // a packed chunk in base64; not filterable
}

// The names of metadata in filters.
const (
	keyOfTerms, keyOfDocument, keyOfVersion, keyOfChunk = "t", "d", "v", "chunk"
)

// Bounds of a vector's metadata in bytes, as JSON. They are below the limits of S3 Vectors: 2 KB of filterable
// metadata, 40 KB in all. It is not documented which form counts; JSON is the longest one.
const (
	mostFilterable = 2000
	mostMetadata   = 38_000
	bytesOfTerm    = charsOfTerm + len(`"",`)
	bytesOfOthers  = 150 // of the other metadata and the names
)

// term is the hash of a term: 40 bits, so that two words with one hash are rarer than misprints. Filters compare its
// first 30 bits, as text. A chunk found only by these bits is left out by the others.
type term [5]byte

const charsOfTerm = 5

func hashOf(text string) term {
	sum := sha256.Sum256([]byte(text))
	return term(sum[:])
}

func (t term) name() string { return base64.RawURLEncoding.EncodeToString(t[:])[:charsOfTerm] }

// documentName is the name of a document for filters and keys. Its length does not depend on the document.
func documentName(id string) string {
	sum := sha256.Sum256([]byte(id))
	return base64.RawURLEncoding.EncodeToString(sum[:16])
}

func versionName(v index.Version) string {
	return documentName(v.Document) + "." + strconv.Itoa(v.Number)
}

// keyOf is the key of a chunk's vector. It begins with a hash, so that a listing in the order of keys begins with
// chunks of any documents (see sample).
func keyOf(v index.Version, chunk int) string {
	key := versionName(v) + "." + strconv.Itoa(chunk)
	sum := sha256.Sum256([]byte(key))
	return hex.EncodeToString(sum[:4]) + "." + key
}

// encode makes the vectors of chunks. common returns how many chunks of the collection have a term, as far as it is
// known. lost is the number of terms for which the filterable metadata had no space.
func encode(v index.Version, dimensions int, chunks []index.Chunk, common func(term) int) (
	vectors []types.PutInputVector, lost int,
) {
	here := map[term]int{} // chunks that have it
	for _, c := range chunks {
		for _, t := range c.Terms {
			here[hashOf(t.Text)]++
		}
	}
	for _, c := range chunks {
		p := packed{Version: v, Index: c.Index, length: c.Length, without: isZero(c.Vector)}
		for _, t := range c.Terms {
			p.terms = append(p.terms, weighted{hashOf(t.Text), t.Weight})
		}
		// The most distinctive first: terms that the fewest of these chunks have, then terms of titles, then terms that
		// the fewest other chunks have.
		slices.SortFunc(p.terms, func(a, b weighted) int {
			return cmp.Or(cmp.Compare(here[a.term], here[b.term]), cmp.Compare(b.weight, a.weight),
				cmp.Compare(common(a.term), common(b.term)), slices.Compare(a.term[:], b.term[:]))
		})
		m := metadata{Document: documentName(v.Document), Version: versionName(v)}
		limit := (mostFilterable - bytesOfOthers) / bytesOfTerm
		for _, t := range p.terms[:min(limit, len(p.terms))] {
			m.Terms = append(m.Terms, t.term.name())
		}
		lost += len(p.terms) - len(m.Terms)
		m.Chunk = p.pack(mostMetadata - mostFilterable)
		values := c.Vector
		if p.without {
			values = axis(dimensions)
		}
		vectors = append(vectors, types.PutInputVector{
			Key:  aws.String(keyOf(v, c.Index)),
			Data: &types.VectorDataMemberFloat32{Value: values}, Metadata: document.NewLazyDocument(m),
		})
	}
	return vectors, lost
}

func isZero(v []float32) bool { return !slices.ContainsFunc(v, func(x float32) bool { return x != 0 }) }

// packed is the data of a chunk in its vector's metadata.
type packed struct {
	index.Version // its collection is not packed

	Index   int
	length  int
	without bool       // its vector has no direction: S3 Vectors takes none such, and has another in its place
	terms   []weighted // to be packed
}

type weighted struct {
	term   term
	weight int
}

// pack packs a chunk, as base64 of at most so many bytes. Terms that do not fit are left out.
func (p packed) pack(most int) string {
	b := index.AppendText(nil, p.Document)
	for _, n := range []int{p.Number, p.Index, p.length} {
		b = binary.AppendUvarint(b, uint64(n)) //nolint:gosec // the port's checks allow no negative one
	}
	flag := byte(0)
	if p.without {
		flag = 1
	}
	b = append(b, flag)
	most = base64.RawStdEncoding.DecodedLen(most) - binary.MaxVarintLen16
	for _, t := range p.terms {
		if len(b)+len(t.term)+binary.MaxVarintLen16 > most {
			break
		}
		b = append(b, t.term[:]...)
		b = binary.AppendUvarint(b, uint64(t.weight)) //nolint:gosec // checked
	}
	return base64.RawStdEncoding.EncodeToString(b)
}

var errPacked = errors.New("s3index: a vector's metadata is none of ours")

// decode reads the metadata of a vector. It calls each with the terms, and does not keep them.
func decode(collection string, d document.Interface, each func(term, int)) (packed, error) {
	if d == nil {
		return packed{}, errPacked
	}
	var m struct {
		Chunk string `document:"chunk"`
	}
	err := d.UnmarshalSmithyDocument(&m)
	var b []byte
	if err == nil {
		b, err = base64.RawStdEncoding.DecodeString(m.Chunk)
	}
	if err != nil {
		return packed{}, fmt.Errorf("%w: %w", errPacked, err)
	}
	r := index.Reader{Rest: b}
	p := packed{Version: index.Version{Collection: collection, Document: r.Text(), Number: int(r.Uvarint())}}
	p.Index, p.length, p.without = int(r.Uvarint()), int(r.Uvarint()), string(r.Bytes(1)) == "\x01"
	for len(r.Rest) > 0 {
		if t := r.Bytes(uint64(len(term{}))); t != nil {
			each(term(t), int(r.Uvarint()))
		}
	}
	if r.Torn || len(p.Document) > index.MaxName {
		return packed{}, errPacked
	}
	return p, nil
}
