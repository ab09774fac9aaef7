package words

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/text/document"
	"agentplatform/internal/text/index"
)

// terms writes the words of a text: their terms, those of stop words with their mark, without single
// characters of runs.
func terms(text, language string) string {
	var list []string
	for _, w := range Analyze(text, language) {
		if !w.Part {
			list = append(list, w.Term)
		}
	}
	return strings.Join(list, " ")
}

func TestAnalyze(t *testing.T) {
	for _, c := range []struct{ name, language, text, want string }{
		{"stems", "en", "Running dogs", "run dog"},
		{"code of a region", "en-GB", "Running dogs", "run dog"},
		{"unknown language", "tlh", "Running dogs", "running dogs"},
		{"no language", "", "the Running dogs", "the running dogs"},
		{"stop words", "en", "The dog and the cat", "=the dog =and =the cat"},
		{"stop words of one language", "de", "die Maschine", "=die maschin"},
		{"the same letters elsewhere", "en", "die machine", "die machin"},
		{"apostrophes, English", "en", "dog's don’t", "dog =dont"},
		{"apostrophes, French", "fr", "l’avion d'économies", "=l avion =d econom"},
		{"apostrophes, no language", "", "l'avion", "l avion"},
		{"diacritics", "en", "naïve résumés Ångström", "naiv resum angstrom"},
		{"without diacritics", "fr", "PREFEREES préférées", "prefere prefer"},
		{"letters that are not divided", "de", "Straße Häuser", "strass haus"},
		{"composed and not", "", "é e\u0301", "e e"},
		{"Turkish", "tr", "İstanbul IŞIK kitapları", "istanbul isik kitap"},
		{"Cyrillic keeps its letters", "ru", "ещё ёлка йод", "=еще елк йод"},
		{"Indic marks are letters", "hi", "हिन्दी", "हिन्दी"},
		{"Arabic vowels", "", "كِتَاب", "كتاب"},
		{"numbers", "en", "3.14 1,000 x2 2024", "3.14 1,000 x2 2024"},
		{"abbreviations", "en", "U.S.A. e.g.", "usa eg"},
		{"points between words", "en", "example.com end.Start", "exampl com end start"},
		{"names in code", "en", "max_active_seconds std::vector", "max activ second std vector"},
		{"width and ligatures", "en", "ＡＢＣ ﬁnance", "abc financ"},
		{"soft hyphens", "en", "hy\u00adphen", "hyphen"},
		{"Chinese", "zh", "東京都。", "東京 京都"},
		{"a single character", "zh", "猫", "猫"},
		{"mixed", "ja", "価格a1です", "価格 a1 です"},
		{"narrow and wide", "ja", "ｶﾅ カナ", "カナ カナ"},
		{"Korean", "ko", "한국어 문", "한국 국어 문"},
		{"Thai", "th", "ไทยง่าย", "ไท ทย ยง่ ง่า าย"},
		{"nothing", "en", " \n—!? \x00 🚀", ""},
	} {
		t.Run(c.name, func(t *testing.T) { assert.Equal(t, c.want, terms(c.text, c.language)) })
	}
}

func TestAnalyzeReturnsWhereWordsAre(t *testing.T) {
	text := "Größe: l'été, 東京都 e\u0301t\u0301 x\U0001F680y newHTTPServer XK-47-B x -5"
	var found []string
	for _, w := range Analyze(text, "fr") {
		found = append(found, string([]rune(text)[w.Start:w.End]))
	}
	assert.Equal(t, []string{"Größe", "Größe", "l", "été", "東", "東京", "京", "京都", "都", "e\u0301t\u0301", "x", "y",
		"newHTTPServer", "new", "HTTP", "Server", "XK", "XK-47", "XK-47-B", "47", "47-B", "B", "x", "5"}, found)
}

