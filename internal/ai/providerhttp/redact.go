package providerhttp

import (
	"encoding/base64"
	"encoding/hex"
	"net/http"
	"net/netip"
	"net/url"
	"regexp"
	"strings"
)

// Redact returns the part of a failure's text that may be shown to the caller. Providers repeat parts of requests in
// their messages and name addresses of our network. Redact removes every network address. It also removes every
// credential that was sent in the header or in the address, in any encoding in which it is repeated. It removes too
// much rather than too little. whole is for the log: it has the addresses, but not the credentials.
func Redact(words, address string, sent http.Header) (shown, whole string) {
	whole = secretsOf(address, sent).redact(words[:min(len(words), maxWhole)])
	shown = whole
	if at, err := url.Parse(address); err == nil && strings.ContainsAny(at.Hostname(), ".-0123456789") {
		shown = regexp.MustCompile(`(?i)`+regexp.QuoteMeta(at.Hostname())).ReplaceAllString(shown, redacted)
	}
	for _, kind := range addresses {
		shown = kind.ReplaceAllString(shown, redacted)
	}
	shown = hexAndColons.ReplaceAllStringFunc(shown, func(text string) string {
		if _, err := netip.ParseAddr(text); err != nil {
			return text
		}
		return redacted
	})
	if len(shown) > maxShown {
		shown = shown[:maxShown] + "…"
	}
	return strings.ToValidUTF8(shown, ""), strings.ToValidUTF8(whole, "")
}

const (
	maxWhole = 64 << 10 // bytes of a failure in the log
	maxShown = 1 << 10  // bytes of it for everybody else
	redacted = "[…]"
)

// addresses matches masked keys, network addresses and host names; an IPv6 address is parsed to avoid false matches.
var (
	addresses = []*regexp.Regexp{
		regexp.MustCompile(`[^\s"'<>:]*\*{3,}[^\s"'<>:]*`), // a key that the provider has masked itself
		regexp.MustCompile(`(?i)[a-z][a-z0-9+.-]*://[^\s"'<>]+`),
		regexp.MustCompile(`arn:[a-z-]+:[^\s"'<>]+`),
		regexp.MustCompile(`\d{1,3}(\.\d{1,3}){3}(:\d+)?`),
		regexp.MustCompile(`(?i)\b[a-z0-9_.-]*[a-z][a-z0-9_.-]*:\d{2,5}\b`),
		regexp.MustCompile(
			`(?i)\blocalhost\b|\b([a-z0-9_-]+\.)+(internal|local|localdomain|lan|corp|intranet|svc)\b(\.[a-z0-9-]+)*`,
		),
	}
	hexAndColons = regexp.MustCompile(`(?i)\b[0-9a-f]{1,4}(:[0-9a-f]{0,4}){2,7}|::[0-9a-f][0-9a-f:]*`)
)

// secrets are texts of which no part may be shown that is long enough to identify one of them.
type secrets struct {
	parts map[string]bool // all substrings that are long enough to reveal a secret
	short []string        // secrets shorter than that, removed only as a whole
}

const (
	minPart = 8 // letters and digits: the shortest part that identifies a secret
	least   = 4 // a shorter text is not treated as a secret
)

func secretsOf(address string, sent http.Header) secrets {
	s := secrets{parts: map[string]bool{}}
	for _, values := range sent {
		for _, v := range values {
			s.add(v)
			if _, credentials, is := strings.Cut(v, " "); is { // after the name of an authentication scheme
				s.add(credentials)
			}
		}
	}
	if at, err := url.Parse(address); err == nil {
		if password, is := at.User.Password(); is {
			s.add(password)
			s.add(at.User.Username() + ":" + password)
		}
		for _, values := range at.Query() {
			for _, v := range values {
				s.add(v)
			}
		}
	}
	return s
}

// add adds a secret in all its encodings: as it is, percent-encoded, in hexadecimal digits and in base64.
func (s *secrets) add(secret string) {
	s.spelling(secret)
	s.spelling(url.QueryEscape(secret))
	s.spelling(hex.EncodeToString([]byte(secret)))
	for before := range 3 { // a base64 group of four letters may start at each of three bytes
		text := base64.RawStdEncoding.EncodeToString([]byte(strings.Repeat("x", before) + secret))
		text = text[min(len(text), (before*8+5)/6):] // without the letters that also depend on the bytes before it
		// and without the last letter, which may depend on the bytes after it
		s.spelling(text[:max(0, len(text)-1)])
	}
}

func (s *secrets) spelling(text string) {
	letters, _ := bare(text)
	if len(letters) >= least && len(letters) < minPart {
		s.short = append(s.short, letters)
	}
	for i := 0; i+minPart <= len(letters); i++ {
		s.parts[letters[i:i+minPart]] = true
	}
}

// bare returns a text's ASCII letters and digits in lower case, and the offset of each. So the search also finds a
// secret with punctuation inserted.
func bare(text string) (letters string, at []int) {
	var b strings.Builder
	for i := range len(text) {
		switch c := text[i]; {
		case '0' <= c && c <= '9', 'a' <= c && c <= 'z':
			b.WriteByte(c)
		case 'A' <= c && c <= 'Z':
			b.WriteByte(c + 'a' - 'A')
		default:
			continue
		}
		at = append(at, i)
	}
	return b.String(), at
}

func (s secrets) redact(text string) string {
	letters, at := bare(text)
	var out strings.Builder
	kept, end := 0, 0 // text before kept is written to out; letters before end are removed
	hide := func(from, to int) {
		if from >= end {
			out.WriteString(text[kept:at[from]])
			out.WriteString(redacted)
		}
		end = max(end, to)
		kept = at[end-1] + 1
	}
	for i := range letters {
		if i+minPart <= len(letters) && s.parts[letters[i:i+minPart]] {
			hide(i, i+minPart)
		}
		for _, short := range s.short {
			if strings.HasPrefix(letters[i:], short) {
				hide(i, i+len(short))
			}
		}
	}
	return out.String() + text[kept:]
}
