package ranking

import (
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"

	"agentplatform/internal/text/words"
)

func quoted(text, query string, most int) string {
	terms := words.QueryTerms(query, []string{"en", "ja"})
	rarity := make([]float64, len(terms))
	for i := range rarity {
		rarity[i] = float64(i + 1)
	}
	at := Quote(text, query, Matches(text, terms, "en"), rarity, most)
	return string([]rune(text)[at[0]:at[1]])
}

func TestQuote(t *testing.T) {
	filler := strings.Repeat("It rains a lot here. ", 20)
	for _, c := range []struct{ name, text, query, begins, has string }{
		{"a short text is whole", "Pets are fine.", "lamp", "Pets", "Pets are fine."},
		{"at the end", filler + "The warranty is two years.", "how long is the warranty", "lot here.", "two years."},
		{"at the beginning", "The warranty is two years. " + filler, "warranty", "The warranty", "two years."},
		{"in the middle", filler + "The warranty is two years. " + filler, "warranty", "It rains", "two years."},
		{"the rarer of two words", filler + "A warranty. " + filler + filler + "A lamp. " + filler, "warranty lamp",
			"It rains", "A lamp."},
		{"where both stand", "A lamp. " + filler + "A warranty of the lamp. " + filler, "warranty lamp", "It rains",
			"warranty of the lamp"},
		{"a line", strings.Repeat("north\t7\n", 60) + "south\t8\n" + strings.Repeat("north\t7\n", 60), "south",
			"north\t7\n", "south\t8"},
		{"no sentence at all", strings.Repeat("w ", 300) + "lamp " + strings.Repeat("v ", 300), "lamp", "w ", "lamp"},
		{"a long word", strings.Repeat("a=1;", 100) + "lamp=7;" + strings.Repeat("b=2;", 100), "lamp", "", "lamp=7"},
		{"letters alone", filler + "The donaudampfschiff sails. " + filler, "dampfschiffe", "It rains",
			"donaudampfschiff sails."},
		{"nothing", filler, "lamp", "It rains", ""},
		{"without spaces", strings.Repeat("雨が降ります。", 60) + "保証は二年です。" + strings.Repeat("雨が降ります。", 60),
			"保証", "雨が", "保証は二年です。"},
		{"an abbreviation", filler + "A lamp, e.g. of brass, " + filler, "brass", "It rains", "e.g. of brass"},
	} {
		t.Run(c.name, func(t *testing.T) {
			q := quoted(c.text, c.query, 100)
			assert.LessOrEqual(t, utf8.RuneCountInString(q), 100)
			assert.True(t, strings.HasPrefix(q, c.begins), q)
			assert.Contains(t, q, c.has)
		})
	}
}

// FuzzQuote checks that a quote stays within any text.
func FuzzQuote(f *testing.F) {
	f.Add("A lamp. A warranty!", "lamp warranty", 5)
	f.Add("\xff\n\u0300 ...!?\"", "\xff", 1)
	f.Fuzz(func(t *testing.T, text, query string, most int) {
		if most < 1 || most > 1000 {
			return
		}
		terms := words.QueryTerms(query, []string{"en", "ja"})
		rarity := slices.Repeat([]float64{1}, len(terms))
		at := Quote(text, query, Matches(text, terms, "en"), rarity, most)
		n := utf8.RuneCountInString(text)
		assert.True(t, 0 <= at[0] && at[0] <= at[1] && at[1] <= n && at[1]-at[0] <= most, at)
		assert.True(t, at[1]-at[0] == min(n, most) || at[1] == n, at)
		assert.True(t, n == 0 || at[0] < at[1], at)
	})
}