func TestWordsAreBounded(t *testing.T) {
	for name, text := range map[string]string{
		"a long word":     strings.Repeat("a", 1<<16),
		"marks":           "a" + strings.Repeat("\u0301", 1<<16),
		"marks on Thai":   "ก" + strings.Repeat("\u0e48", 1<<16),
		"kept marks":      "क" + strings.Repeat("\u094d", 1<<16),
		"ligatures":       strings.Repeat("\ufdfa", 1<<15),
		"joiners":         strings.Repeat("a\u200d", 1<<15),
		"marks and words": strings.Repeat("a"+strings.Repeat("\u0301", 300)+" ", 1<<8),
		"points":          strings.Repeat("a.", 1<<15),
	} {
		t.Run(name, func(t *testing.T) {
			for _, w := range Analyze(text, "en") {
				require.LessOrEqual(t, utf8.RuneCountInString(w.Term), longestTerm+len(stopMark))
			}
		})
	}
}

func TestEveryListOfStopWordsIsOfALanguageWithAStemmer(t *testing.T) {
	lists := stopWords()
	require.Len(t, lists, 15)
	for language, list := range lists {
		assert.Contains(t, stemmers, language)
		assert.Greater(t, len(list), 70, language)
		for w := range list {
			want := Word{Term: stopMark + w, Written: w, End: utf8.RuneCountInString(w), Stop: true}
			assert.Equal(t, []Word{want}, Analyze(w, language))
		}
	}
}

func TestLanguage(t *testing.T) {
	for want, text := range map[string]string{
		"en": "The contract ends when both parties have signed its termination, or when a year has passed.",
		"de": "Der Vertrag endet, wenn beide Seiten die Auflösung unterschrieben haben oder ein Jahr vergangen ist.",
		"fr": "Le contrat prend fin lorsque les deux parties ont signé sa résiliation, ou au bout d’un an.",
		"es": "El contrato termina cuando ambas partes han firmado su rescisión o cuando ha pasado un año.",
		"pl": "Umowa wygasa, gdy obie strony podpiszą jej rozwiązanie albo gdy minie rok od jej zawarcia.",
		"ru": "Договор прекращается, когда обе стороны подписали его расторжение или прошёл год.",
		"no": "Avtalen opphører når begge parter har undertegnet oppsigelsen, eller når det har gått et år.",
		"ja": "契約は、両当事者が解約に署名したとき、または一年が経過したときに終了します。",
		"zh": "合同在双方签署终止协议或一年期满时终止。",
		"el": "Η σύμβαση λήγει όταν υπογράψουν και τα δύο μέρη ή όταν περάσει ένας χρόνος.",
		"":   "12 + 34 = 46",
	} {
		language, sure := Language(text)
		assert.Equal(t, want, language, text)
		assert.Equal(t, want != "", sure, text)
	}
	for _, c := range []struct {
		text, want string
		sure       bool
	}{
		{"", "", false},
		{"the theory of plates in a stream", "en", true}, // few letters, but words that only English has
		{"qwrt zxcv", "", false},
		{"Wings lift the plane", "en", false},
		{"Preisliste Schrauben", "", false},
		{"dielectric microwave measurement liquids techniques", "", false}, // letters alone
		{"x" + strings.Repeat("\u0301", 9000), "", false},
		{"Các đội thể thao chuyên nghiệp ở Nam California bao gồm Los Angeles Rams", "vi", true},
	} {
		language, sure := Language(c.text)
		assert.Equal(t, c.want, language, "%.40q", c.text)
		assert.Equal(t, c.sure, sure, "%.40q", c.text)
	}
}

func TestLanguageIsOfMostOfTheText(t *testing.T) {
	page := "Dieses Dokument wurde automatisch erstellt und ist ohne Unterschrift gültig. "
	rest := "The contract ends when both parties have signed its termination, or when a year has passed. "
	language, sure := Language(strings.Repeat(page, 10) + strings.Repeat(rest, 1000))
	assert.Equal(t, "en", language)
	assert.True(t, sure)
	assert.LessOrEqual(t, utf8.RuneCountInString(sample(strings.Repeat(rest+"ü", 100_000))), samples*(sampleLength+1))
}

