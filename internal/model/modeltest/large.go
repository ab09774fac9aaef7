package modeltest

import (
	"net/http"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/model"
)

// RunLarge has an adapter read an event that is very many values, which cost a reader far more than they weigh: before and
// behind, what the values stand between in the event.
func RunLarge(t *testing.T, before, behind string, open func(client *http.Client) model.Model) {
	t.Helper()
	for _, one := range []string{`{}`, `[]`, `0`, `""`, `{"type":"text","text":""}`} {
		event := before + strings.Repeat(one+",", (4<<20)/(len(one)+1)) + one + behind
		m := open(Answering("data: " + event + "\n\n"))
		var was, is runtime.MemStats
		runtime.ReadMemStats(&was)
		_, err := m.Converse(t.Context(), model.Request{Name: "m"}, func(string) {})
		runtime.ReadMemStats(&is)
		assert.Equal(t, model.Retryable, model.KindOf(err), one)
		assert.ErrorContains(t, err, "not what its protocol says", one)
		assert.Less(t, is.TotalAlloc-was.TotalAlloc, uint64(64<<20), "%s%s,…%s", before, one, behind)
	}
}

// RunUnreadable has an adapter read events that are none of its provider's: what is said of them is for people who do not
// know how they are read.
func RunUnreadable(t *testing.T, open func(client *http.Client) model.Model, events ...string) {
	t.Helper()
	for _, event := range events {
		m := open(Answering("data: " + event + "\n\n"))
		_, err := m.Converse(t.Context(), model.Request{Name: "m"}, func(string) {})
		require.Error(t, err, event)
		assert.Equal(t, model.Retryable, model.KindOf(err), event)
		for _, word := range []string{"json", "Go", "struct", "unmarshal", "chunk", "int64", "model.", "decode", "invalid character"} {
			assert.NotContains(t, err.Error(), word, event)
		}
	}
}
