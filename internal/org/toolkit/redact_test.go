package toolkit_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/ai/tool"
	"agentplatform/internal/org/toolkit"
	"agentplatform/internal/store/record"
)

// Credentials that a server repeats, in any encoding, are removed from everything that others read.
func TestCredentialsThatAServerRepeatsAreRemoved(t *testing.T) {
	const word = `Qs+/E"c<r&é t=x`
	header := word[:len(word)-2] + "xyz" // any character that is valid in a header
	for name, c := range map[string]tool.Credentials{
		"query": {Type: "query", Name: "api_key", Value: word}, "header": {Type: "header", Name: "X-Word",
			Value: "Bearer abcdefg12345"},
		"another header": {Type: "header", Name: "X-Word", Value: header}, "bearer": {Type: "bearer",
			Token: "QSECRETQSECRET"},
		"basic":                    {Type: "basic", Username: "somebody", Password: "p/a+ss:word"},
		"basic without a password": {Type: "basic", Username: "sk_live_1?a"},
	} {
		for _, status := range []int{200, 500} {
			t.Run(fmt.Sprintf("%s/%d", name, status), func(t *testing.T) {
				server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					w.WriteHeader(status)
					user, password, _ := r.BasicAuth()
					plain, _ := url.QueryUnescape(r.URL.RawQuery)
					echoed := []any{
						r.URL.String(),
						plain,
						r.Header,
						user,
						password,
						url.PathEscape(r.Header.Get("X-Word")),
					}
					asJSON, _ := json.Marshal(append(echoed, r.URL.Query()))
					_, _ = fmt.Fprintln(
						w,
						echoed,
						string(asJSON),
						strings.TrimRight(r.Header.Get("Authorization"), "="),
						r.Header.Get("X-Word"),
					)
				}))
				defer server.Close()
				s := reach(t, &site{Server: server})
				e, err := s.Create(t.Context(), "o", toolkit.Draft{
					Kind:        "http",
					Name:        text("n"),
					URL:         text(server.URL + "/act"),
					Request:     &tool.HTTPRequest{Name: "act"},
					Credentials: &c,
				})
				require.NoError(t, err)
				attempt, err := s.TestCall(t.Context(), record.Of("o"), e.Value.ID, "act", []byte(`{}`), gladly)
				require.NoError(t, err)
				got := attempt.Result + attempt.Error
				offers, err := s.Open(t.Context(), "o", []string{e.Value.ID})
				require.NoError(t, err)
				result, err := offers[0].Call(t.Context(), tool.Invocation{Arguments: []byte(`{}`)})
				got += result.Text + fmt.Sprint(err)
				assert.Contains(t, got, "/act", "the rest is told")
				assert.Contains(t, got, "[credentials]")
				for _, secret := range []string{c.Token, c.Value, c.Password, strings.TrimPrefix(c.Value, "Bearer ")} {
					if secret == "" {
						continue
					}
					inJSON, _ := json.Marshal(secret)
					for _, form := range []string{secret, url.QueryEscape(secret), url.PathEscape(secret),
						strings.Trim(string(inJSON), `"`)} {
						assert.NotContains(t, got, form)
					}
				}
				pair := base64.StdEncoding.EncodeToString([]byte(c.Username + ":" + c.Password))
				assert.NotContains(t, got, strings.TrimRight(pair, "="))
				if c.Password == "" && c.Username != "" {
					assert.NotContains(t, got, c.Username)
				}
			})
		}
	}
}

// textKind is a kind that returns a text in every field.
type textKind struct {
	text string
	err  error
}

func (k textKind) Discover(context.Context, tool.Endpoint) ([]tool.Definition, error) {
	return []tool.Definition{{Spec: tool.Spec{Name: "act", Description: k.text, Parameters: []byte(`{}`)}}}, k.err
}

func (k textKind) Call(context.Context, tool.Endpoint, tool.Definition, tool.Invocation) (tool.Result, error) {
	return tool.Result{
		Text:  k.text,
		Files: []tool.File{{Name: k.text, ContentType: k.text, Data: []byte("\xff" + k.text)}},
	}, k.err
}

func (k textKind) Browse(context.Context, tool.Endpoint) (tool.Offerings, error) {
	return tool.Offerings{
		Resources: []tool.Resource{{URI: k.text, Name: k.text, Description: k.text, ContentType: k.text}},
		Prompts:   []tool.Prompt{{Name: k.text, Description: k.text, Arguments: []string{k.text}}},
	}, k.err
}

func TestNoFieldOfAKindLeaksCredentials(t *testing.T) {
	const secret = "QSECRETQSECRET"
	s := newToolkits(t, &kind{})
	scope, message := record.Of("o"), "it is "+secret+", and once more "+secret
	s.Kinds["mcp"] = textKind{text: message}
	one := made(
		t,
		s,
		toolkit.Draft{
			Name:        text("kit"),
			URL:         text("https://a.example.com"),
			Credentials: &tool.Credentials{Type: "bearer", Token: secret},
		},
	)
	assertRedacted := func(all ...any) {
		t.Helper()
		assert.NotContains(t, fmt.Sprint(all...), secret[:8])
	}
	call := func() (tool.Result, error) {
		offers, err := s.Open(t.Context(), "o", []string{one.ID})
		require.NoError(t, err)
		return offers[0].Call(t.Context(), tool.Invocation{})
	}
	assertRedacted(only(t, s, one.ID, "act").Description)
	found, err := s.Browse(t.Context(), scope, one.ID)
	require.NoError(t, err)
	assertRedacted(found)
	result, err := call()
	require.NoError(t, err)
	require.Len(t, result.Files, 1)
	assertRedacted(result.Text, result.Files[0].Name, result.Files[0].ContentType, string(result.Files[0].Data))

	for _, failure := range []error{tool.Fail("%s", message), tool.Fail("%s", tool.Clip(message, len(message)-3)),
		fmt.Errorf("within: %w", errors.New(message))} {
		s.Kinds["mcp"] = textKind{err: failure}
		_, err = call()
		assertRedacted(err)
		var is *tool.Error
		assert.Equal(t, errors.As(failure, &is), errors.As(err, &is))
		_, err = s.Browse(t.Context(), scope, one.ID)
		assertRedacted(err)
		_, err = s.Refresh(t.Context(), scope, one.ID)
		assertRedacted(err)
	}
	s.Kinds["mcp"] = textKind{err: context.Canceled}
	_, err = call()
	require.ErrorIs(t, err, context.Canceled)
}
