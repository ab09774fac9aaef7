package diskindex

import (
	"math"
	"math/bits"
	"math/rand/v2"
)

// A vector is kept twice: as 8-bit integers with a scale, and as one bit for each dimension. The integers give its
// cosine with a query. The bits estimate the cosine, to choose the vectors whose integers are read. The bits are the
// signs after a rotation. The estimate is that of RaBitQ (Gao and Long, 2024): the query times the signs, divided by
// the vector times its signs.

// queryBits is the number of bits of each quantised value of a query, for the estimate.
const queryBits = 4

// quantised is a vector as it is kept.
type quantised struct {
	scale  float32
	values []int8
	code   code
}

// code is what estimates need of a vector.
type code struct {
	signs  []uint64
	factor float32 // by which the product of a query with the signs is multiplied
	ones   uint16  // in signs
}

// rotation is an orthogonal transform: twice random signs and a Hadamard transform. It is the same in all processes.
type rotation struct {
	size  int // a power of two, at least 64 and the dimensions
	signs [2][]float32
}

func newRotation(dimensions int) *rotation {
	size := 64
	for size < dimensions {
		size *= 2
	}
	r := &rotation{size: size}
	random := rand.New(rand.NewPCG(0x5eed, uint64(size)))
	for round := range r.signs {
		r.signs[round] = make([]float32, size)
		for i := range r.signs[round] {
			r.signs[round][i] = float32(2*random.IntN(2) - 1)
		}
	}
	return r
}

// words is the number of 64-bit words of a code.
func (r *rotation) words() int { return r.size / 64 }

func (r *rotation) rotate(v []float32) []float32 {
	out := make([]float32, r.size)
	copy(out, v)
	for _, signs := range r.signs {
		for i := range out {
			out[i] *= signs[i]
		}
		hadamard(out)
	}
	return out
}

// hadamard is the orthonormal Walsh-Hadamard transform, in place.
func hadamard(v []float32) {
	for half := 1; half < len(v); half *= 2 {
		for start := 0; start < len(v); start += 2 * half {
			low, high := v[start:start+half], v[start+half:start+2*half]
			for i, a := range low {
				b := high[i]
				low[i], high[i] = a+b, a-b
			}
		}
	}
	norm := float32(1 / math.Sqrt(float64(len(v))))
	for i := range v {
		v[i] *= norm
	}
}

func (r *rotation) quantise(v []float32) quantised {
	q := quantised{values: make([]int8, len(v)), code: code{signs: make([]uint64, r.words())}}
	largest := float32(0)
	for _, x := range v {
		largest = max(largest, x, -x)
	}
	if q.scale = largest / 127; q.scale > 0 {
		for i, x := range v {
			q.values[i] = int8(math.Round(float64(x / q.scale)))
		}
	}
	square, sum := float32(0), float32(0)
	for i, x := range r.rotate(v) {
		square += x * x
		if x > 0 {
			q.code.signs[i/64] |= 1 << (i % 64)
			q.code.ones++
			sum += x
		} else {
			sum -= x
		}
	}
	if sum > 0 {
		q.code.factor = square / sum
	}
	return q
}

// probe is a query's vector, ready for estimates.
type probe struct {
	vector     []float32
	planes     []uint64 // for each word of a code, queryBits words: the bits of the quantised values, lowest first
	low, step  float32  // a value is low + step * bits
	total      float32  // of all values
	dimensions int
}

func (r *rotation) probe(v []float32) *probe {
	rotated := r.rotate(v)
	p := &probe{vector: v, planes: make([]uint64, queryBits*r.words()), dimensions: len(v)}
	high := float32(0)
	for _, x := range rotated {
		p.low, high, p.total = min(p.low, x), max(high, x), p.total+x
	}
	p.step = (high - p.low) / (1<<queryBits - 1)
	if p.step == 0 {
		return p
	}
	for i, x := range rotated {
		n := uint64(math.Round(float64((x - p.low) / p.step)))
		for bit := range queryBits {
			p.planes[i/64*queryBits+bit] |= n >> bit & 1 << (i % 64)
		}
	}
	return p
}

// estimate is the approximate cosine with the vector of the signs, which has the factor and the ones.
func (p *probe) estimate(signs []uint64, factor float32, ones uint16) float32 {
	planes, sum := p.planes, 0
	for _, s := range signs {
		w := planes[:queryBits:queryBits]
		planes = planes[queryBits:]
		sum += bits.OnesCount64(s&w[0]) + 2*bits.OnesCount64(s&w[1]) + 4*bits.OnesCount64(s&w[2]) +
			8*bits.OnesCount64(s&w[3])
	}
	return factor * (2*(p.low*float32(ones)+p.step*float32(sum)) - p.total)
}

// cosine is the product with a vector of 8-bit integers (as bytes of a record).
func (p *probe) cosine(scale float32, values []byte) float64 {
	v := p.vector[:len(values)]
	var a, b, c, d float32
	i := 0
	for ; i+4 <= len(values); i += 4 {
		a += v[i] * float32(int8(values[i]))
		b += v[i+1] * float32(int8(values[i+1]))
		c += v[i+2] * float32(int8(values[i+2]))
		d += v[i+3] * float32(int8(values[i+3]))
	}
	for ; i < len(values); i++ {
		a += v[i] * float32(int8(values[i]))
	}
	return float64(a+b+c+d) * float64(scale)
}
