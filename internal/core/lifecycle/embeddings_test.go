package lifecycle

import (
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestEmbeddingsAreCountedByModel(t *testing.T) {
	one := Embeddings{}.With(Embedded{"p/b", 2}, Embedded{"p/a", 1}, Embedded{"p/c", 0}, Embedded{"p/a", -5})
	two := one.With(one...)
	assert.Equal(t, Embeddings{{"p/a", 1}, {"p/b", 2}}, one, "what is copied stays")
	assert.Equal(t, Embeddings{{"p/a", 2}, {"p/b", 4}}, two)
	assert.Equal(t, int64(6), two.Tokens())
	assert.Nil(t, Embeddings(nil).With())

	var many Embeddings
	for n := range 3 * MaxEmbeddings {
		many = many.With(Embedded{strconv.Itoa(n), 1})
	}
	assert.Len(t, many, MaxEmbeddings+1, "and those that found no room")
	assert.Equal(t, Embedded{"", 2 * MaxEmbeddings}, many[0])
	assert.Equal(t, int64(3*MaxEmbeddings), many.Tokens())
}
