package s3index_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/text/index"
	"agentplatform/internal/text/index/s3index"
	"agentplatform/internal/text/words"
)

// Nothing fills the index again after an upgrade: chunks that the first analysis of words has put stay found. It put a
// word only by its stem, or without a stemmer as written, without marks. It put stop words by their own terms.
func TestWhatTheFirstAnalysisHasIndexedIsFound(t *testing.T) {
	x, _ := open(t, s3index.Options{})
	earlier := []struct{ language, terms, queries string }{
		{"en", "=the order good =are deliv =to custom", "goods/the customers/ordered goods/Is it delivered?"},
		{"de", "=die bestellt =waren =werden =den haus geliefert", "Haus/Häuser/die bestellten Waren/geliefert"},
		{"fr", "=les marchandis command =sont livr =au client", "marchandises/commandée/Quel client?"},
		{"ru", "заказа товар доставля покупател", "товары/заказанные/Кто покупатель?"},
		{"el", "τα εμπορευματα παραδιδονται στον πελατη", "εμπορεύματα/στον πελάτη"},
		{"vi", "cac doi the thao o nhat ban", "Nhật Bản/nhat ban/các đội thể thao ở đâu"},
		{"ja", "東 東京 京 京都 都 都の の の価 価 価格 格", "東京/価格/京都"},
		{"", "preisliste err 4711", "Preisliste/ERR-4711/4711"},
	}
	languages := make([]string, 0, len(earlier))
	for i, e := range earlier {
		c := index.Chunk{Length: 7, Vector: []float32{1, 0}}
		for term := range strings.FieldsSeq(e.terms) {
			c.Terms = append(c.Terms, index.Term{Text: term, Weight: 1})
		}
		v := index.Version{Collection: "c", Document: fmt.Sprint("d", i), Number: 1}
		require.NoError(t, x.Put(t.Context(), v, 2, []index.Chunk{c}))
		if e.language != "" {
			languages = append(languages, e.language)
		}
	}
	for i, e := range earlier {
		for query := range strings.SplitSeq(e.queries, "/") {
			r, err := x.Query(t.Context(), index.Query{
				Collections: []string{"c"}, Terms: words.QueryTerms(query, languages), Limit: 10,
			})
			require.NoError(t, err)
			found := map[string]bool{}
			for _, c := range r.Candidates {
				found[c.Document] = true
			}
			assert.True(t, found[fmt.Sprint("d", i)], "%q in %q", query, e.language)
		}
	}
}
