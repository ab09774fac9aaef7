package rollup

import (
	"cmp"
	"hash/fnv"
	"slices"
)

// Set counts different values: it holds the lowest of their hashes, in order. Up to [Exactly] values the count is
// exact. Beyond, it is an estimate from the density of the lowest hashes.
type Set []uint64

const (
	// Exactly is how many values a set counts exactly; beyond, its error is about 3 % (one over the root of it).
	Exactly = 1024
	// hashBits is how many bits of a hash are kept. Among 1024 values two are taken for one in a set of 2 million.
	hashBits = 40
)

// hashOf is the position of a value among all hashes.
func hashOf(value string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(value))
	x := h.Sum64() // its high bits depend too little on the last bytes: they are mixed
	x = (x ^ x>>33) * 0xff51afd7ed558ccd
	x = (x ^ x>>33) * 0xc4ceb9fe1a85ec53
	return (x ^ x>>33) >> (64 - hashBits)
}

// setOf is the set of one value, and empty for an empty value.
func setOf(value string) Set {
	if value == "" {
		return nil
	}
	return Set{hashOf(value)}
}

// united is the union of two sets. It returns a when b adds nothing.
func united(a, b Set) Set {
	if len(b) == 0 || len(b) == 1 && contains(a, b[0]) {
		return a
	}
	both := interleaved(a, b, cmp.Compare, func(hash, _ uint64) uint64 { return hash })
	return both[:min(len(both), Exactly)]
}

func contains(s Set, hash uint64) bool {
	_, there := slices.BinarySearch(s, hash)
	return there
}

// Count is how many different values there are.
func (s Set) Count() int64 {
	if len(s) < Exactly {
		return int64(len(s))
	}
	highest := float64(s[Exactly-1]+1) / (1 << hashBits)
	return int64(float64(Exactly-1)/highest + 0.5)
}
