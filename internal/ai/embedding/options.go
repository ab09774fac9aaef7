package embedding

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
)

// Options are the settings of a deployment for one model. A setting that is left out is nil.
type Options struct {
	QueryPrefix   *string  `json:"query_prefix"`   // stands before each query
	PassagePrefix *string  `json:"passage_prefix"` // stands before each passage
	Weight        *float64 `json:"weight"`         // of a rank by meaning, where a rank by words weighs 1
}

// maxPrefix limits a prefix, in characters.
const maxPrefix = 500

// ParseOptions reads a JSON object of options by provider/name; an empty text has none. The error names the first
// model that is not one of names, or the first value that is out of range.
func ParseOptions(text string, names []Name) (map[string]Options, error) {
	all := map[string]Options{}
	if text == "" {
		return all, nil
	}
	in := json.NewDecoder(strings.NewReader(text))
	in.DisallowUnknownFields()
	if err := in.Decode(&all); err != nil {
		return nil, fmt.Errorf("must be a JSON object of options by provider/name: %w", err)
	}
	if _, err := in.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("must be one JSON object")
	}
	for full, o := range all {
		offered := func(n Name) bool { return n.Provider+"/"+n.Name == full }
		if !slices.ContainsFunc(names, offered) {
			return nil, fmt.Errorf("has %q, which is not in EMBEDDING_MODELS", full)
		}
		for _, prefix := range []*string{o.QueryPrefix, o.PassagePrefix} {
			if prefix != nil && utf8.RuneCountInString(*prefix) > maxPrefix {
				return nil, fmt.Errorf("has a prefix of more than %d characters for %q", maxPrefix, full)
			}
		}
		if o.Weight != nil && !(*o.Weight >= 0 && *o.Weight <= 1) {
			return nil, fmt.Errorf("has a weight for %q that is not between 0 and 1", full)
		}
	}
	return all, nil
}

// Prefixes returns the prefixes of queries and passages of a model. They are those of the options, or else those that
// its makers publish.
func (o Options) Prefixes(name string) (query, passage string) {
	for _, f := range families {
		if f.names.MatchString(strings.ToLower(name)) {
			query, passage = f.query, f.passage
			break
		}
	}
	if o.QueryPrefix != nil {
		query = *o.QueryPrefix
	}
	if o.PassagePrefix != nil {
		passage = *o.PassagePrefix
	}
	return query, passage
}

const (
	instruct = "Instruct: Given a web search query, retrieve relevant passages that answer the query\nQuery:"
	sentence = "Represent this sentence for searching relevant passages: "
)

// families are models with the prefixes that their model cards publish. The first that matches counts.
var families = []struct {
	names          *regexp.Regexp
	query, passage string
}{
	{regexp.MustCompile(`\be5\b.*instruct`), instruct + " ", ""},
	{regexp.MustCompile(`\be5\b`), "query: ", "passage: "},
	{regexp.MustCompile(`nomic-embed-text`), "search_query: ", "search_document: "},
	{regexp.MustCompile(`bge-(small|base|large)-zh`), "为这个句子生成表示以用于检索相关文章：", ""},
	{regexp.MustCompile(`bge-(small|base|large)|mxbai-embed-large`), sentence, ""},
	{regexp.MustCompile(`qwen3-embedding`), instruct, ""},
	{regexp.MustCompile(`embeddinggemma`), "task: search result | query: ", "title: none | text: "},
}
