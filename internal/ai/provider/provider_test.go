package provider_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/ai/model"
	"agentplatform/internal/ai/provider"
	"agentplatform/internal/platform/host"
)

// listed is a provider that only lists its models.
type listed struct {
	names    []string
	down     error
	requests int
}

func (l *listed) List(context.Context) ([]model.Info, error) {
	l.requests++
	var infos []model.Info
	for _, n := range l.names {
		infos = append(infos, model.Info{Name: n})
	}
	return infos, l.down
}

func TestAnAgentsModelMustBeOneThatCanBeReached(t *testing.T) {
	near, away := &listed{names: []string{"small", "large"}}, &listed{down: errors.New("connection refused")}
	set := &provider.Set{Host: host.System(),
		Catalogues: map[string]model.Catalogue{"demo": &listed{}, "near": near, "away": away}}
	check := func(provider, name string, skip bool) error { return set.Check(t.Context(), provider, name, skip) }
	require.NoError(t, check("near", "small", false))
	require.NoError(t, check("demo", "", false))
	require.NoError(t, check("away", "any", true))
	require.NoError(t, check("near", "unlisted", true))
	for _, c := range []struct{ provider, name, wantErr string }{
		{"else", "x", "body.model.provider: must be one of away, demo, near"},
		{"near", "", "body.model.name: is required"},
		{"near", "medium", `near has no model "medium"`},
		{"away", "any", "connection refused"},
	} {
		assert.ErrorContains(t, check(c.provider, c.name, false), c.wantErr)
	}
	require.Error(t, check("else", "x", true), "a provider that does not exist cannot be skipped over")
	assert.Equal(t, 1, near.requests, "a list is remembered for a while")
}

// The first example of the documentation failed with Ollama.
func TestAModelIsFoundByItsShortName(t *testing.T) {
	set := &provider.Set{Host: host.System(), Catalogues: map[string]model.Catalogue{"near": &listed{names: []string{
		"qwen3:latest", "llama3.1:8b", "plain", "hf.co/a/b-GGUF:latest", "models/gemini-flash"}}}}
	for name, want := range map[string]bool{
		"qwen3": true, "qwen3:latest": true, "plain": true, "plain:latest": true, "llama3.1:8b": true,
		"hf.co/a/b-GGUF": true, "gemini-flash": true, "models/gemini-flash": true,
		"llama3.1": false, "qwen3:8b": false, "qwen": false, ":latest": false, "qwen3:": false, "QWEN3": false,
	} {
		assert.Equal(t, want, set.Check(t.Context(), "near", name, false) == nil, name)
	}
}

func TestAnUnreachableProviderDoesNotHideOthers(t *testing.T) {
	set := &provider.Set{Host: host.System(), Catalogues: map[string]model.Catalogue{
		"near": &listed{names: []string{"small"}}, "away": &listed{down: errors.New("connection refused")},
	}}
	l, err := set.List(t.Context())
	require.NoError(t, err)
	assert.Equal(t, []provider.Model{{Provider: "near", Info: model.Info{Name: "small"}}}, l.Models)
	assert.Equal(t, map[string]string{"away": "connection refused"}, l.Unreachable)
}
