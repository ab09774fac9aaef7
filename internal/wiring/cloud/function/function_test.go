package function

import (
	"math"
	"runtime/debug"
	"testing"

	"github.com/stretchr/testify/assert"
)

// Outside Lambda nothing is limited. In Lambda the limit is three quarters of the function's memory.
func TestTheHeapIsLimitedByTheFunctionsMemory(t *testing.T) {
	before := debug.SetMemoryLimit(math.MaxInt64)
	defer debug.SetMemoryLimit(before)
	t.Setenv("AWS_LAMBDA_FUNCTION_MEMORY_SIZE", "")
	limitMemory()
	assert.EqualValues(t, math.MaxInt64, debug.SetMemoryLimit(-1))
	t.Setenv("AWS_LAMBDA_FUNCTION_MEMORY_SIZE", "224")
	limitMemory()
	assert.EqualValues(t, 168<<20, debug.SetMemoryLimit(-1))
}