func TestChunkTerms(t *testing.T) {
	list, length := ChunkTerms("Wings", "en", document.Chunk{
		Heading: "Lift › Wing", Context: "Lift | Drag", Text: "The lift of wings in 東京都",
	})
	assert.Equal(t, []index.Term{
		{Text: "wing", Weight: 3 + 2 + 1}, {Text: "wings", Weight: 3 + 1}, {Text: "lift", Weight: 2 + 1 + 1},
		{Text: "drag", Weight: 1},
		{Text: "=the", Weight: 1}, {Text: "=of", Weight: 1}, {Text: "=in", Weight: 1},
		{Text: "東", Weight: 1}, {Text: "東京", Weight: 1}, {Text: "京", Weight: 1}, {Text: "京都", Weight: 1},
		{Text: "都", Weight: 1},
	}, list)
	assert.Equal(t, 3+2*2+2+5+2, length, "a word counts once, and characters of a run as pairs")
}

func TestNotesOfAChunkAreBounded(t *testing.T) {
	var long strings.Builder
	for i := range 100_000 {
		fmt.Fprintf(&long, "w%d ", i)
	}
	c := document.Chunk{Heading: long.String(), Context: long.String(), Text: "x"}
	list, _ := ChunkTerms(long.String(), "en", c)
	assert.Less(t, len(list), longestNote)
}

// shown writes the words of a query: the variants of each in brackets.
func shown(words [][]string) string {
	list := make([]string, 0, len(words))
	for _, variants := range words {
		list = append(list, strings.Join(variants, "|"))
	}
	return strings.Join(list, " ")
}

func TestQueryTerms(t *testing.T) {
	for _, c := range []struct{ name, query, languages, want string }{
		{"one language", "the running dogs", "en", "run|running dog|dogs"},
		{"several: one word all the same", "Running machines", "en de", "run|running machin|machines"},
		{"none", "the running dogs", "", "the running dogs"},
		{"words of one stem are one", "flow flows flowing", "en", "flow"},
		{"a stop word of the language that most documents have", "of machines", "en sv", "machin|machines"},
		{"a stop word of the query's own language", "what is the price", "sv en", "price|pric"},
		{"a stop word of a language that the query is not in", "war machine", "en de", "war machin|machine"},
		{"stop words only", "to be or not to be", "en", "to|=to be|=be or|=or not|=not"},
		{"characters", "東京都", "ja en", "東京 京都"},
		{"a character", "猫", "ja", "猫"},
		{"nothing", "?!", "en", ""},
		{"a language beyond the fourth", "varorna", "en de fr es it sv", "varorna|varorn|var"},
		{"another script", "товары", "en de fr es it sv ru", "товар|товары"},
		{"the main language's stop words in a query in another", "thành phố so với cả nước", "en vi",
			"thành|thanh phố|pho so với|voi cả|ca nước|nuoc"},
		{"marks of a language in which they tell words apart", "Nhật Bản", "en vi", "nhật|nhat bản|ban"},
		{"the same without marks", "nhat ban", "en vi", "nhat|~nhat ban|~ban"},
	} {
		t.Run(c.name, func(t *testing.T) {
			assert.Equal(t, c.want, shown(QueryTerms(c.query, strings.Fields(c.languages))))
		})
	}
}

func TestQueryLanguage(t *testing.T) {
	for _, c := range []struct{ query, languages, want string }{
		{"What is the price of machines?", "de en", "en"},
		{"Wie viele Tackles wurden registriert?", "en de es", "de"},
		{"¿A qué se le llamó el Tesla, en su honor?", "en de es ru vi", "es"},
		{"Когда был подписан договор", "en ru", "ru"},
		{"Một số tác phẩm nổi tiếng nhất", "en ro vi", "vi"},
		{"Ai hát Quốc Ca, Doctor Who do viên bị bệnh", "en de ro es vi", "vi"},
		{"Sao có nghĩa là gì?", "es fr vi", "vi"},
		{"Who was Nguyễn Huệ?", "en vi", ""},
		{"What did Nguyễn Huệ do for his country?", "en vi", "en"},
		{"war machine", "en de", ""},
		{"XK-4711", "", ""},
		{"what is the price", "", ""},
		{"", "en de", ""},
	} {
		assert.Equal(t, c.want, QueryLanguage(c.query, strings.Fields(c.languages)), c.query)
	}
}

