package modeltest

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"agentplatform/internal/ai/model"
	"agentplatform/internal/proof/recording"
)

type answering string

func (a answering) RoundTrip(r *http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{},
		Body: io.NopCloser(strings.NewReader(string(a))), Request: r}, nil
}

// Answering is a client whose every request is answered with this body.
func Answering(text string) *http.Client { return &http.Client{Transport: answering(text)} }

// FuzzAnswer lets an adapter read arbitrary answers. The result must be an error of the port, or a reply whose text
// equals the emitted pieces. The corpus starts with these answers; without any, with the recorded ones and those of
// [Answers].
func FuzzAnswer(f *testing.F, open func(client *http.Client) model.Model, answers ...string) {
	for _, text := range answers {
		f.Add(text)
	}
	if len(answers) == 0 {
		for _, e := range recording.All(f) {
			f.Add(e.Text)
		}
		for _, a := range Answers(f) {
			f.Add(Provider{}.sent(a))
		}
	}
	f.Fuzz(func(t *testing.T, text string) {
		var pieces strings.Builder
		m := open(Answering(text))
		reply, err := m.Converse(t.Context(), model.Request{Name: "m"},
			func(piece string) { pieces.WriteString(piece) })
		if err != nil {
			assert.NotEmpty(t, model.KindOf(err), "%v", err)
			return
		}
		assert.Contains(t, []string{"stop", "length", "tool_calls"}, reply.Finish)
		assert.Len(t, reply.Text, pieces.Len())
		assert.LessOrEqual(t, len(reply.Text), 3*len(text), "what is no UTF-8 is replaced by three bytes")
		assert.LessOrEqual(t, len(reply.Calls), len(text))
	})
}
