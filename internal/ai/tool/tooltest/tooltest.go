// Package tooltest is the conformance suite of the tool port. Every kind that reaches a server runs all of it.
package tooltest

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/ai/tool"
)

// Harness makes a kind show each behaviour. Each name is of a tool at the endpoint.
type Harness struct {
	Kind     tool.Kind
	Endpoint tool.Endpoint // it requires these credentials

	Echo  string // takes {"message"} and returns it with some text around it
	Fails string // fails with a text of its own; empty: none does
	Hangs string // takes a call without arguments and never answers; empty: none does
	Huge  string // answers with more than tool.MaxResult; empty: none does
	Safe  []string

	// Breaks may take {"message"}; the server reads a call and breaks its connection. Broken counts these calls.
	// Empty: no tool does.
	Breaks string
	Broken func() int
}

// Run runs the conformance suite.
func Run(t *testing.T, h Harness) {
	h.Endpoint.Credentials.Origins = []string{tool.Origin(h.Endpoint.URL)}
	found, err := h.Kind.Discover(t.Context(), h.Endpoint)
	require.NoError(t, err)
	byName := map[string]tool.Definition{}
	for _, d := range found {
		byName[d.Name] = d
	}
	call := func(t *testing.T, ctx context.Context, name, arguments string) (string, error) {
		t.Helper()
		d, there := byName[name]
		require.True(t, there, "no tool %s among %v", name, byName)
		r, err := h.Kind.Call(ctx, h.Endpoint, d,
			tool.Invocation{Name: name, Arguments: json.RawMessage(arguments), IdempotencyKey: "run-1-c"})
		return r.Text, err
	}
	refused := func(t *testing.T, err error) string {
		t.Helper()
		var failure *tool.Error
		require.ErrorAs(t, err, &failure)
		assert.NotContains(t, err.Error(), "127.0.0.1", "addresses are not the model's business")
		assert.NotContains(t, err.Error(), "hunter2", "nor are credentials")
		return err.Error()
	}
	t.Run("what is found can be offered to models", func(t *testing.T) {
		for _, d := range found {
			assert.Equal(t, tool.Name(d.Name), d.Name)
			var schema map[string]any
			require.NoError(t, json.Unmarshal(d.Parameters, &schema), d.Name)
			assert.LessOrEqual(t, len(d.Parameters), tool.MaxSchema)
		}
		for _, name := range h.Safe {
			assert.True(t, byName[name].RetrySafe, name)
		}
	})
	t.Run("a call and its result", func(t *testing.T) {
		text, err := call(t, t.Context(), h.Echo, `{"message":"grüße, \"quoted\" & <tagged>"}`)
		require.NoError(t, err)
		assert.Contains(t, text, `grüße, "quoted" & <tagged>`)
	})
	t.Run("calls beside each other", func(t *testing.T) {
		for _, word := range []string{"alpha", "beta", "gamma", "delta"} {
			t.Run(word, func(t *testing.T) {
				t.Parallel()
				text, err := call(t, t.Context(), h.Echo, `{"message":"`+word+`"}`)
				require.NoError(t, err)
				assert.Contains(t, text, word)
			})
		}
	})
	if h.Fails != "" {
		t.Run("a failure is told", func(t *testing.T) {
			_, err := call(t, t.Context(), h.Fails, `{}`)
			assert.NotEmpty(t, refused(t, err))
		})
	}
	if h.Hangs != "" {
		t.Run("what hangs costs its time and no more", func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
			defer cancel()
			began := time.Now()
			_, err := call(t, ctx, h.Hangs, `{}`)
			assert.Contains(t, refused(t, err), "in time")
			assert.Less(t, time.Since(began), 30*time.Second, "it never answers")
		})
	}
	if h.Huge != "" {
		t.Run("a result without end is cut off", func(t *testing.T) {
			_, err := call(t, t.Context(), h.Huge, `{}`)
			assert.Contains(t, refused(t, err), "over 20 MiB")
		})
	}
	if h.Breaks != "" {
		t.Run("a call whose connection breaks is made once", func(t *testing.T) {
			_, err := call(t, t.Context(), h.Echo, `{"message":"x"}`) // leaves a connection that is used again
			require.NoError(t, err)
			_, err = call(t, t.Context(), h.Breaks, `{"message":"break"}`)
			assert.NotEmpty(t, refused(t, err))
			assert.Equal(t, 1, h.Broken())
			_, err = call(t, t.Context(), h.Breaks, `{}`)
			assert.NotEmpty(t, refused(t, err))
			assert.Equal(t, 2, h.Broken())
		})
	}
	t.Run("credentials that are wrong are refused, and not told", func(t *testing.T) {
		if h.Endpoint.Credentials.Type == "" {
			t.Skip("the endpoint wants none")
		}
		e := h.Endpoint
		e.Credentials.Token, e.Credentials.Password, e.Credentials.Value = "hunter2", "hunter2", "hunter2"
		_, err := h.Kind.Call(t.Context(), e, byName[h.Echo],
			tool.Invocation{Name: h.Echo, Arguments: json.RawMessage(`{"message":"x"}`)})
		refused(t, err)
	})
	t.Run("credentials are for their server alone", func(t *testing.T) {
		if h.Endpoint.Credentials.Type == "" {
			t.Skip("the endpoint wants none")
		}
		e := h.Endpoint
		e.Credentials.Origins = []string{"https://elsewhere.example.com"}
		_, err := h.Kind.Call(t.Context(), e, byName[h.Echo],
			tool.Invocation{Name: h.Echo, Arguments: json.RawMessage(`{"message":"x"}`)})
		assert.Contains(t, refused(t, err), "must be given again")
	})
}
