package words

import (
	_ "embed"
	"slices"
	"strings"
	"sync"
	"unicode"

	"github.com/blevesearch/snowballstem"
	"github.com/blevesearch/snowballstem/arabic"
	"github.com/blevesearch/snowballstem/danish"
	"github.com/blevesearch/snowballstem/dutch"
	"github.com/blevesearch/snowballstem/english"
	"github.com/blevesearch/snowballstem/finnish"
	"github.com/blevesearch/snowballstem/french"
	"github.com/blevesearch/snowballstem/german"
	"github.com/blevesearch/snowballstem/hungarian"
	"github.com/blevesearch/snowballstem/irish"
	"github.com/blevesearch/snowballstem/italian"
	"github.com/blevesearch/snowballstem/norwegian"
	"github.com/blevesearch/snowballstem/portuguese"
	"github.com/blevesearch/snowballstem/romanian"
	"github.com/blevesearch/snowballstem/russian"
	"github.com/blevesearch/snowballstem/spanish"
	"github.com/blevesearch/snowballstem/swedish"
	"github.com/blevesearch/snowballstem/tamil"
	"github.com/blevesearch/snowballstem/turkish"
	"golang.org/x/text/unicode/norm"
)

// stemmers by language, as ISO 639-1 has it.
var stemmers = map[string]func(*snowballstem.Env) bool{
	"ar": arabic.Stem, "da": danish.Stem, "de": german.Stem, "el": stemGreek, "en": english.Stem, "es": spanish.Stem,
	"fi": finnish.Stem, "fr": french.Stem, "ga": irish.Stem, "hu": hungarian.Stem, "it": italian.Stem,
	"nl": dutch.Stem, "no": norwegian.Stem, "pt": portuguese.Stem, "ro": romanian.Stem, "ru": russian.Stem,
	"sv": swedish.Stem, "ta": tamil.Stem, "tr": turkish.Stem,
}

// grammar has the rules of a language. The zero value is that of an unknown one.
type grammar struct {
	stem        func(*snowballstem.Env) bool // nil: there is no stemmer
	stop        map[string]bool              // by folded word
	apostrophes bool                         // inside a word, like in "don't"; elsewhere they divide ("l'avion")
	loans       bool                         // diacritics are of foreign words, or optional: the stemmer knows none
	turkish     bool                         // its I is dotted or not in either case
	tones       bool                         // marks make other words
	umlauts     bool                         // they are sometimes written as two letters
}

func grammarOf(language string) grammar {
	language = base(language)
	return grammar{
		stem:        stemmers[language],
		stop:        stopWords()[language],
		apostrophes: language == "en",
		loans:       language == "en" || language == "ru" || language == "el",
		turkish:     language == "tr",
		tones:       language == vietnamese,
		umlauts:     !slices.Contains(ownUmlauts, language),
	}
}

// ownUmlauts are languages whose umlauts are separate letters, in many words, and never written as two letters.
var ownUmlauts = []string{"az", "et", "fi", "hu", "tr", vietnamese}

// base is the language of a code like "pt-BR". All forms of Norwegian are one, as for the stemmer.
func base(language string) string {
	language, _, _ = strings.Cut(language, "-")
	language, _, _ = strings.Cut(language, "_")
	switch language = strings.ToLower(language); language {
	case "nb", "nn":
		return "no"
	}
	return language
}

//go:embed stopwords.txt
var stopLists string

// stopWords reads the lists: the function words of a language, which occur in each of its texts.
var stopWords = sync.OnceValue(func() map[string]map[string]bool {
	lists := map[string]map[string]bool{}
	for line := range strings.Lines(stopLists) {
		language, list, _ := strings.Cut(line, ":")
		lists[language] = map[string]bool{}
		for _, w := range strings.Fields(list) {
			lists[language][fold(w)] = true
		}
	}
	return lists
})

// term is the term by which a word is indexed. Its text is empty if nothing remains of the word.
type term struct {
	text    string
	written string
	stop    bool
	others  []Word // its other writings and its parts
}

func (g grammar) term(word string) term {
	plain := compatible(g.lower(word))
	folded := fold(plain)
	if g.tones || strings.ContainsFunc(plain, isVietnamese) {
		if exact := norm.NFC.String(plain); folded != "" && exact != folded {
			return term{text: exact, written: looseMark + folded}
		}
	}
	if g.stop[folded] {
		return term{text: stopMark + folded, written: folded, stop: true}
	}
	if g.stem == nil || strings.IndexFunc(plain, unicode.IsDigit) >= 0 {
		return term{text: folded, written: folded}
	}
	if g.loans && !isPlain(plain) {
		plain = folded
	}
	env := snowballstem.NewEnv(plain)
	g.stem(env)
	if stem := fold(env.Current()); stem != "" {
		return term{text: stem, written: folded}
	}
	return term{text: folded, written: folded}
}

func (g grammar) lower(word string) string {
	if g.turkish {
		return strings.ToLowerSpecial(unicode.TurkishCase, word)
	}
	return strings.ToLower(word)
}
