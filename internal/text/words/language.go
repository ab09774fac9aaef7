package words

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/abadojack/whatlanggo"
	"golang.org/x/text/unicode/norm"

	"agentplatform/internal/text/document"
)

// A language is detected from so many samples of so many characters each, evenly over the text.
const (
	samples      = 3
	sampleLength = 1000
)

const vietnamese = "vi"

// Language detects the language of a document: its ISO 639-1 code, or empty if it cannot be detected. It is not sure
// where the text is short, and where letters and function words suggest different languages. Such a document is mostly
// in the language of those around it.
func Language(text string) (language string, sure bool) {
	text = sample(text)
	if isMostlyVietnamese(text) {
		return vietnamese, true
	}
	found := whatlanggo.Detect(text)
	language, reliable := base(found.Lang.Iso6391()), found.IsReliable()
	s := functionWords(text)
	_, listed := stopWords()[language]
	many := s.most >= fewestFunctionWords && leastShare*s.most >= s.words
	switch {
	case !shared[found.Script] && reliable:
		return language, true
	case s.words < fewestWords || !shared[found.Script]:
		return s.first(), false
	case listed && s.most > 0 && 5*s.counts[language] >= 4*s.most && (reliable || many): // neighbours share some
		return language, true
	case !listed && reliable && leastShare*s.most < s.words:
		return language, true
	case many && s.most >= 2*s.second:
		return s.first(), true
	}
	return s.first(), false
}

// Limits for detecting a language in a script that several languages share.
const (
	fewestWords         = 5
	fewestFunctionWords = 3
	fewestLettered      = 4  // words of a query from which its letters count
	leastShare          = 10 // one of so many words is a function word in every text
)

// shared are the scripts that several languages have; each of the others belongs to one language.
var shared = map[*unicode.RangeTable]bool{
	nil: true, unicode.Latin: true, unicode.Cyrillic: true, unicode.Arabic: true, unicode.Devanagari: true,
}

// spoken counts the function words of each language in a text.
type spoken struct {
	words        int
	counts       map[string]int
	most, second int
}

// first is the language that has more than any other; empty: none.
func (s spoken) first() string {
	for l, n := range s.counts {
		if n == s.most && n > s.second {
			return l
		}
	}
	return ""
}

func functionWords(text string) spoken {
	s := spoken{counts: map[string]int{}}
	for _, w := range Analyze(text, "") {
		s.words++
		for l, stop := range stopWords() {
			if stop[w.Term] {
				s.counts[l]++
			}
		}
	}
	for _, n := range s.counts {
		switch {
		case n > s.most:
			s.most, s.second = n, s.most
		case n > s.second:
			s.second = n
		}
	}
	return s
}

// QueryLanguage returns the language of a few words: one of some languages, or empty if it cannot be detected. Function
// words count, each the more, the fewer of the languages have it. Letters and their order count, too, and so does each
// word that is surely Vietnamese.
func QueryLanguage(query string, languages []string) string {
	scores, seen, letters := map[string]float64{}, map[string]bool{}, []rune(query)
	for _, w := range Analyze(query, "") {
		var of []string
		for _, l := range languages {
			if l = base(l); stopWords()[l][w.Term] && !seen[w.Term] {
				of = append(of, l)
			}
		}
		for _, l := range of {
			scores[l] += 1 / float64(len(of))
		}
		if isVietnameseWord(string(letters[w.Start:w.End])) && !seen[w.Term] {
			scores[vietnamese]++
		}
		seen[w.Term] = true
	}
	lettered, sure := byLetters(query, languages)
	scores[lettered]++
	if sure {
		scores[lettered]++
	}
	most, second, language := 0.0, 0.0, ""
	for _, l := range languages {
		if n := scores[base(l)]; n > most {
			most, second, language = n, most, base(l)
		} else {
			second = max(second, n)
		}
	}
	if most < evidence || most < evidence*second {
		return ""
	}
	return language
}

// evidence is more than one function word, and the least ratio to the evidence for another language.
const evidence = 1.5

// byLetters returns the language whose letters and letter order are most like those of a text, among some languages. It
// is empty if there is none. It is sure where few of the languages have such letters.
func byLetters(text string, languages []string) (language string, sure bool) {
	if strings.ContainsFunc(text, isVietnamese) && slices.Contains(languages, vietnamese) {
		return vietnamese, true
	}
	among := whatlanggo.Options{Whitelist: map[whatlanggo.Lang]bool{}}
	for l := range whatlanggo.Langs {
		if slices.Contains(languages, base(l.Iso6391())) {
			among.Whitelist[l] = true
		}
	}
	if len(among.Whitelist) == 0 {
		return "", false
	}
	found := whatlanggo.DetectWithOptions(text, among)
	latin := found.Script == unicode.Latin
	if found.Script == nil || latin && len(strings.Fields(text)) < fewestLettered {
		return "", false
	}
	return base(found.Lang.Iso6391()), !latin
}

// isVietnamese reports letters that hardly any other language has.
func isVietnamese(r rune) bool {
	return r >= 0x1EA0 && r <= 0x1EF9 || strings.ContainsRune("ơưƠƯ", r)
}

// isVietnameseWord reports whether a word has such letters, or is a function word that other languages write otherwise.
// Names, which begin with a capital, are the same in questions in other languages.
func isVietnameseWord(word string) bool {
	word = norm.NFC.String(word)
	first, _ := utf8.DecodeRuneInString(word)
	matches := strings.ContainsFunc(word, isVietnamese) || slices.Contains(vietnameseWords, word)
	return matches && !unicode.IsUpper(first)
}

var vietnameseWords = strings.Fields("các có của đã đâu đến gì là lại làm này nào năm nên sao tên thì và vì")

// isMostlyVietnamese reports whether every thirtieth letter is one that only Vietnamese has; in its texts one of five
// is.
func isMostlyVietnamese(text string) bool {
	letters, own := 0, 0
	for _, r := range text {
		if isVietnamese(r) {
			own++
		}
		if unicode.IsLetter(r) {
			letters++
		}
	}
	return own > 0 && 30*own >= letters
}

// sample takes a few passages of a text. So the time is bounded, and a foreign title page does not decide.
func sample(text string) string {
	const longest = utf8.UTFMax * sampleLength
	if len(text) <= samples*longest {
		return document.Cut(text, samples*sampleLength)
	}
	var b strings.Builder
	for i := range samples {
		at := i * (len(text) - longest) / (samples - 1)
		for at < len(text) && !utf8.RuneStart(text[at]) {
			at++
		}
		b.WriteString(document.Cut(text[at:], sampleLength))
		b.WriteByte(' ')
	}
	return b.String()
}
