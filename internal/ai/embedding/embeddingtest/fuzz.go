package embeddingtest

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"agentplatform/internal/ai/embedding"
)

// answering answers every request with this body.
type answering string

func (a answering) RoundTrip(r *http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}},
		Body: io.NopCloser(strings.NewReader(string(a))), Request: r}, nil
}

// FuzzReply lets an adapter read arbitrary bodies: the result must be a sound reply, or an error of the port. The
// corpus starts with proper replies of the protocol.
func FuzzReply(f *testing.F, p Protocol, open func(client *http.Client) embedding.Model) {
	for _, vector := range []string{List(VectorOf("x", 4)), "[1]", "[0,0]", "[null]", `"AACAPw=="`, "[1e38,1e-45]",
		"{}"} {
		for count := range 4 {
			f.Add(p.Write(strings.Split(strings.Repeat(vector+"\n", count), "\n")[:count], int64(count)))
		}
	}
	f.Fuzz(func(t *testing.T, body string) {
		m := open(&http.Client{Transport: answering(body)})
		r := embedding.Request{Name: p.Name, Texts: []string{"x", "y"}}
		reply, err := m.Embed(t.Context(), r)
		if err != nil {
			assert.NotEmpty(t, embedding.KindOf(err), "%v", err)
			assert.Empty(t, reply.Vectors)
			return
		}
		Sound(t, r, reply)
	})
}
