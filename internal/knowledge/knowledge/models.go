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
	"agentplatform/internal/platform/host"
	"agentplatform/internal/platform/problem"
	"agentplatform/internal/platform/trace"
	"agentplatform/internal/text/ranking"
)

// Lexical is the name of the model that needs no network, the only one of the provider [embedding.Builtin].
const (
	Lexical           = "lexical-1"
	builtinDimensions = 512
)

// probeTime limits the request that checks whether a model can be reached.
const probeTime = 10 * time.Second

// Models are the embedding models of a deployment.
type Models struct {
	Providers map[string]embedding.Model // by name; [embedding.Builtin] is always there
	// Offered are the models besides the built-in one; the first is the default. Dimensions 0: the model's own number.
	Offered []catalog.EmbeddingModel

	weights map[string]float64 // by full name, where it is not 1
}

// NewModels makes the models of these providers, by their names. offered are the models that knowledge bases may have;
// options are by full name.
func NewModels(
	providers map[string]embedding.Model, offered []embedding.Name, options map[string]embedding.Options,
) *Models {
	m := &Models{Providers: providers, weights: map[string]float64{}}
	for _, n := range offered {
		of := catalog.EmbeddingModel{Provider: n.Provider, Name: n.Name, Dimensions: n.Dimensions}
		o := options[of.FullName()]
		of.QueryPrefix, of.PassagePrefix = o.Prefixes(n.Name)
		if o.Weight != nil {
			m.weights[of.FullName()] = *o.Weight
		}
		m.Offered = append(m.Offered, of)
	}
	return m
}

var builtin = catalog.EmbeddingModel{Provider: embedding.Builtin, Name: Lexical, Dimensions: builtinDimensions}

// All are the models that a knowledge base may have, the default first.
func (m *Models) All() []catalog.EmbeddingModel { return append(slices.Clone(m.Offered), builtin) }

// trust is the weight of ranks by a model's vectors, where ranks by words weigh 1.
func (m *Models) trust(of catalog.EmbeddingModel) ranking.Trust {
	if of.Provider == embedding.Builtin { // its vectors follow the spelling of words, not their meaning
		return ranking.Lexical
	}
	if weight, has := m.weights[of.FullName()]; has {
		return ranking.Trust{Weight: weight}
	}
	return ranking.Full
}

// Embed calls a model of a knowledge base, with the prefix of the purpose before each text.
func (m *Models) Embed(
	ctx context.Context, of catalog.EmbeddingModel, purpose embedding.Purpose, texts []string,
) (embedding.Reply, error) {
	model, known := m.Providers[of.Provider]
	if !known {
		return embedding.Reply{}, fmt.Errorf("knowledge: the provider %s is not configured", of.Provider)
	}
	prefix := of.PassagePrefix
	if purpose == embedding.ForQuery {
		prefix = of.QueryPrefix
	}
	prefixed := make([]string, len(texts))
	for i, t := range texts {
		prefixed[i] = prefix + t
	}
	ctx, span := trace.Start(ctx, oteltrace.SpanKindClient, "embeddings", of.Name)
	defer span.End()
	span.SetAttributes(attribute.String("gen_ai.operation.name", "embeddings"),
		attribute.String("gen_ai.provider.name", trace.Provider(of.Provider)),
		attribute.String("gen_ai.request.model", of.Name))
	reply, err := model.Embed(ctx, embedding.Request{
		Name: of.Name, Dimensions: of.Dimensions, Purpose: purpose, Texts: prefixed,
	})
	span.SetAttributes(attribute.Int64("gen_ai.usage.input_tokens", reply.Tokens),
		attribute.Int("agentplatform.embeddings.texts", len(texts)))
	if err != nil {
		trace.Fail(span, "embedding_failed")
	}
	return reply, err
}

const atModel = "body.embedding_model"

// choose returns the model that a client names, or the default, with the dimensions of the model and the prefixes of
// the deployment. The model that the base has now is not called.
//
// It returns a problem of kind Invalid at body.embedding_model, also for a model that its provider refuses. For a model
// that cannot be reached, the problem is of kind Unavailable (embedding_unavailable). choose does not fall back to
// another model, which would find less for the life of the base.
func (m *Models) choose(
	ctx context.Context, named *catalog.EmbeddingModel, now catalog.EmbeddingModel,
) (catalog.EmbeddingModel, error) {
	wanted := m.All()[0]
	if named != nil {
		var err error
		if wanted, err = m.find(*named, now); err != nil {
			return wanted, err
		}
	}
	if wanted == now || wanted.Provider == embedding.Builtin {
		return wanted, nil
	}
	limited, cancel := context.WithTimeout(ctx, probeTime)
	defer cancel()
	reply, err := m.Embed(limited, wanted, embedding.ForQuery, []string{"dimensions"})
	if err != nil && host.OutOfTime(limited, ctx) {
		err = fmt.Errorf("there was no response within %s", probeTime)
	}
	switch {
	case err == nil:
		wanted.Dimensions = len(reply.Vectors[0])
		return wanted, nil
	case named == nil:
		return wanted, problem.New(problem.Unavailable, "embedding_unavailable",
			"the default embedding model %s cannot be reached: %s. Send the request again later, or choose another "+
				"embedding_model", wanted.FullName(), err)
	case embedding.KindOf(err) == embedding.BadRequest:
		return wanted, problem.InvalidField(atModel, "the model cannot be used: %s", err)
	}
	return wanted, problem.New(problem.Unavailable, "embedding_unavailable",
		"the embedding model %s cannot be reached: %s. Send the request again later", wanted.FullName(), err)
}

// find returns a model as it is offered, or as the base has it now.
func (m *Models) find(named, now catalog.EmbeddingModel) (catalog.EmbeddingModel, error) {
	if named.Dimensions != 0 && (named.Dimensions < embedding.LeastDimensions ||
		named.Dimensions > embedding.MaxDimensions) {
		return named, problem.InvalidField(atModel+".dimensions", "must be between %d and %d",
			embedding.LeastDimensions, embedding.MaxDimensions)
	}
	if named.Provider == embedding.Builtin {
		if named.Name != "" && named.Name != Lexical {
			return named, problem.InvalidField(atModel+".name", "must be %s, the built-in model", Lexical)
		}
		named.Name, named.Dimensions = Lexical, cmp.Or(named.Dimensions, builtinDimensions)
		return named, nil
	}
	for _, known := range append(slices.Clone(m.Offered), now) {
		if known.Provider == named.Provider && known.Name == named.Name && known.Name != "" {
			known.Dimensions = cmp.Or(named.Dimensions, known.Dimensions)
			return known, nil
		}
	}
	return named, problem.InvalidField(atModel, "this deployment does not have the embedding model %s/%s; "+
		"GET /models lists the available ones", named.Provider, named.Name)
}
