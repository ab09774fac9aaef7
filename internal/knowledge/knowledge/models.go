package knowledge

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"go.opentelemetry.io/otel/attribute"
	oteltrace "go.opentelemetry.io/otel/trace"

	"agentplatform/internal/ai/embedding"
	"agentplatform/internal/org/catalog"
	"agentplatform/internal/platform/problem"
	"agentplatform/internal/platform/trace"
)

// Lexical is the name of the model that needs no network, the only one of the provider [embedding.Builtin].
const (
	Lexical           = "lexical-1"
	builtinDimensions = 512
)

// probeTime limits the question whether a model can be reached.
const probeTime = 10 * time.Second

// Models are the embedding models of a deployment.
type Models struct {
	Providers map[string]embedding.Model // by name; [embedding.Builtin] is always there
	// Offered are those besides the built-in one; the first is the default. Dimensions 0: as the model has them.
	Offered []catalog.EmbeddingModel
}

// NewModels are the models of these providers, by their names, of which knowledge bases may name these.
func NewModels(providers map[string]embedding.Model, offered []embedding.Name) *Models {
	m := &Models{Providers: providers}
	for _, n := range offered {
		m.Offered = append(m.Offered, catalog.EmbeddingModel(n))
	}
	return m
}

var builtin = catalog.EmbeddingModel{Provider: embedding.Builtin, Name: Lexical, Dimensions: builtinDimensions}

// All are the models that a knowledge base may have, the default first.
func (m *Models) All() []catalog.EmbeddingModel { return append(slices.Clone(m.Offered), builtin) }

// Embed asks a model of a knowledge base.
func (m *Models) Embed(
	ctx context.Context, of catalog.EmbeddingModel, purpose embedding.Purpose, texts []string,
) (embedding.Reply, error) {
	model, known := m.Providers[of.Provider]
	if !known {
		return embedding.Reply{}, fmt.Errorf("knowledge: the provider %s is not configured", of.Provider)
	}
	ctx, span := trace.Start(ctx, oteltrace.SpanKindClient, "embeddings", of.Name)
	defer span.End()
	span.SetAttributes(attribute.String("gen_ai.operation.name", "embeddings"),
		attribute.String("gen_ai.provider.name", trace.Provider(of.Provider)),
		attribute.String("gen_ai.request.model", of.Name))
	reply, err := model.Embed(ctx, embedding.Request{
		Name: of.Name, Dimensions: of.Dimensions, Purpose: purpose, Texts: texts,
	})
	span.SetAttributes(attribute.Int64("gen_ai.usage.input_tokens", reply.Tokens),
		attribute.Int("agentplatform.embeddings.texts", len(texts)))
	if err != nil {
		trace.Fail(span, "embedding_failed")
	}
	return reply, err
}

// choose returns the model that a client asks for, or the default, with its dimensions. It returns a problem of kind
// Invalid at body.embedding_model, and of kind Unavailable (embedding_unavailable) when the default cannot be reached:
// another model in its place would find less for the life of the base.
func (m *Models) choose(ctx context.Context, asked *catalog.EmbeddingModel) (catalog.EmbeddingModel, error) {
	if asked != nil {
		return m.asked(ctx, *asked)
	}
	if len(m.Offered) == 0 {
		return builtin, nil
	}
	chosen, err := m.probe(ctx, m.Offered[0])
	if err != nil {
		return chosen, problem.New(problem.Unavailable, "embedding_unavailable",
			"the default embedding model %s cannot be reached: %s. Send the request again later, or name another "+
				"embedding_model", chosen.FullName(), err)
	}
	return chosen, nil
}

func (m *Models) asked(ctx context.Context, asked catalog.EmbeddingModel) (catalog.EmbeddingModel, error) {
	const at = "body.embedding_model"
	if asked.Dimensions != 0 && (asked.Dimensions < embedding.LeastDimensions ||
		asked.Dimensions > embedding.MaxDimensions) {
		return asked, problem.InvalidField(at+".dimensions", "must be between %d and %d", embedding.LeastDimensions,
			embedding.MaxDimensions)
	}
	if asked.Provider == embedding.Builtin {
		if asked.Name != "" && asked.Name != Lexical {
			return asked, problem.InvalidField(at+".name", "the built-in model is called %s", Lexical)
		}
		asked.Name, asked.Dimensions = Lexical, cmp.Or(asked.Dimensions, builtinDimensions)
		return asked, nil
	}
	for _, offered := range m.Offered {
		if offered.Provider != asked.Provider || offered.Name != asked.Name {
			continue
		}
		asked.Dimensions = cmp.Or(asked.Dimensions, offered.Dimensions)
		chosen, err := m.probe(ctx, asked)
		if err != nil {
			return asked, problem.InvalidField(at, "the model cannot be reached: %s", err)
		}
		return chosen, nil
	}
	return asked, problem.InvalidField(at,
		"this deployment does not offer the embedding model %s/%s; GET /models lists "+
			"those that it does", asked.Provider, asked.Name)
}

// probe asks a model for a vector, which says its dimensions.
func (m *Models) probe(ctx context.Context, of catalog.EmbeddingModel) (catalog.EmbeddingModel, error) {
	ctx, cancel := context.WithTimeout(ctx, probeTime)
	defer cancel()
	reply, err := m.Embed(ctx, of, embedding.ForQuery, []string{"dimensions"})
	if err != nil {
		return of, err
	}
	of.Dimensions = len(reply.Vectors[0])
	return of, nil
}
