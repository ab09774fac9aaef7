package httpapi

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/org/tenant"
	"agentplatform/internal/platform/share"
)

// stuck is a client that reads nothing of an answer until a test lets it.
type stuck struct {
	*httptest.ResponseRecorder

	began chan struct{}
	take  chan struct{}
}

func (s *stuck) Write(b []byte) (int, error) {
	if len(b) == pieceSize && s.take != nil {
		s.began <- struct{}{}
		<-s.take
		s.take = nil
	}
	return s.ResponseRecorder.Write(b)
}

func answering(s *Server, organization string, to http.ResponseWriter) *answer {
	c := &Call{Principal: tenant.Principal{Organization: organization, User: "u", Key: "k"}}
	c.answer = &answer{ResponseWriter: to, server: s, call: c, to: http.NewResponseController(to)}
	return c.answer
}

// Large answers that their clients do not read have a common bound, and one for each organization. Over the bound, the
// organization's next answer is a refusal, or, in the middle of a stream, the stream's end.
func TestAnswersThatNobodyTakesAreBounded(t *testing.T) {
	const size = 1 << 20
	s := &Server{answers: share.New(share.Limits{All: 4 * size, Organization: 2 * size})}
	large := bytes.Repeat([]byte("x"), size)
	began, take, done := make(chan struct{}), make(chan struct{}), make(chan struct{})
	for range 2 {
		go func() {
			_, err := answering(s, "a", &stuck{httptest.NewRecorder(), began, take}).Write(large)
			assert.NoError(t, err)
			done <- struct{}{}
		}()
		<-began
	}
	again := httptest.NewRecorder()
	w := answering(s, "a", again)
	w.Header().Set("Content-Type", "text/plain")
	w.Header().Set("ETag", `"1"`)
	w.WriteHeader(http.StatusOK)
	_, err := w.Write(large)
	assert.ErrorIs(t, err, errFull)
	_, err = w.Write([]byte("more"))
	assert.ErrorIs(t, err, errFull)
	w.call.answer.send()
	assert.Equal(t, http.StatusTooManyRequests, again.Code)
	assert.Equal(t, "1", again.Header().Get("Retry-After"))
	assert.Empty(t, again.Header().Get("ETag"))
	var refusal map[string]any
	require.NoError(t, json.Unmarshal(again.Body.Bytes(), &refusal))
	delete(refusal, "message")
	delete(refusal, "detail")
	assert.Equal(t, map[string]any{
		"status": "error", "code": "share_exceeded", "limit": "large_responses", "scope": "organization",
		"max": 2.0 * size, "used": 2.0 * (size - smallBody), "retry_after": 1.0, "request_id": "",
	}, refusal)
	assert.NotContains(t, again.Body.String(), "more")

	under := httptest.NewRecorder()
	stream := answering(s, "a", under)
	_, err = stream.Write([]byte("a beginning, "))
	assert.NoError(t, err)
	_, err = stream.Write(large)
	assert.ErrorIs(t, err, errFull)
	assert.Equal(t, "a beginning, ", under.Body.String())

	for _, c := range []struct{ organization, text string }{{"a", "small"}, {"b", string(large)}} {
		other := httptest.NewRecorder()
		_, err = answering(s, c.organization, other).Write([]byte(c.text))
		assert.NoError(t, err)
		assert.Equal(t, len(c.text), other.Body.Len())
	}
	close(take)
	<-done
	<-done
	_, err = answering(s, "a", httptest.NewRecorder()).Write(large)
	assert.NoError(t, err, "there is room again")
	assert.Zero(t, s.answers.Held())
}

// A page ends by its bytes, too; its first row has room with any size.
func TestAPageEndsByItsBytes(t *testing.T) {
	var p Page
	assert.True(t, p.Takes(strings.Repeat("x", 2*maxPage)))
	assert.False(t, p.Takes("x"))
	p = Page{}
	for range 4 {
		assert.True(t, p.Takes(strings.Repeat("x", maxPage/4-2)))
	}
	assert.False(t, p.Takes(""))
}
