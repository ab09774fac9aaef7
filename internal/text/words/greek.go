package words

import (
	"strings"
	"unicode/utf8"

	"github.com/blevesearch/snowballstem"
)

// greekEndings are the common endings of nouns, adjectives and verbs, without accents. Longer ones stand before their
// own endings.
var greekEndings = strings.Fields(`ματων ματοσ ματα ηθηκαν ηθηκε θηκαν θηκε ονταν ονται οντασ οταν εται ησουν ησαν ησει
	ησε ουσαν ουσε ουμε ηκαν ηκε εων εωσ ιων ιου ιουσ ιασ ιεσ ιοσ ουν ουσ ετε εισ αμε ατε σαν αν οσ ου ον οι ων εσ ασ
	ησ ια ιο ει μα α ε η ι ο υ ω`)

// shortestGreek is the least number of letters that must remain without an ending.
const shortestGreek = 3

// stemGreek removes the ending of a word without accents. It is light: most forms of a word become one, and different
// words seldom do.
func stemGreek(env *snowballstem.Env) bool {
	word := env.Current()
	for _, ending := range greekEndings {
		stem, has := strings.CutSuffix(word, ending)
		if has && utf8.RuneCountInString(stem) >= shortestGreek {
			env.SetCurrent(stem)
			return true
		}
	}
	return true
}
