package diskindex

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func unit(r *rand.Rand, dimensions int, nonzero float64) []float32 {
	v := make([]float32, dimensions)
	sum := 0.0
	for i := range v {
		if i == 0 || r.Float64() < nonzero {
			v[i] = float32(r.NormFloat64())
		}
		sum += float64(v[i]) * float64(v[i])
	}
	for i := range v {
		v[i] /= float32(math.Sqrt(sum))
	}
	return v
}

func product(a, b []float32) float64 {
	sum := 0.0
	for i := range a {
		sum += float64(a[i]) * float64(b[i])
	}
	return sum
}

func asBytes(values []int8) []byte {
	b := make([]byte, 0, len(values))
	for _, v := range values {
		b = append(b, byte(v))
	}
	return b
}

// The vectors include some with few numbers besides zeros, like those of hashed features. The error of an estimate is
// random: its bound holds for nearly all pairs of vectors, not for each.
func TestEstimatesAreWithinTheirError(t *testing.T) {
	const pairs = 500
	for _, dimensions := range []int{8, 64, 100, 384, 512, 768} {
		for _, nonzero := range []float64{0.02, 0.2, 1} {
			r := rand.New(rand.NewPCG(uint64(dimensions), 1)) //nolint:gosec // the same pairs each time
			rotation, outside := newRotation(dimensions), 0
			for range pairs {
				v, w := unit(r, dimensions, nonzero), unit(r, dimensions, nonzero)
				mix := 2*r.Float64() - 1
				for i := range w {
					w[i] = float32(mix)*v[i] + float32(1-math.Abs(mix))*w[i]
				}
				length := math.Sqrt(product(v, v) * product(w, w))
				q, p := rotation.quantise(v), rotation.probe(w)
				exact := product(v, w)
				estimate := float64(p.estimate(q.code.signs, q.code.factor, q.code.ones))
				if math.Abs(exact-estimate) > estimateError/math.Sqrt(float64(rotation.size))*length {
					outside++
				}
				assert.InDelta(t, exact, p.cosine(q.scale, asBytes(q.values)), 0.01)
			}
			t.Logf("%d dimensions, %g of them not zero: %d of %d outside", dimensions, nonzero, outside, pairs)
			assert.LessOrEqual(t, outside, pairs/50)
		}
	}
}

func TestARotationKeepsProducts(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, dimensions := range []int{1, 64, 300, 4096} {
		rotation := newRotation(dimensions)
		v, w := unit(r, dimensions, 1), unit(r, dimensions, 1)
		assert.InDelta(t, product(v, w), product(rotation.rotate(v), rotation.rotate(w)), 1e-4)
		require.Equal(t, rotation.rotate(v), newRotation(dimensions).rotate(v), "the same in all processes")
	}
}

func TestAVectorWithoutDirectionIsLikeNothing(t *testing.T) {
	rotation := newRotation(8)
	zero := make([]float32, 8)
	q, p := rotation.quantise(zero), rotation.probe(zero)
	assert.Zero(t, p.estimate(q.code.signs, q.code.factor, q.code.ones))
	one := rotation.probe([]float32{1, 0, 0, 0, 0, 0, 0, 0})
	assert.Zero(t, one.estimate(q.code.signs, q.code.factor, q.code.ones))
	assert.Zero(t, one.cosine(q.scale, asBytes(q.values)))
}

func TestTopKeepsTheHighest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		scores := rapid.SliceOf(rapid.Float32Range(-5, 5)).Draw(t, "scores")
		best := newTop(rapid.IntRange(1, 10).Draw(t, "limit"))
		for i, s := range scores {
			best.add(item{score: s, slot: uint32(i)})
		}
		best.prune()
		best.sort()
		all := newTop(len(scores) + 1)
		for i, s := range scores {
			all.add(item{score: s, slot: uint32(i)})
		}
		all.sort()
		require.Len(t, best.items, min(best.limit, len(scores)))
		for i, kept := range best.items {
			assert.InDelta(t, all.items[i].score, kept.score, 0)
		}
	})
}
