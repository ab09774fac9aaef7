package model

import (
	"encoding/base64"
	"encoding/hex"
	"errors"
	"net/http"
	"net/netip"
	"net/url"
	"regexp"
	"strings"
)

// Discreet makes a failure one that may be shown to whoever waits for the run: a provider may repeat in its words
// whatever it was sent, and name what it sees of our network. Of the words nothing stays that we sent in the header, or
// in the address, to let us in, however it is spelled, and no address of anything: a failure is nobody's data, so
// rather too much goes. What the log is told, see [Whole], keeps addresses.
func Discreet(err error, address string, sent http.Header) error {
	var e *Error
	if !errors.As(err, &e) {
		return err
	}
	words := err.Error()
	whole := secretsOf(address, sent).strike(words[:min(len(words), maxWhole)])
	shown := whole
	if at, err := url.Parse(address); err == nil && strings.ContainsAny(at.Hostname(), ".-0123456789") {
		shown = regexp.MustCompile(`(?i)`+regexp.QuoteMeta(at.Hostname())).ReplaceAllString(shown, struck)
	}
	for _, kind := range addresses {
		shown = kind.ReplaceAllString(shown, struck)
	}
	shown = hexAndColons.ReplaceAllStringFunc(shown, func(text string) string {
		if _, err := netip.ParseAddr(text); err != nil {
			return text
		}
		return struck
	})
	if len(shown) > maxShown {
		shown = shown[:maxShown] + "…"
	}
	return &Error{
		Kind:  e.Kind,
		Wait:  e.Wait,
		Err:   errors.New(strings.ToValidUTF8(shown, "")),
		whole: strings.ToValidUTF8(whole, ""),
	}
}

// Whole is what a failure says, for the log.
func Whole(err error) string {
	var e *Error
	if errors.As(err, &e) && e.whole != "" {
		return e.whole
	}
	return err.Error()
}

const (
	maxWhole = 64 << 10 // bytes of a failure, for the log
	maxShown = 1 << 10  // bytes of it, for everybody else
	struck   = "[…]"
)

// addresses are how places in a network are named; an IPv6 address is looked at more closely.
var (
	addresses = []*regexp.Regexp{
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

// secrets are texts of which no part may be shown that is long enough to tell one from another.
type secrets struct {
	parts map[string]bool // all that are telling long
	short []string        // whole, where they are shorter than that
}

const (
	telling = 8 // letters and digits
	least   = 4 // of what is a secret at all
)

func secretsOf(address string, sent http.Header) secrets {
	s := secrets{parts: map[string]bool{}}
	for _, values := range sent {
		for _, v := range values {
			s.add(v)
			if _, credentials, is := strings.Cut(v, " "); is { // behind the name of a scheme
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

// add adds a secret in all its spellings.
func (s *secrets) add(secret string) {
	s.spelling(secret)
	s.spelling(url.QueryEscape(secret))
	s.spelling(hex.EncodeToString([]byte(secret)))
	for before := range 3 { // a group of four letters may begin at each of three bytes
		text := base64.RawStdEncoding.EncodeToString([]byte(strings.Repeat("x", before) + secret))
		text = text[min(len(text), (before*8+5)/6):] // without letters that tell of what stands before
		s.spelling(text[:max(0, len(text)-1)])       // nor the last, which may tell of what stands behind
	}
}

func (s *secrets) spelling(text string) {
	letters, _ := bare(text)
	if len(letters) >= least && len(letters) < telling {
		s.short = append(s.short, letters)
	}
	for i := 0; i+telling <= len(letters); i++ {
		s.parts[letters[i:i+telling]] = true
	}
}

// bare is a text's ASCII letters and digits, in lower case, and where each stands: what is put between them hides
// nothing.
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

// strike is a text without what is secret in it.
func (s secrets) strike(text string) string {
	letters, at := bare(text)
	var out strings.Builder
	kept, end := 0, 0 // text up to kept is in out; letters up to end are struck
	hide := func(from, to int) {
		if from >= end {
			out.WriteString(text[kept:at[from]])
			out.WriteString(struck)
		}
		end = max(end, to)
		kept = at[end-1] + 1
	}
	for i := range letters {
		if i+telling <= len(letters) && s.parts[letters[i:i+telling]] {
			hide(i, i+telling)
		}
		for _, short := range s.short {
			if strings.HasPrefix(letters[i:], short) {
				hide(i, i+len(short))
			}
		}
	}
	return out.String() + text[kept:]
}
