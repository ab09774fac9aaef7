package knowledge

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"agentplatform/internal/ai/embedding"
	"agentplatform/internal/org/catalog"
	"agentplatform/internal/text/ranking"
)

// The vectors of the built-in model follow the spelling of words. Beside words they count less. The model is not used
// for a script without spaces.
func TestTheBuiltinModelIsTrustedLess(t *testing.T) {
	const spaced, unspaced = "how long is the warranty", "保証期間はどのくらいですか"
	weights := map[string]float64{"weighted/": 0.5, "useless/": 0}
	for _, c := range []struct {
		provider string
		mode     ranking.Mode
		query    string
		trust    ranking.Trust
	}{
		{embedding.Builtin, ranking.Hybrid, spaced, ranking.Lexical},
		{embedding.Builtin, ranking.Hybrid, unspaced, ranking.Trust{}},
		{embedding.Builtin, ranking.Semantic, unspaced, ranking.Lexical},
		{"openai", ranking.Hybrid, spaced, ranking.Full},
		{"openai", ranking.Hybrid, unspaced, ranking.Full},
		{"weighted", ranking.Hybrid, spaced, ranking.Trust{Weight: 0.5}},
		{"useless", ranking.Hybrid, spaced, ranking.Trust{}},
		{"useless", ranking.Semantic, spaced, ranking.Full},
	} {
		s := &search{
			Knowledge: &Knowledge{Models: &Models{weights: weights}},
			q:         Question{Mode: c.mode, Query: c.query}, terms: [][]string{{"word"}},
		}
		assert.Equal(t, c.trust, s.trusted(catalog.EmbeddingModel{Provider: c.provider}), "%+v", c)
	}
}

// A hit needs one of the floor's scores, or the words of the query that are there.
func TestTheFloorNeedsOneOfThreeThings(t *testing.T) {
	for hit, above := range map[ranking.Hit]bool{
		{Keyword: 0.02}: true, {Keyword: 0.019}: false, {Semantic: 0.15}: true, {Semantic: 0.149}: false,
		{Keyword: 0.019, Semantic: 0.149, Score: 1}: false, {Whole: true}: true,
	} {
		for _, floor := range []bool{true, false} {
			s := &search{q: Question{Floor: floor}}
			assert.Equal(t, above || !floor, len(s.relevant([]ranking.Hit{hit})) == 1, "%+v", hit)
		}
	}
}
