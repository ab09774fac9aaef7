// Package codepage finds the encoding of a text that does not declare one.
package codepage

import (
	"bytes"
	"math"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/charmap"
	"golang.org/x/text/encoding/japanese"
	"golang.org/x/text/encoding/korean"
	"golang.org/x/text/encoding/simplifiedchinese"
	"golang.org/x/text/encoding/traditionalchinese"
	uni "golang.org/x/text/encoding/unicode"
	"golang.org/x/text/encoding/unicode/utf32"
)

// The letters of languages beyond ASCII, the most frequent first. For English: the signs between its letters.
var (
	western = languages("’“”–—…‘£é•§°©®", "éèàêçâîûôùœëïü", "üäöß", "óíáéñúü", "ãçáéíóêõâúàô", "èàùòìé", "äåöé", "øåæé",
		"íðáéóþöúæý", "àéèóíòçúïü", "áéíóú")
	central = languages("ęłóążśćńź", "íáéěřýčšžůúťňďó", "áíéčšýžúľťôňóďäĺŕ", "áéöőóüíúű", "čšžćđ", "ăîâşţ", "ăîâșț",
		"üäöß", "ëç")
	turkish    = languages("ışğüöçâîû")
	baltic     = languages("ėšįžųąčūę", "āīēšņļūžčķģ", "äõüöšž")
	southern   = languages("ĉĝŭŝĵĥ", "ħġżċàèìòù", "ışğüöçâîû")
	vietnamese = languages("\u0301\u0300\u0323đ\u0309ưôâêơ\u0303ăáàéóíúèùýìò")
	cyrillic   = languages("оеаинтсрвлкмдпуяыьгзбчйхжшюцщэфъё", "оанивіертсклдумпязьбгйчхжшюєцїщфґ",
		"аиоетнрсвлкдпмзъягбучцжщхшюйфь", "аоиенртсјувкдмплбзгчшцжљњћхђфџѓќѕ", "анісраеоытлкувдмязпцйьэбгхчжўшюфё")
	greek  = languages("αοιετσνηυρπκμλςωάίδγόχθέήφβύώξζψϊϋΐΰ")
	hebrew = languages("יוהלאתרבשמםנחדקעפטסגכןצזץףך")
	arabic = languages("المينرتوبدعسهةقفحكجشطصخأذىزضغثظئءآإؤ",
		"ایرنهدموتبسکشزگقفحخپعجآصطچضغژثظذئ")
	thai = languages("าน่รอกเง้มยลวัดทสีตะิปบค์หแจืชพใขุ็ไูผซโธึถศณำษภฉฮๆฟญฎฤฐฌฆฏฒ")

	japaneseSigns = languages("のにいはたをるとしてでがなれらっ、。こさまんもすかりあきくーンスルトうおよけどせえだ・つみイラ「」日年人本大国中一")
	simplified    = languages("的一是不了在人有我他这，。、中大来上国个到说们为子和你地出道也时年得就那要下以生会自着去之过家学对可里后小")
	traditional   = languages("的一是不了在人有我他這，。、中大來上國個到說們為子和你地出道也時年得就那要下以生會自著去之過家學對可裡後小")
	hangul        = languages("이다는의에고하가을로기은지한사도를인대어리서자스그정나시해아일라부으수들전제보여있니연구만과원조장상국안경주선비게와성")
)

// alphabet has the logarithm of the likelihood of each letter of a language. From each letter of a list to the next the
// likelihood falls by the same factor.
type alphabet map[rune]float64

func languages(lists ...string) []alphabet {
	all := make([]alphabet, len(lists))
	for i, list := range lists {
		letters := []rune(list)
		n := float64(len(letters))
		all[i] = make(alphabet, len(letters))
		for rank, r := range letters {
			all[i][r] = math.Log(2 * (n - float64(rank)) / (n * (n + 1)))
		}
	}
	return all
}

// candidate is an encoding that a text without a declaration may have, with the languages that are written in it. A
// less common encoding needs more evidence.
type candidate struct {
	encoding  encoding.Encoding
	languages []alphabet
	rare      float64
}

var candidates = []candidate{
	{charmap.Windows1252, western, 0}, {charmap.Windows1250, central, 0}, {charmap.Windows1251, cyrillic, 0},
	{charmap.Windows1253, greek, 0}, {charmap.Windows1254, turkish, 0}, {charmap.Windows1255, hebrew, 0},
	{charmap.Windows1256, arabic, 0}, {charmap.Windows1257, baltic, 0}, {charmap.Windows1258, vietnamese, 0},
	{charmap.Windows874, thai, 0}, {japanese.ShiftJIS, japaneseSigns, 0}, {japanese.EUCJP, japaneseSigns, 0},
	{simplifiedchinese.GB18030, simplified, 0}, {traditionalchinese.Big5, traditional, 0}, {korean.EUCKR, hangul, 0},
	{charmap.ISO8859_15, western, 1}, {charmap.ISO8859_2, central, 1}, {charmap.ISO8859_16, central, 2},
	{charmap.ISO8859_3, southern, 2}, {charmap.ISO8859_4, baltic, 2}, {charmap.ISO8859_10, baltic, 2},
	{charmap.ISO8859_13, baltic, 1}, {charmap.ISO8859_5, cyrillic, 1}, {charmap.ISO8859_6, arabic, 1},
	{charmap.ISO8859_7, greek, 1}, {charmap.ISO8859_8, hebrew, 1}, {charmap.KOI8R, cyrillic, 0},
	{charmap.KOI8U, cyrillic, 1}, {charmap.CodePage866, cyrillic, 1}, {charmap.CodePage855, cyrillic, 2},
	{charmap.MacintoshCyrillic, cyrillic, 2}, {charmap.CodePage850, western, 2}, {charmap.CodePage437, western, 2},
	{charmap.CodePage852, central, 2}, {charmap.CodePage862, hebrew, 2}, {charmap.Macintosh, western, 2},
}

