package modeltest

import (
	"bufio"
	"bytes"
	_ "embed"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/ai/model"
)

// Refusal is what a server answers to a call that it cannot serve.
type Refusal struct {
	Server string     `json:"server"`
	Status int        `json:"status"`
	Kind   model.Kind `json:"kind"`
	Body   string     `json:"-"`
}

//go:embed refusals.jsonl
var refusals []byte

// Refusals are answers to conversations that do not fit the model's window, and answers that are like them but mean
// another limit. There is one line for each server and form of words, as it was reported in public; lines that name no
// product have forms that these could have, too.
func Refusals(t testing.TB) (list []Refusal) {
	t.Helper()
	for lines := bufio.NewScanner(bytes.NewReader(refusals)); lines.Scan(); {
		var r struct {
			Refusal

			Body json.RawMessage `json:"body"` // JSON as it is, another text as a string
		}
		require.NoError(t, json.Unmarshal(lines.Bytes(), &r), "%s", lines.Text())
		if json.Unmarshal(r.Body, &r.Refusal.Body) != nil {
			r.Refusal.Body = string(r.Body)
		}
		list = append(list, r.Refusal)
	}
	require.NotEmpty(t, list)
	return list
}

// RunRefusals lets an adapter be answered each of [Refusals]: as an error response, as an event of a stream, and as an
// answer with the status 200. Open makes the adapter for a client; reports are the beginnings of the members by which
// an event of its provider reports a failure.
func RunRefusals(t *testing.T, open func(client *http.Client) model.Model, reports ...string) {
	t.Helper()
	kindOf := func(status int, body string) model.Kind {
		client := &http.Client{Transport: refusal{status, body}}
		_, err := open(client).Converse(t.Context(), model.Request{Name: "m"}, func(string) {})
		return model.KindOf(err)
	}
	for _, r := range Refusals(t) {
		t.Run(r.Server, func(t *testing.T) {
			assert.Equal(t, r.Kind, kindOf(r.Status, r.Body))
			isTooLong := r.Kind == model.TooLong
			if strings.HasPrefix(r.Body, "{") && hasAny(r.Body, reports...) {
				within := kindOf(http.StatusOK, "event: error\ndata: "+r.Body+"\n\n")
				assert.Equal(t, isTooLong, within == model.TooLong, "in a stream: %s", within)
			}
			if strings.HasPrefix(r.Body, "{") && hasAny(r.Body, `"error":`, `"errors":`, `"object":"error"`,
				`"base_resp":`, `"error_code":`) {
				whole := kindOf(http.StatusOK, r.Body)
				assert.Equal(t, isTooLong, whole == model.TooLong, "with 200: %s", whole)
			}
		})
	}
}

func hasAny(text string, parts ...string) bool {
	return slices.ContainsFunc(parts, func(part string) bool { return strings.Contains(text, part) })
}

type refusal struct {
	status int
	body   string
}

func (a refusal) RoundTrip(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	w.WriteHeader(a.status)
	_, _ = io.WriteString(w, a.body)
	answer := w.Result()
	answer.Request = r
	return answer, nil
}
