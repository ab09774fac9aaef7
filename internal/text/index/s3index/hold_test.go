package s3index

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// The held samples are bounded by their terms: the oldest are removed.
func TestSamplesThatAreHeldAreBounded(t *testing.T) {
	x := New(nil, "vectors", Options{Now: func() time.Time { return time.Unix(100, 0) }})
	large := func(taken int64) *sample {
		s := newSample()
		s.taken = time.Unix(taken, 0)
		s.terms = mostHeld/bytesOfPost/2 + 1
		return s
	}
	small := newSample()
	small.taken = time.Unix(50, 0)
	x.keep("small", small)
	x.keep("old", large(10))
	assert.NotNil(t, x.held("old", false))
	x.keep("new", large(90))
	assert.Nil(t, x.held("old", false))
	assert.NotNil(t, x.held("small", false))
	assert.NotNil(t, x.held("new", false))
}
