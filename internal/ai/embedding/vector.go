package embedding

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"math"
	"strconv"
)

// Numbers is a vector as endpoints send it in JSON: a list of numbers, or base64 of 32-bit floating-point numbers, the
// lowest byte first.
type Numbers []float32

var (
	errNoVector = errors.New("embedding: this is no vector")
	errTooMany  = errors.New("embedding: a vector has too many numbers")
)

// UnmarshalJSON accepts numbers that a float32 can hold, at most [MaxDimensions], and nothing else. A null among them
// is an error: some endpoints write null for NaN and infinities.
func (n *Numbers) UnmarshalJSON(raw []byte) error {
	if len(raw) > 1 && raw[0] == '"' {
		return n.decode(raw[1 : len(raw)-1])
	}
	if len(raw) < 2 || raw[0] != '[' {
		return errNoVector
	}
	raw = bytes.TrimSpace(raw[1 : len(raw)-1])
	count := bytes.Count(raw, []byte(",")) + 1
	if count > MaxDimensions {
		return errTooMany
	}
	list := make(Numbers, 0, count)
	for text := range bytes.SplitSeq(raw, []byte(",")) {
		f, err := strconv.ParseFloat(string(bytes.TrimSpace(text)), 32)
		if err != nil {
			return errNoVector
		}
		list = append(list, float32(f))
	}
	*n = list
	return nil
}

func (n *Numbers) decode(text []byte) error {
	if base64.StdEncoding.DecodedLen(len(text)) > 4*MaxDimensions+2 {
		return errTooMany
	}
	raw, err := base64.StdEncoding.AppendDecode(nil, bytes.ReplaceAll(text, []byte(`\/`), []byte("/")))
	if err != nil || len(raw)%4 != 0 {
		return errNoVector
	}
	list := make(Numbers, len(raw)/4)
	_, _ = binary.Decode(raw, binary.LittleEndian, []float32(list)) // it errs only on other types and too few bytes
	*n = list
	return nil
}

// Unit scales a vector in place to length 1. A vector with a number that is not finite, or with only zeros, has no
// direction. Then ok is false and the vector is unchanged.
func Unit(vector []float32) (ok bool) {
	sum := 0.0
	for _, x := range vector {
		sum += float64(x) * float64(x)
	}
	if sum == 0 || math.IsInf(sum, 0) || math.IsNaN(sum) {
		return false
	}
	scale := 1 / math.Sqrt(sum)
	for i, x := range vector {
		vector[i] = float32(float64(x) * scale)
	}
	return true
}
