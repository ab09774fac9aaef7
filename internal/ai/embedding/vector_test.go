package embedding_test

import (
	"encoding/json"
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/ai/embedding"
)

func TestUnitScalesWhatHasADirection(t *testing.T) {
	inf, nan := float32(math.Inf(1)), float32(math.NaN())
	for _, v := range [][]float32{{3, 4}, {-3, 4}, {0, 0, 1e-45}, {math.MaxFloat32, math.MaxFloat32}, {1}} {
		assert.True(t, embedding.Unit(v), "%v", v)
		sum := 0.0
		for _, x := range v {
			sum += float64(x) * float64(x)
		}
		assert.InDelta(t, 1, sum, 1e-6)
	}
	for _, v := range [][]float32{nil, {}, {0}, {0, 0}, {nan}, {1, inf}, {1, -inf, nan}} {
		assert.False(t, embedding.Unit(v), "%v", v)
	}
}

// FuzzNumbers compares the parser with the library's: the library reads the same numbers from each list that is
// accepted.
func FuzzNumbers(f *testing.F) {
	for _, text := range []string{"[1,2]", "[ -0.5 ,1e3 ]", "[]", "[null]", `"AACAPw=="`, `"AA\/APw=="`, "{}",
		"[[1]]", "7", "[1e39]", "[1,2", `[1,"2"]`, "[0x1]", "[1_0]", "[Inf]"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var got embedding.Numbers
		if json.Unmarshal([]byte(text), &got) != nil || len(got) == 0 || !json.Valid([]byte(text)) {
			return
		}
		assert.LessOrEqual(t, len(got), embedding.MaxDimensions)
		var plain []*float32
		if json.Unmarshal([]byte(text), &plain) != nil {
			assert.Contains(t, text, `"`, "only base64 is no list")
			return
		}
		require.Len(t, plain, len(got))
		for i, x := range plain {
			require.NotNil(t, x, "a null is no number")
			assert.Equal(t, *x, got[i])
		}
	})
}
