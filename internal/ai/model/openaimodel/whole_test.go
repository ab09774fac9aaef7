package openaimodel_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/assert"

	"agentplatform/internal/ai/model"
	"agentplatform/internal/ai/model/openaimodel"
)

// llama-cpp-python and other servers on Starlette check a request after they have begun the stream. A refused request
// breaks the stream without an event. Without a stream they answer with the reason.
func TestAStreamThatBreaksBeforeItsFirstEventIsAskedForWhole(t *testing.T) {
	breaks := func(w http.ResponseWriter) {
		w.Header().Set("Content-Type", "text/event-stream")
		w.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	}
	hangsUp := func(http.ResponseWriter) { panic(http.ErrAbortHandler) }
	tooLong := func(w http.ResponseWriter) {
		http.Error(w, `{"error":{"message":"no","code":"context_length_exceeded"}}`, http.StatusBadRequest)
	}
	answers := func(w http.ResponseWriter) {
		_, _ = io.WriteString(w, `{"choices":[{"message":{"content":"Hi"},"finish_reason":"stop"}]}`)
	}
	for name, c := range map[string]struct {
		stream, whole func(w http.ResponseWriter)
		kinds         []model.Kind // of the calls one after another
		streamed      []bool       // with a stream
	}{
		"a full window": {breaks, tooLong, []model.Kind{model.Retryable, model.TooLong, model.Retryable},
			[]bool{true, false, true}},
		"after a comment": {func(w http.ResponseWriter) {
			_, _ = io.WriteString(w, ": ping\n\n")
			breaks(w)
		}, tooLong, []model.Kind{model.Retryable, model.TooLong}, []bool{true, false}},
		"an empty answer": {func(http.ResponseWriter) {}, answers, []model.Kind{model.Retryable, ""},
			[]bool{true, false}},
		"both break": {breaks, hangsUp, []model.Kind{model.Retryable, model.Retryable, model.Retryable},
			[]bool{true, false, true}},
		"both are empty": {breaks, breaks, []model.Kind{model.Retryable, model.Retryable, model.Retryable},
			[]bool{true, false, true}},
		"after an event": {func(w http.ResponseWriter) {
			_, _ = io.WriteString(w, `data: {"choices":[{"delta":{"content":"Hi"}}]}`+"\n\n")
			breaks(w)
		}, nil, []model.Kind{model.Retryable, model.Retryable}, []bool{true, true}},
		"refusals":  {tooLong, nil, []model.Kind{model.TooLong, model.TooLong}, []bool{true, true}},
		"no stream": {answers, nil, []model.Kind{"", ""}, []bool{true, true}},
	} {
		t.Run(name, func(t *testing.T) {
			requests := make(chan bool, len(c.kinds))
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				var request struct {
					Stream  bool `json:"stream"`
					Options any  `json:"stream_options"`
				}
				assert.NoError(t, json.NewDecoder(r.Body).Decode(&request))
				assert.Equal(t, request.Stream, request.Options != nil, "OpenAI refuses these options without a stream")
				requests <- request.Stream
				if request.Stream {
					c.stream(w)
				} else {
					c.whole(w)
				}
			}))
			defer server.Close()
			m := openaimodel.New(server.URL, "", server.Client())
			for _, kind := range c.kinds {
				reply, err := m.Converse(t.Context(), model.Request{Name: "m"}, func(string) {})
				assert.Equal(t, kind, model.KindOf(err), "%v", err)
				assert.Equal(t, err == nil, reply.Text == "Hi")
			}
			var streamed []bool
			for range c.kinds {
				streamed = append(streamed, <-requests)
			}
			assert.Equal(t, c.streamed, streamed)
		})
	}
}
