package embeddingtest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/ai/embedding"
	"agentplatform/internal/proof/recording"
)

// conversations are recorded with a mock of providers by other authors, which has one vector for all texts of a
// request.
func conversations(open func(address string) embedding.Model) []recording.Conversation {
	ask := func(t *testing.T, address string, texts ...string) (embedding.Reply, error) {
		r := embedding.Request{Name: "some-model", Dimensions: 4, Purpose: embedding.ForDocument, Texts: texts}
		reply, err := open(address).Embed(t.Context(), r)
		if err == nil {
			Sound(t, r, reply)
		}
		return reply, err
	}
	fails := func(text string, want embedding.Kind, wait time.Duration) func(t *testing.T, address string) {
		return func(t *testing.T, address string) {
			_, err := ask(t, address, text)
			var failure *embedding.Error
			require.ErrorAs(t, err, &failure)
			assert.Equal(t, want, failure.Kind, "%v", err)
			assert.Equal(t, wait, failure.Wait)
			assert.NotContains(t, err.Error(), "127.0.0.1")
		}
	}
	return []recording.Conversation{
		{Name: "vectors", Run: func(t *testing.T, address string) {
			reply, err := ask(t, address, "talk of one thing", "talk of another", "talk of „a third“")
			require.NoError(t, err)
			assert.Equal(t, []float32{0.5, -0.5, 0.5, 0.5}, reply.Vectors[2])
		}},
		{Name: "batches", Run: func(t *testing.T, address string) {
			texts := make([]string, 40)
			for i, text := range Texts(40) {
				texts[i] = "talk: " + text
			}
			_, err := ask(t, address, texts...)
			require.NoError(t, err)
		}},
		{Name: "long", Run: func(t *testing.T, address string) {
			long := "long"
			for _, text := range Texts(20) {
				long += " " + text
			}
			_, err := ask(t, address, long)
			require.NoError(t, err)
		}},
		{Name: "throttled", Run: fails("throttled", embedding.Throttled, 7*time.Second)},
		{Name: "key", Run: fails("key", embedding.BadRequest, 0)},
		{Name: "unknown", Run: fails("unknown", embedding.BadRequest, 0)},
		{Name: "overloaded", Run: fails("overloaded", embedding.Retryable, 0)},
	}
}

// RunRecordings replays an adapter's recordings.
func RunRecordings(t *testing.T, open func(address string) embedding.Model) {
	recording.Play(t, conversations(open))
}
