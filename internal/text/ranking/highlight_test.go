package ranking

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"agentplatform/internal/text/words"
)

func TestHighlights(t *testing.T) {
	for _, c := range []struct {
		name, query, language, text string
		want                        []string
	}{
		{"other forms of the word", "flying machine", "en", "Machines fly; a machinist.", []string{"Machines", "fly"}},
		{"stop words are not shown", "the machine", "en", "The machine of the year", []string{"machine"}},
		{"unless nothing else was asked", "the who", "en", "Who is the Who?", []string{"Who", "the", "Who"}},
		{"diacritics", "resume", "en", "Her résumé", []string{"résumé"}},
		{"pairs that overlap are one", "東京都", "ja", "昔の東京都と京都", []string{"東京都", "京都"}},
		{"a character", "猫", "ja", "黒猫が猫を見た", []string{"猫", "猫"}},
		{"a text of unknown language", "flying", "", "flying, flies", []string{"flying"}},
		{"astral characters", "wing", "en", "\U0001F680\U0001F680 wing", []string{"wing"}},
		{"empty cells", "north 7", "en", "\tNorth\t\t7\t\n\t\t7", []string{"North", "7", "7"}},
		{"indentation", "key", "en", "  a:\n    key:  1", []string{"key"}},
		{"cells without spaces", "東京都", "ja", "\t東\t\t東京都\t", []string{"東京都"}},
		{"a part of a name", "email", "en", "call getUserByEmailAddress", []string{"Email"}},
		{"another writing", "ERR4711 Mueller", "de", "ERR-4711: Müller", []string{"ERR-4711", "Müller"}},
		{"one of the other writing", "ERR-4711", "de", "ERR-4711, ERR4711", []string{"ERR-4711", "ERR4711"}},
		{"nothing", "wing", "en", "lift", []string{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			shown := []string{}
			for _, r := range Highlights(Matches(c.text, words.QueryTerms(c.query, []string{"en", "ja"}), c.language)) {
				shown = append(shown, string([]rune(c.text)[r[0]:r[1]]))
			}
			assert.Equal(t, c.want, shown)
		})
	}
}