// Words of a query are found in the index, for any language that the text is taken for.
func TestQueriesFindTheirOwnWords(t *testing.T) {
	for _, text := range []string{"The Who", "to be or not to be", "flying machines", "東", "東京都", "don't", "U.S.A."} {
		for _, language := range []string{"en", "de", "ja", ""} {
			list, _ := ChunkTerms("", language, document.Chunk{Text: text})
			indexed := map[string]bool{}
			for _, term := range list {
				indexed[term.Text] = true
			}
			found := false
			for _, term := range QueryTerms(text, []string{"en", "de", "ja"}) {
				found = found || slices.ContainsFunc(term, func(t string) bool { return indexed[t] })
			}
			assert.True(t, found, "%q in %q", text, language)
		}
	}
}

// A word that is written in one of several ways is found by the others.
func TestOtherWritingsAreFound(t *testing.T) {
	for _, c := range []struct{ text, found, not string }{
		{"Error ERR-4711 of the pump", "ERR4711/err4711/ERR-4711/4711", "ERR4712/ERR471/RR4711"},
		{"Error ERR4711 of the pump", "ERR-4711/err-4711/ERR_4711/ERR4711", "ERR-471"},
		{"part XK\u201147-B", "XK47B/XK-47B/XK47-B/xk-47-b", ""},
		{"part XK47B", "XK-47-B", "XK-48-B"},
		{"Herr Müller in der Bärenstraße", "Mueller/Muller/MÜLLER/Baerenstrasse/Bärenstrasse/Mu\u0308ller", "Meller"},
		{"Herr Mueller wohnt in der Baerenstrasse", "Müller/Bärenstraße/Baerenstraße/MÜLLER", "Muller"},
		{"the equation of Schro\u0308dinger", "Schroedinger/Schrodinger", ""},
		{"version v1.2.3 is out", "1.2.3/v1.2.3/V1.2.3", "1.2/v1.2.4/2.3"},
		{"version 1.2.3 is out", "v1.2.3/V1.2.3", "v1.2/1.2.4"},
		{"call getUserByEmailAddress now", "email/addresses/user/getUserByEmailAddress/getuserbyemailaddress", "mail"},
		{"call get_user_by_email now", "email/user/get_user_by_email", ""},
		{"an HTTPServerError and parseURLs in XMLHttpRequest", "http/server/errors/request/parse/xml", "quest"},
		{"a poet", "poets", "pot"},
	} {
		for _, language := range []string{"en", "de", ""} {
			list, _ := ChunkTerms("", language, document.Chunk{Text: c.text})
			indexed := map[string]bool{}
			for _, term := range list {
				indexed[term.Text] = true
			}
			finds := func(query string) bool {
				return slices.ContainsFunc(QueryTerms(query, []string{"en", "de"}), func(variants []string) bool {
					return slices.ContainsFunc(variants, func(v string) bool { return indexed[v] })
				})
			}
			for query := range strings.SplitSeq(c.found, "/") {
				if language != "" || query != "addresses" && query != "errors" && query != "poets" { // needs stems
					assert.True(t, finds(query), "%q in %q (%s)", query, c.text, language)
				}
			}
			for query := range strings.SplitSeq(c.not, "/") {
				assert.False(t, query != "" && finds(query), "%q in %q (%s)", query, c.text, language)
			}
		}
	}
}

func TestOtherWritingsAddNothingToTheLength(t *testing.T) {
	_, length := ChunkTerms("", "de", document.Chunk{Text: "getUserByName ERR-4711 Müller v1.2.3"})
	assert.Equal(t, 5, length)
	list, _ := ChunkTerms("", "", document.Chunk{Text: strings.Repeat("Aa", 3)})
	assert.Equal(t, []index.Term{{Text: "aaaaaa", Weight: 1}, {Text: "aa", Weight: 3}}, list)
}

func TestTermsOfAChunkAreBounded(t *testing.T) {
	var text strings.Builder
	for i := range 900 {
		fmt.Fprintf(&text, "a%dBc%dDe%d-%d-b%d-%d ", i, i+1000, i+2000, i, i, i)
	}
	list, _ := ChunkTerms("", "en", document.Chunk{Text: text.String()})
	assert.Less(t, len(list), index.MaxChunkTerms)
}

