package knowledge

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"agentplatform/internal/ai/embedding"
	"agentplatform/internal/org/catalog"
	"agentplatform/internal/text/ranking"
)

// The vectors of the built-in model follow the spelling of words. Beside words they count less, and they are not asked
// about a script without spaces.
func TestTheBuiltinModelIsTrustedLess(t *testing.T) {
	const spaced, unspaced = "how long is the warranty", "保証期間はどのくらいですか"
	vector, weights := []float32{1}, map[string]float64{"weighted/": 0.5, "useless/": 0}
	for _, c := range []struct {
		provider string
		mode     ranking.Mode
		query    string
		trust    ranking.Trust
		queried  bool
	}{
		{embedding.Builtin, ranking.Hybrid, spaced, ranking.Lexical, true},
		{embedding.Builtin, ranking.Hybrid, unspaced, ranking.Trust{}, false},
		{embedding.Builtin, ranking.Semantic, unspaced, ranking.Lexical, true},
		{"openai", ranking.Hybrid, spaced, ranking.Full, true},
		{"openai", ranking.Hybrid, unspaced, ranking.Full, true},
		{"weighted", ranking.Hybrid, spaced, ranking.Trust{Weight: 0.5}, true},
		{"useless", ranking.Hybrid, spaced, ranking.Trust{}, false},
		{"useless", ranking.Semantic, spaced, ranking.Full, true},
	} {
		s := &search{
			Knowledge: &Knowledge{Models: &Models{weights: weights}},
			q:         Question{Mode: c.mode, Query: c.query}, terms: [][]string{{"word"}},
		}
		used, trust := s.trusted(&ask{model: catalog.EmbeddingModel{Provider: c.provider}, vector: vector})
		assert.Equal(t, c.trust, trust, "%+v", c)
		assert.Equal(t, c.queried, used != nil, "%+v", c)
		used, trust = s.trusted(&ask{model: catalog.EmbeddingModel{Provider: c.provider}})
		assert.Nil(t, used, "the model has not answered")
		assert.Equal(t, ranking.Trust{}, trust)
	}
}
