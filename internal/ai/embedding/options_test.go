package embedding_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/ai/embedding"
)

// Models of known families have the prefixes that their makers publish, by the names that servers give them.
func TestKnownFamiliesHaveTheirPrefixes(t *testing.T) {
	for name, want := range map[string][2]string{
		"intfloat/multilingual-e5-small":            {"query: ", "passage: "},
		"e5-base-v2":                                {"query: ", "passage: "},
		"jeffh/intfloat-multilingual-e5-large:q8_0": {"query: ", "passage: "},
		"nomic-embed-text:v1.5":                     {"search_query: ", "search_document: "},
		"BAAI/bge-large-en-v1.5":                    {"Represent this sentence for searching relevant passages: ", ""},
		"mxbai-embed-large":                         {"Represent this sentence for searching relevant passages: ", ""},
		"BAAI/bge-base-zh-v1.5":                     {"为这个句子生成表示以用于检索相关文章：", ""},
		"bge-m3":                                    {"", ""},
		"embeddinggemma:300m":                       {"task: search result | query: ", "title: none | text: "},
		"text-embedding-3-small":                    {"", ""},
		"amazon.titan-embed-text-v2:0":              {"", ""},
		"gte5-base":                                 {"", ""},
	} {
		query, passage := embedding.Options{}.Prefixes(name)
		assert.Equal(t, want, [2]string{query, passage}, name)
	}
	for _, name := range []string{"Qwen/Qwen3-Embedding-0.6B", "multilingual-e5-large-instruct"} {
		query, passage := embedding.Options{}.Prefixes(name)
		assert.Contains(t, query, "Instruct: ", name)
		assert.Empty(t, passage, name)
	}
}

// Options count before the table, also an empty prefix.
func TestOptionsCountBeforeTheTable(t *testing.T) {
	names := []embedding.Name{{Provider: "openai", Name: "e5-small"}, {Provider: "openai", Name: "m", Dimensions: 64}}
	all, err := embedding.ParseOptions(
		`{"openai/e5-small": {"query_prefix": ""}, "openai/m": {"passage_prefix": "p: ", "weight": 0}}`, names)
	require.NoError(t, err)
	query, passage := all["openai/e5-small"].Prefixes("e5-small")
	assert.Equal(t, [2]string{"", "passage: "}, [2]string{query, passage})
	query, passage = all["openai/m"].Prefixes("m")
	assert.Equal(t, [2]string{"", "p: "}, [2]string{query, passage})
	assert.Zero(t, *all["openai/m"].Weight)
	assert.Nil(t, all["openai/e5-small"].Weight)
	for text, wrong := range map[string]string{
		`{"openai/other": {}}`:              `has "openai/other", which is not in EMBEDDING_MODELS`,
		`{"openai/m": {"weight": 1.1}}`:     `has a weight for "openai/m" that is not between 0 and 1`,
		`{"openai/m": {"weight": "1"}}`:     "must be a JSON object of options by provider/name",
		`{"openai/m": {"prefix": "query"}}`: `unknown field "prefix"`,
		`{} {}`:                             "must be one JSON object",
		`[]`:                                "must be a JSON object",
	} {
		_, err := embedding.ParseOptions(text, names)
		assert.ErrorContains(t, err, wrong, text)
	}
}
