package main

import (
	"context"
	"errors"
	"os"

	"agentplatform/internal/ai/embedding"
	"agentplatform/internal/ai/embedding/builtinembedding"
	"agentplatform/internal/ai/embedding/openaiembedding"
	"agentplatform/internal/ai/providerhttp"
	"agentplatform/internal/text/ranking"
)

// measured is an embedding model, with the prefixes of its texts and its weight in hybrid searches.
type measured struct {
	embedding.Model

	name, query, passage string
	trust                ranking.Trust
	known                map[string][]float32 // vectors, by prefixed text
}

// model is the embedding model that is measured.
var model = measured{
	Model: builtinembedding.New(), name: builtinembedding.Name, trust: ranking.Lexical, known: map[string][]float32{},
}

// behind returns the model with a name behind an endpoint. Its key is in the environment.
func behind(endpoint, name string, o embedding.Options) measured {
	m := measured{
		Model: openaiembedding.New(endpoint, os.Getenv("OPENAI_API_KEY"), providerhttp.Client()),
		name:  name, trust: ranking.Full, known: map[string][]float32{},
	}
	m.query, m.passage = o.Prefixes(name)
	if o.Weight != nil {
		m.trust = ranking.Trust{Weight: *o.Weight}
	}
	return m
}

// real reports whether the model knows the meaning of words.
func (m measured) real() bool { return m.trust != ranking.Lexical }

func (m measured) embed(ctx context.Context, purpose embedding.Purpose, texts []string) ([][]float32, error) {
	prefix := m.passage
	if purpose == embedding.ForQuery {
		prefix = m.query
	}
	var unknown []string
	for _, t := range texts {
		if m.known[prefix+t] == nil {
			unknown = append(unknown, prefix+t)
		}
	}
	if len(unknown) > 0 {
		reply, err := m.Embed(ctx, embedding.Request{Name: m.name, Purpose: purpose, Texts: unknown})
		if err != nil {
			return nil, err
		}
		if len(reply.Vectors) != len(unknown) {
			return nil, errors.New("a wrong number of vectors")
		}
		for i, t := range unknown {
			m.known[t] = reply.Vectors[i]
		}
	}
	vectors := make([][]float32, len(texts))
	for i, t := range texts {
		vectors[i] = m.known[prefix+t]
	}
	return vectors, nil
}
