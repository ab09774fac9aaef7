package tool

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"html"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Redacted replaces credentials in a text.
const Redacted = "[credentials]"

// leastSecret is the shortest secret that is removed, in bytes: a shorter one would occur in every text.
const leastSecret = 4

// Redactor makes a function that removes credentials from texts of servers that received them. It removes them as they
// were given, as requests and responses encode them, in base64 and in hex. It also removes an incomplete one at the end
// of a text that [Clip] has cut. Secrets of [enough] bytes are also found in any mix of escapes, spaced out and
// reversed, see [views]. Nothing else is removed: a tool's result is data. Texts of model providers are treated more
// strictly, see providerhttp.Redact.
func (c Credentials) Redactor() func(text string) string {
	secrets := c.secrets()
	forms := formsOf(secrets)
	if len(forms) == 0 {
		return func(text string) string { return text }
	}
	pairs := make([]string, 0, 2*len(forms))
	for _, form := range forms {
		pairs = append(pairs, form, Redacted)
	}
	replacer := strings.NewReplacer(pairs...)
	wanted := sought(secrets)
	return func(text string) string {
		text = replacer.Replace(text)
		for n, v := range views {
			text = v.without(text, wanted[n])
		}
		if rest, cut := strings.CutSuffix(text, "…"); cut {
			for _, form := range forms {
				for n := min(len(form), len(rest)); n >= leastSecret; n-- {
					if strings.HasSuffix(rest, form[:n]) {
						return rest[:len(rest)-n] + Redacted + "…"
					}
				}
			}
		}
		return text
	}
}

// secrets are the parts of the credentials that others must not read.
func (c Credentials) secrets() []string {
	secrets := []string{c.Token, c.Value, c.Password}
	if fields := strings.Fields(c.Value); len(fields) > 1 { // as in "Bearer …"
		secrets = append(secrets, fields[len(fields)-1])
	}
	if c.Type == "basic" {
		pair := []byte(c.Username + ":" + c.Password)
		secrets = append(secrets, base64.RawStdEncoding.EncodeToString(pair),
			base64.RawURLEncoding.EncodeToString(pair))
		if c.Password == "" { // then the user name is the secret
			secrets = append(secrets, c.Username)
		}
	}
	return slices.DeleteFunc(secrets, func(secret string) bool { return len(secret) < leastSecret })
}

// formsOf are the encodings of secrets, the longest first.
func formsOf(secrets []string) (forms []string) {
	for _, secret := range secrets {
		quoted, _ := json.Marshal(secret)
		inJSON := inside(string(quoted))
		for _, form := range []string{
			secret, html.EscapeString(secret), url.QueryEscape(secret), url.PathEscape(secret),
			(&url.URL{Path: secret}).EscapedPath(),
			inJSON, strings.ReplaceAll(inJSON, "/", `\/`), inside(strconv.Quote(secret)),
			inside(strconv.QuoteToASCII(secret)),
		} {
			forms = append(forms, form, escaped.ReplaceAllStringFunc(form, strings.ToLower))
		}
		if len(secret) > leastSecret {
			inHex := hex.EncodeToString([]byte(secret))
			forms = append(append(forms, inBase64(secret)...), inHex, strings.ToUpper(inHex))
		}
	}
	slices.SortFunc(forms, func(a, b string) int { return cmp.Or(cmp.Compare(len(b), len(a)), strings.Compare(a, b)) })
	return slices.Compact(forms)
}

func inside(quoted string) string { return quoted[1 : len(quoted)-1] }

var escaped = regexp.MustCompile(`%[0-9A-F]{2}`)

// inBase64 returns the part of a secret's base64 that does not depend on the bytes around it, in both alphabets. A
// secret may begin at each of the three positions in a group of bytes; there is a form for each.
func inBase64(secret string) (forms []string) {
	for before := range 3 {
		whole := base64.RawStdEncoding.EncodeToString([]byte(strings.Repeat("-", before) + secret))
		part := whole[(before*8+5)/6 : (before+len(secret))*8/6]
		forms = append(forms, part, strings.NewReplacer("+", "-", "/", "_").Replace(part))
	}
	return forms
}

// enough is the shortest length in bytes of a secret that is searched for in views. There, words of other texts may
// stand next to each other.
const enough = 8

