package words

import (
	"strings"
	"unicode/utf8"

	"github.com/abadojack/whatlanggo"
)

// A language is detected from samples: as many, of as many characters each, evenly over the text.
const (
	samples      = 3
	sampleLength = 1000
)

// Language detects the language of a document: its code as ISO 639-1 has it, or empty, if nothing tells. A wrong one
// costs a document more than none: it is reduced to stems that no query has.
func Language(text string) string {
	text = sample(text)
	found := whatlanggo.Detect(text)
	if found.IsReliable() {
		return base(found.Lang.Iso6391())
	}
	return byStopWords(text) // a few words tell little by their letters
}

// byStopWords is the one language that has more words of the text among its stop words than any other.
func byStopWords(text string) string {
	most, language := 0, ""
	counts := map[string]int{}
	for _, w := range Analyze(text, "") {
		for l, stop := range stopWords() {
			if stop[w.Term] {
				counts[l]++
			}
		}
	}
	for l, n := range counts {
		switch {
		case n > most:
			most, language = n, l
		case n == most:
			language = ""
		}
	}
	return language
}

// sample takes a few passages of a text, so that the time is bounded and a foreign title page is outvoted.
func sample(text string) string {
	const longest = utf8.UTFMax * sampleLength
	if len(text) <= samples*longest {
		return cutTo(text, samples*sampleLength)
	}
	var b strings.Builder
	for i := range samples {
		at := i * (len(text) - longest) / (samples - 1)
		for at < len(text) && !utf8.RuneStart(text[at]) {
			at++
		}
		b.WriteString(cutTo(text[at:], sampleLength))
		b.WriteByte(' ')
	}
	return b.String()
}

// cutTo returns the first n characters.
func cutTo(text string, n int) string {
	for i := range text {
		if n == 0 {
			return text[:i]
		}
		n--
	}
	return text
}
