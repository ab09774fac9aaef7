package embedding_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/ai/embedding"
)

var providers = []string{"builtin", "openai", "bedrock"}

func TestNamesAreRead(t *testing.T) {
	for text, want := range map[string]embedding.Name{
		"builtin/lexical-1":                    {Provider: "builtin", Name: "lexical-1"},
		"builtin/lexical-1:256":                {Provider: "builtin", Name: "lexical-1", Dimensions: 256},
		"openai/BAAI/bge-m3":                   {Provider: "openai", Name: "BAAI/bge-m3"},
		"openai/nomic-embed-text:latest":       {Provider: "openai", Name: "nomic-embed-text:latest"},
		"openai/nomic-embed-text:latest:768":   {Provider: "openai", Name: "nomic-embed-text:latest", Dimensions: 768},
		"bedrock/amazon.titan-embed-text-v2:0": {Provider: "bedrock", Name: "amazon.titan-embed-text-v2:0"},
		"bedrock/amazon.titan-embed-text-v2:0:256": {Provider: "bedrock", Name: "amazon.titan-embed-text-v2:0",
			Dimensions: 256},
		"openai/x:4096": {Provider: "openai", Name: "x", Dimensions: 4096},
		"openai/x:64":   {Provider: "openai", Name: "x", Dimensions: 64},
	} {
		for _, written := range []string{text, " " + text + "\t"} {
			got, err := embedding.ParseName(written, providers)
			require.NoError(t, err, written)
			assert.Equal(t, want, got, written)
			assert.Equal(t, text, got.String())
		}
	}
}

func TestNamesThatAreNoneAreRefused(t *testing.T) {
	for text, want := range map[string]string{
		"":              `"" must begin with builtin/, openai/ or bedrock/`,
		"builtin":       `"builtin" must have a model after the provider`,
		"openai/":       `"openai/" must have a model after the provider`,
		"openai/:512":   `"openai/:512" must have a model after the provider`,
		"cohere/embed":  `"cohere/embed" must begin with builtin/, openai/ or bedrock/`,
		"OpenAI/x":      `"OpenAI/x" must begin with builtin/, openai/ or bedrock/`,
		"openai/x:63":   `"openai/x:63" has 63 dimensions: they must be 64 to 4096`,
		"openai/x:4097": `"openai/x:4097" has 4097 dimensions: they must be 64 to 4096`,
		"openai/x:99999999999999999999": `"openai/x:99999999999999999999" has 99999999999999999999 ` +
			`dimensions: they must be 64 to 4096`,
		"openai/x y":    `"openai/x y" must have a model name of at most 256 bytes without spaces`,
		"openai/x\x00y": `"openai/x\x00y" must have a model name of at most 256 bytes without spaces`,
	} {
		_, err := embedding.ParseName(text, providers)
		assert.EqualError(t, err, want, text)
	}
	_, err := embedding.ParseName("openai/"+strings.Repeat("x", 257), providers)
	assert.ErrorContains(t, err, "at most 256 bytes")
}

func TestListsNameEachModelOnce(t *testing.T) {
	names, err := embedding.ParseNames([]string{"openai/a:128", "openai/a", " builtin/lexical-1"}, providers)
	require.NoError(t, err)
	assert.Equal(t, []embedding.Name{{Provider: "openai", Name: "a", Dimensions: 128}, {Provider: "openai", Name: "a"},
		{Provider: "builtin", Name: "lexical-1"}}, names)
	_, err = embedding.ParseNames([]string{"openai/a", "openai/b", " openai/a"}, providers)
	require.EqualError(t, err, `" openai/a" stands twice`)
	_, err = embedding.ParseNames([]string{"openai/a", ""}, providers)
	require.Error(t, err)
	names, err = embedding.ParseNames(nil, providers)
	require.NoError(t, err)
	assert.Empty(t, names)
}

// FuzzParseName: a name that was written is read as the same name.
func FuzzParseName(f *testing.F) {
	for _, text := range []string{"openai/x", "openai/x:512", "bedrock/a:0:256", "builtin/:", "openai/x:064",
		"openai/x:12:12"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		n, err := embedding.ParseName(text, providers)
		if err != nil {
			return
		}
		again, err := embedding.ParseName(n.String(), providers)
		require.NoError(t, err)
		assert.Equal(t, n, again)
	})
}
