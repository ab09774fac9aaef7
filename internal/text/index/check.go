package index

import (
	"cmp"
	"fmt"
	"math"
)

// CheckPut checks what is put. The error wraps [ErrInvalid].
func CheckPut(v Version, dimensions int, chunks []Chunk) error {
	if err := v.Check(); err != nil {
		return err
	}
	if err := cmp.Or(from1("%d dimensions", dimensions, MaxDimensions),
		atMost("%d chunks at once", len(chunks), MaxChunks)); err != nil {
		return err
	}
	seen := make(map[int]bool, len(chunks))
	for _, c := range chunks {
		if seen[c.Index] {
			return fmt.Errorf("%w: chunk %d stands twice", ErrInvalid, c.Index)
		}
		seen[c.Index] = true
		if err := c.check(dimensions); err != nil {
			return fmt.Errorf("%w (chunk %d)", err, c.Index)
		}
	}
	return nil
}

// from1 and atMost return an error for a number that is out of bounds. text names the number.
func from1(text string, n, most int) error {
	if n >= 1 && n <= most {
		return nil
	}
	return fmt.Errorf("%w: "+text+", not 1 to %d", ErrInvalid, n, most)
}

func atMost(text string, n, most int) error {
	if n <= most {
		return nil
	}
	return fmt.Errorf("%w: "+text+", more than %d", ErrInvalid, n, most)
}

// Check checks the names and the number. The error wraps [ErrInvalid].
func (v Version) Check() error {
	if err := checkName(v.Collection); err != nil {
		return err
	}
	if v.Number < 0 || v.Number > math.MaxInt32 {
		return fmt.Errorf("%w: a version's number %d", ErrInvalid, v.Number)
	}
	return checkName(v.Document)
}

func checkName(s string) error { return from1("a name of %d bytes", len(s), MaxName) }

func (c Chunk) check(dimensions int) error {
	if c.Index < 0 || c.Index > math.MaxInt32 || c.Length < 0 || c.Length > MaxLength {
		return fmt.Errorf("%w: number %d, length %d", ErrInvalid, c.Index, c.Length)
	}
	if len(c.Vector) != dimensions {
		return fmt.Errorf("%w: a vector of %d dimensions, not %d", ErrInvalid, len(c.Vector), dimensions)
	}
	if err := cmp.Or(checkVector(c.Vector), atMost("%d terms", len(c.Terms), MaxChunkTerms)); err != nil {
		return err
	}
	seen := make(map[string]bool, len(c.Terms))
	for _, t := range c.Terms {
		if err := cmp.Or(from1("a weight of %d", t.Weight, MaxWeight), checkTerm(t.Text, seen)); err != nil {
			return err
		}
	}
	return nil
}

func checkTerm(s string, seen map[string]bool) error {
	if err := from1("a term of %d bytes", len(s), MaxTerm); err != nil {
		return err
	}
	if seen[s] {
		return fmt.Errorf("%w: the term %q stands twice", ErrInvalid, s)
	}
	seen[s] = true
	return nil
}

// checkVector allows the zero vector: it has no direction and is like nothing.
func checkVector(v []float32) error {
	sum := 0.0
	for _, x := range v {
		sum += float64(x) * float64(x)
	}
	if !(sum <= 1.01) { // true of NaN, too
		return fmt.Errorf("%w: a vector whose length is not 1 (squared: %g)", ErrInvalid, sum)
	}
	return nil
}

// Check checks a query. The error wraps [ErrInvalid].
func (q Query) Check() error {
	if err := cmp.Or(from1("a limit of %d", q.Limit, MaxLimit), atMost("%d words", len(q.Terms), MaxTerms),
		atMost("%d documents", len(q.Documents), MaxDocuments),
		atMost("a vector of %d dimensions", len(q.Vector), MaxDimensions)); err != nil {
		return err
	}
	for _, variants := range q.Terms {
		if err := from1("a word with %d variants", len(variants), MaxVariants); err != nil {
			return err
		}
		seen := make(map[string]bool, len(variants))
		for _, t := range variants {
			if err := checkTerm(t, seen); err != nil {
				return err
			}
		}
	}
	return checkVector(q.Vector)
}

// OtherDimensions is the error of a put into a collection that has vectors of other dimensions.
func OtherDimensions(has, put int) error {
	return fmt.Errorf("%w: vectors of %d dimensions, the collection's have %d", ErrInvalid, put, has)
}