// marks are the first bytes of texts in Unicode, and their encodings. That of UTF-32 begins with that of UTF-16.
var marks = []struct {
	mark     string
	encoding encoding.Encoding
}{
	{"\xef\xbb\xbf", uni.UTF8BOM},
	{"\xff\xfe\x00\x00", utf32.UTF32(utf32.LittleEndian, utf32.UseBOM)},
	{"\x00\x00\xfe\xff", utf32.UTF32(utf32.BigEndian, utf32.UseBOM)},
	{"\xff\xfe", uni.UTF16(uni.LittleEndian, uni.UseBOM)},
	{"\xfe\xff", uni.UTF16(uni.BigEndian, uni.UseBOM)},
}

// Marked is the encoding that a byte order mark names; nil without one.
func Marked(data []byte) encoding.Encoding {
	for _, m := range marks {
		if bytes.HasPrefix(data, []byte(m.mark)) {
			return m.encoding
		}
	}
	return nil
}

// Guess returns the most likely encoding of a text. It is UTF-8 with a few broken characters, or the encoding in which
// the text's characters beyond ASCII are most likely.
func Guess(data []byte) encoding.Encoding {
	at := bytes.IndexFunc(data, beyondASCII)
	if at < 0 {
		return uni.UTF8
	}
	data = data[max(0, at-lettersBefore):]
	if almostUTF8(data[:min(len(data), sampleSize)]) {
		return uni.UTF8
	}
	sample := foreign(data)
	var best encoding.Encoding = charmap.Windows1252
	most := math.Inf(-1)
	for _, c := range candidates {
		text, err := c.encoding.NewDecoder().Bytes(sample)
		if err != nil {
			continue
		}
		for _, in := range c.languages {
			if score := in.likelihood(string(text)) - 2*c.rare; score > most {
				best, most = c.encoding, score
			}
		}
	}
	return best
}

const (
	sampleSize  = 64 << 10
	foreignSize = 4 << 10
	searched    = 4 << 20 // bytes that are searched for such lines
	// lettersBefore is how many bytes are read before the first character beyond ASCII of a line.
	lettersBefore = 20
)

// foreign are the first lines with characters beyond ASCII. Each begins some letters before these.
func foreign(data []byte) []byte {
	var sample []byte
	for line := range bytes.FieldsFuncSeq(data[:min(len(data), searched)], isLineEnd) {
		if at := bytes.IndexFunc(line, beyondASCII); at >= 0 {
			line = line[max(0, at-lettersBefore):]
			sample = append(append(sample, line[:min(len(line), foreignSize)]...), '\n')
		}
		if len(sample) >= foreignSize {
			break
		}
	}
	return sample
}

func beyondASCII(r rune) bool { return r >= utf8.RuneSelf }

func isLineEnd(r rune) bool { return r == '\n' || r == '\r' }

// likelihood is the logarithm of the likelihood of a text's characters beyond ASCII in a language.
func (a alphabet) likelihood(text string) float64 {
	score, before := 0.0, ' '
	for i, r := range text {
		if r >= utf8.RuneSelf {
			after, _ := utf8.DecodeRuneInString(text[i+utf8.RuneLen(r):])
			score += a.chance(before, r, after)
		}
		before = r
	}
	return score
}

// chance is the logarithm of the likelihood of a character between two others.
func (a alphabet) chance(before, r, after rune) float64 {
	chance, known := a[unicode.ToLower(r)]
	if !known {
		chance = unlisted(r)
	}
	isLetter := unicode.In(r, unicode.L, unicode.M)
	switch {
	case unicode.IsUpper(r) && unicode.IsLower(before):
		chance -= 5
	case unicode.IsUpper(r):
		chance--
	case !isLetter && !known && unicode.IsLetter(before) && unicode.IsLetter(after):
		chance -= 4
	}
	isOther := isLetter && !unicode.In(r, unicode.Latin, unicode.Inherited)
	if isOther && (isASCIILetter(before) || isASCIILetter(after)) {
		chance -= 4
	}
	return chance
}

// unlisted is the logarithm of the likelihood of a character that a language does not have.
func unlisted(r rune) float64 {
	switch {
	case r == unicode.ReplacementChar || !unicode.IsGraphic(r):
		return -12
	case strings.ContainsRune(punctuation, r):
		return -5.5
	case unicode.In(r, unicode.Han, unicode.Hangul):
		return -8.5
	case unicode.In(r, unicode.Hiragana, unicode.Katakana):
		return -7
	case unicode.In(r, unicode.L, unicode.M):
		return -7.5
	}
	return -8
}

const punctuation = "“”„‘’–—…«»°§€©®№·¿¡\u00a0´²½"

func isASCIILetter(r rune) bool { return r < utf8.RuneSelf && unicode.IsLetter(r) }

// almostUTF8 reports UTF-8 with a few broken characters: it has ten valid ones beyond ASCII for each broken one.
func almostUTF8(sample []byte) bool {
	good, broken := 0, 0
	for len(sample) > 0 {
		r, size := utf8.DecodeRune(sample)
		switch {
		case r == utf8.RuneError && size == 1:
			broken++
		case size > 1:
			good++
		}
		sample = sample[size:]
	}
	return good >= 10*broken
}
