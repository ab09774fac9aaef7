package modeltest

import (
	"net/http"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/ai/model"
)

// RunLarge lets an adapter read an event with very many JSON values, which use far more memory than their bytes. before
// and behind are the bytes around the values in the event.
func RunLarge(t *testing.T, before, behind string, open func(client *http.Client) model.Model) {
	t.Helper()
	for _, one := range []string{`{}`, `[]`, `0`, `""`, `{"type":"text","text":""}`} {
		most := (4 << 20) / (len(one) + 1)
		for _, n := range []int{most, most / 4, most / 16} { // above the limit, and below it
			m := open(Answering("data: " + before + strings.Repeat(one+",", n) + one + behind + "\n\n"))
			var was, is runtime.MemStats
			runtime.ReadMemStats(&was)
			_, err := m.Converse(t.Context(), model.Request{Name: "m"}, func(string) {})
			runtime.ReadMemStats(&is)
			assert.Less(t, is.TotalAlloc-was.TotalAlloc, uint64(128<<20), "%d of %s%s,…%s", n, before, one, behind)
			if n == most && one != `{"type":"text","text":""}` {
				assert.Equal(t, model.Retryable, model.KindOf(err), one)
				assert.ErrorContains(t, err, "does not follow its protocol", one)
			}
		}
	}
}

// RunUnreadable lets an adapter read events that its provider never sends. Clients see the error, so it must not use
// the words of a JSON library.
func RunUnreadable(t *testing.T, open func(client *http.Client) model.Model, events ...string) {
	t.Helper()
	for _, event := range events {
		m := open(Answering("data: " + event + "\n\n"))
		_, err := m.Converse(t.Context(), model.Request{Name: "m"}, func(string) {})
		require.Error(t, err, event)
		assert.Equal(t, model.Retryable, model.KindOf(err), event)
		for _, word := range []string{"json", "Go", "struct", "unmarshal", "chunk", "int64", "model.", "decode",
			"invalid character"} {
			assert.NotContains(t, err.Error(), word, event)
		}
	}
}