func TestPhrases(t *testing.T) {
	for query, want := range map[string]string{
		`lift "of Wings" and "a plane"`: "of wings/a plane",
		`«L’été» „Große Häuser“ “x”`:    "l ete/grosse hauser/x",
		`"東京都" 「猫」`:                     "東 京 都/猫",
		`"getUserName" and "ERR-4711"`:  "getusername/err 4711",
		`a 5" pipe and a 6" pipe`:       "",
		`5" "wide pipe"`:                "wide pipe",
		`not "closed`:                   "",
		`"" "?!"`:                       "",
		`"one""two"`:                    "one/two",
		`don't say 'single'`:            "",
		"\"\xff\" \"":                   "",
	} {
		var found []string
		for _, phrase := range Phrases(query) {
			found = append(found, strings.Join(phrase, " "))
		}
		assert.Equal(t, want, strings.Join(found, "/"), query)
	}
	assert.Len(t, Phrases(strings.Repeat(`"a" `, 1000)), mostPhrases)
}

func TestHasPhrase(t *testing.T) {
	for _, c := range []struct {
		text, phrase string
		want         bool
	}{
		{"The Lift, of wings.", "lift of wings", true},
		{"The lift of two wings", "lift of wings", false},
		{"wings of lift", "lift of wings", false},
		{"The lift of wingspan", "lift of wing", false},
		{"The lift of wings", "lift of wing", false},
		{"Große Häuser", "grosse hauser", true},
		{"getUserName ERR-4711 now", "ERR-4711 now", true},
		{"getUserName ERR-4711", "user name", false},
		{"昔の東京都と", "東京都", true},
		{"東京と京都", "東京都", false},
		{"黒猫", "猫", true},
		{"to be, or not to be", "not to be", true},
		{"", "x", false},
	} {
		phrases := Phrases(`"` + c.phrase + `"`)
		require.Len(t, phrases, 1)
		assert.Equal(t, c.want, HasPhrase(c.text, phrases[0]), "%q in %q", c.phrase, c.text)
	}
}

func TestQueriesAreBounded(t *testing.T) {
	var query strings.Builder
	for i := range 2000 {
		fmt.Fprintf(&query, "w%d ", i)
	}
	assert.Len(t, QueryTerms(query.String(), []string{"en", "de"}), mostQueryTerms)
}

func FuzzAnalyze(f *testing.F) {
	for _, text := range []string{
		"The Running dogs' don’t U.S.A. a.b 3.14 foo_bar", "l'été", "東京都に住むa1ｶﾅー", "한국어 문장", "ไทยง่าย",
		"हिन्दी", "İIıi", "e\u0301\u0301", "\u200d\u0301", "\xff\xfe", "\ufdfa℡ﬁ", "כ\"ל", "🇩🇪🇫🇷👩‍👩‍👧",
	} {
		for _, language := range []string{"en", "fr", "tr", ""} {
			f.Add(text, language)
		}
	}
	f.Fuzz(func(t *testing.T, text, language string) {
		found := Analyze(text, language)
		assert.Equal(t, found, Analyze(text, language))
		length, last := utf8.RuneCountInString(text), 0
		for _, w := range found {
			require.True(t, last <= w.Start && w.Start < w.End && w.End <= length, "%v of %d", w, length)
			require.NotEmpty(t, w.Term)
			require.LessOrEqual(t, utf8.RuneCountInString(w.Term), longestTerm+len(stopMark))
			require.Equal(t, w.Stop, strings.HasPrefix(w.Term, stopMark))
			last = w.Start
		}
		first, _ := Language(text)
		second, _ := Language(text)
		assert.Equal(t, first, second)
		QueryTerms(text, []string{language, "en"})
	})
}

func FuzzStemmers(f *testing.F) {
	f.Add("universally")
	f.Add("préférées")
	f.Fuzz(func(t *testing.T, word string) {
		for language := range stemmers {
			for _, w := range Analyze(word, language) {
				require.NotEmpty(t, w.Term)
			}
		}
	})
}
