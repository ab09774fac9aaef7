package httptool

import (
	"bytes"
	"io"
	"mime"
	"net/http"
	"regexp"
	"strings"
	"unicode/utf8"

	"golang.org/x/net/html/charset"
	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/unicode"
	"golang.org/x/text/encoding/unicode/utf32"

	"agentplatform/internal/ai/tool"
	"agentplatform/internal/platform/codepage"
)

// resultOf is a response as text, or as a file where it is not text.
func resultOf(kind string, body []byte) tool.Result {
	media := strings.ToLower(strings.TrimSpace(beforeDelimiter.FindString(kind)))
	if _, _, err := mime.ParseMediaType(media); err != nil { // none, or nonsense
		media, _, _ = strings.Cut(http.DetectContentType(body), ";")
	}
	named := ""
	if found := inKind.FindStringSubmatch(kind); found != nil {
		named = found[1]
	}
	if text, ok := Decode(media, named, body, tool.MaxResult); ok {
		return tool.TextResult(text)
	}
	return tool.Result{Files: []tool.File{{ContentType: media, Data: body}}}
}

// Servers send invalid types, or several, which the parser of the library refuses.
var (
	beforeDelimiter = regexp.MustCompile(`^[^;,]*`)
	inKind          = regexp.MustCompile(`(?i);\s*charset\s*=\s*["']?([a-z0-9_:.-]{1,40})`)
)

// Decode returns a body as text. It uses the first encoding that fits: that of the byte order mark, UTF-8, the charset
// that the server or the text itself names, or the detected one. ok is false if none fits. A text of more than most
// bytes is cut behind that limit.
func Decode(media, named string, body []byte, most int64) (text string, ok bool) {
	if e := codepage.Marked(body); e != nil {
		return decoded(e, body, most)
	}
	if utf8.Valid(body) && !bytes.ContainsRune(body, 0) && !strings.HasPrefix(strings.ToLower(named), "iso-2022") {
		return string(body), true
	}
	if !IsText(media) && named == "" {
		return "", false
	}
	if named == "" {
		if found := declared.FindSubmatch(body[:min(len(body), 1024)]); found != nil {
			named = string(found[1])
		}
	}
	e, name := charset.Lookup(named)
	switch wide := byZeros(body); {
	case wide != nil:
		e = wide
	case bytes.ContainsRune(body, 0) && !strings.HasPrefix(name, "utf-16"):
		return "", false
	case e == nil || name == "utf-8" || name == "replacement":
		e = codepage.Guess(body)
	}
	return decoded(e, body, most)
}

// declared is the charset that a text of HTML or XML declares.
var declared = regexp.MustCompile(
	`(?i)^[^\x00]*?(?:<\?xml[^>]*?encoding|<meta[^>]*?charset)\s*=\s*["']?([a-z0-9_:.-]{1,40})`)

// decoded is a body as text. It reads little more than most bytes: a byte may become three.
func decoded(e encoding.Encoding, body []byte, most int64) (string, bool) {
	text, err := io.ReadAll(io.LimitReader(e.NewDecoder().Reader(bytes.NewReader(body)), most+1))
	return strings.ToValidUTF8(string(text), "\uFFFD"), err == nil && !bytes.ContainsRune(text, 0)
}

// IsText reports whether a media type is text by its name.
func IsText(media string) bool {
	return strings.HasPrefix(media, "text/") || IsJSON(media) || textual.MatchString(media)
}

var textual = regexp.MustCompile(`^application/(.+\+)?(xml|yaml|x-yaml|javascript|x-javascript|ecmascript|csv|` +
	`x-www-form-urlencoded|graphql|x-ndjson|ndjson|jsonl|sql|sparql-query|toml)$`)

// byZeros returns the encoding of a text whose first characters are ASCII, such as JSON, by the positions of its zero
// bytes. It is nil where there are none.
func byZeros(body []byte) encoding.Encoding {
	switch zero := func(i int) bool { return i < len(body) && body[i] == 0 }; {
	case len(body) < 2:
		return nil
	case zero(0) && zero(1) && zero(2) && !zero(3):
		return utf32.UTF32(utf32.BigEndian, utf32.IgnoreBOM)
	case zero(1) && zero(2) && zero(3) && !zero(0):
		return utf32.UTF32(utf32.LittleEndian, utf32.IgnoreBOM)
	case zero(0) && !zero(1):
		return unicode.UTF16(unicode.BigEndian, unicode.IgnoreBOM)
	case zero(1) && !zero(0):
		return unicode.UTF16(unicode.LittleEndian, unicode.IgnoreBOM)
	}
	return nil
}
