package index

import (
	"fmt"
	"math"
)

// CheckPut checks what is put. The error wraps [ErrInvalid].
func CheckPut(v Version, dimensions int, chunks []Chunk) error {
	if err := v.Check(); err != nil {
		return err
	}
	if dimensions < 1 || dimensions > MaxDimensions {
		return fmt.Errorf("%w: %d dimensions, not 1 to %d", ErrInvalid, dimensions, MaxDimensions)
	}
	if len(chunks) > MaxChunks {
		return fmt.Errorf("%w: %d chunks at once, more than %d", ErrInvalid, len(chunks), MaxChunks)
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

func checkName(s string) error {
	if s == "" || len(s) > MaxName {
		return fmt.Errorf("%w: a name of %d bytes, not 1 to %d", ErrInvalid, len(s), MaxName)
	}
	return nil
}

func (c Chunk) check(dimensions int) error {
	if c.Index < 0 || c.Index > math.MaxInt32 || c.Length < 0 || c.Length > MaxLength {
		return fmt.Errorf("%w: number %d, length %d", ErrInvalid, c.Index, c.Length)
	}
	if len(c.Vector) != dimensions {
		return fmt.Errorf("%w: a vector of %d dimensions, not %d", ErrInvalid, len(c.Vector), dimensions)
	}
	if err := checkVector(c.Vector); err != nil {
		return err
	}
	if len(c.Terms) > MaxChunkTerms {
		return fmt.Errorf("%w: %d terms, more than %d", ErrInvalid, len(c.Terms), MaxChunkTerms)
	}
	seen := make(map[string]bool, len(c.Terms))
	for _, t := range c.Terms {
		if t.Weight < 1 || t.Weight > MaxWeight {
			return fmt.Errorf("%w: a weight of %d, not 1 to %d", ErrInvalid, t.Weight, MaxWeight)
		}
		if err := checkTerm(t.Text, seen); err != nil {
			return err
		}
	}
	return nil
}

func checkTerm(s string, seen map[string]bool) error {
	if s == "" || len(s) > MaxTerm {
		return fmt.Errorf("%w: a term of %d bytes, not 1 to %d", ErrInvalid, len(s), MaxTerm)
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
	if q.Limit < 1 || q.Limit > MaxLimit {
		return fmt.Errorf("%w: a limit of %d, not 1 to %d", ErrInvalid, q.Limit, MaxLimit)
	}
	if len(q.Terms) > MaxTerms {
		return fmt.Errorf("%w: %d words, more than %d", ErrInvalid, len(q.Terms), MaxTerms)
	}
	if len(q.Documents) > MaxDocuments {
		return fmt.Errorf("%w: %d documents, more than %d", ErrInvalid, len(q.Documents), MaxDocuments)
	}
	for _, variants := range q.Terms {
		if len(variants) < 1 || len(variants) > MaxVariants {
			return fmt.Errorf("%w: a word with %d variants, not 1 to %d", ErrInvalid, len(variants), MaxVariants)
		}
		seen := make(map[string]bool, len(variants))
		for _, t := range variants {
			if err := checkTerm(t, seen); err != nil {
				return err
			}
		}
	}
	if len(q.Vector) > MaxDimensions {
		return fmt.Errorf("%w: a vector of %d dimensions, more than %d", ErrInvalid, len(q.Vector), MaxDimensions)
	}
	return checkVector(q.Vector)
}

// OtherDimensions is the error of a put into a collection that has vectors of other dimensions.
func OtherDimensions(has, put int) error {
	return fmt.Errorf("%w: vectors of %d dimensions, the collection's have %d", ErrInvalid, put, has)
}