// view is a text as a reader would decode it. next returns the first byte of the decoded text, and the number of bytes
// of the text that stand for it. A byte below 0 stands for nothing.
type view struct {
	next func(text string) (c int, n int)
}

// views are two views of a text: without white space and with its escapes decoded, and its hex digits without
// separators.
var views = [2]view{{plainly}, {digits}}

// sought are the byte sequences that are searched for in each of the views.
func sought(secrets []string) (forms [len(views)][][]byte) {
	for _, secret := range secrets {
		if secret = strings.Join(strings.Fields(secret), ""); len(secret) < enough {
			continue
		}
		backwards := []byte(secret)
		slices.Reverse(backwards)
		forms[0] = append(forms[0], []byte(secret), backwards)
		for _, part := range inBase64(secret) {
			forms[0] = append(forms[0], []byte(part))
		}
		var short, long []byte // two digits for each byte, and four as in \u0041
		for _, b := range []byte(secret) {
			two := hex.EncodeToString([]byte{b})
			short, long = append(short, two...), append(long, "00"+two...)
		}
		forms[1] = append(forms[1], short, long)
	}
	return forms
}

// without removes text that reads as one of some forms in the view of a text. It reads the text once, and once more if
// there is such a form.
func (v view) without(text string, forms [][]byte) string {
	if len(forms) == 0 {
		return text
	}
	seen := make([]byte, 0, len(text))
	for at := 0; at < len(text); {
		c, n := v.next(text[at:])
		if at += n; c >= 0 {
			seen = append(seen, byte(c))
		}
	}
	hidden := map[int]int{} // from the first byte of the view to the one after the last
	for _, form := range forms {
		for at := 0; ; {
			found := bytes.Index(seen[at:], form)
			if found < 0 {
				break
			}
			hidden[at+found] = max(hidden[at+found], at+found+len(form))
			at += found + len(form)
		}
	}
	if len(hidden) == 0 {
		return text
	}
	var b strings.Builder
	index, until := 0, 0
	for at := 0; at < len(text); {
		c, n := v.next(text[at:])
		if c >= 0 {
			if end := hidden[index]; end > until {
				if index >= until {
					b.WriteString(Redacted)
				}
				until = end
			}
			index++
		}
		if index > until || c < 0 && index >= until {
			b.WriteString(text[at : at+n])
		}
		at += n
	}
	return b.String()
}

// plainly decodes the escapes of a byte in JSON, JavaScript, HTML and addresses.
func plainly(text string) (c, n int) {
	switch text[0] {
	case ' ', '\t', '\r', '\n':
		return -1, 1
	case '%':
		return number(text, "%", 2, 16, "")
	case '\\':
		if len(text) < 2 {
			break
		}
		switch text[1] {
		case 'u':
			return number(text, `\u`, 4, 16, "")
		case 'x':
			return number(text, `\x`, 2, 16, "")
		case 'n', 'r', 't':
			return -1, 2
		}
		return int(text[1]), 2
	case '&':
		if strings.HasPrefix(text, "&#x") || strings.HasPrefix(text, "&#X") {
			return number(text, text[:3], 6, 16, ";")
		}
		return number(text, "&#", 7, 10, ";")
	}
	return int(text[0]), 1
}

// number decodes a number of so many digits, or fewer before an end. Otherwise the first byte stands for itself.
func number(text, begin string, size, base int, end string) (c, n int) {
	rest, found := strings.CutPrefix(text, begin)
	if end != "" {
		size = strings.Index(rest[:min(len(rest), size+len(end))], end)
	}
	if !found || size < 1 || len(rest) < size {
		return int(text[0]), 1
	}
	value, err := strconv.ParseUint(rest[:size], base, 8) // a larger one is not a byte
	if err != nil {
		return int(text[0]), 1
	}
	return int(value), len(begin) + size + len(end)
}

// digits reads hex digits, in lower case, and skips the separators between them.
func digits(text string) (c, n int) {
	switch b := text[0]; {
	case b >= 'A' && b <= 'F':
		return int(b) + 'a' - 'A', 1
	case b == '0' && len(text) > 1 && (text[1] == 'x' || text[1] == 'X'):
		return -1, 2
	case strings.IndexByte(" \t\r\n%:,;.-_&#\\xXuU", b) >= 0:
		return -1, 1
	default:
		return int(b), 1
	}
}
