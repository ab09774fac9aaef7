package tool

import (
	"cmp"
	"encoding/base64"
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

// Redactor makes a function that removes credentials from texts of servers that received them: as they were given,
// and as requests and responses encode them; also an incomplete one at the end of a text that [Clip] has cut.
// Nothing else is removed: a tool's result is data. Texts of model providers are treated more strictly, see
// providerhttp.Redact.
func (c Credentials) Redactor() func(text string) string {
	forms := c.forms()
	if len(forms) == 0 {
		return func(text string) string { return text }
	}
	pairs := make([]string, 0, 2*len(forms))
	for _, form := range forms {
		pairs = append(pairs, form, Redacted)
	}
	replacer := strings.NewReplacer(pairs...)
	return func(text string) string {
		text = replacer.Replace(text)
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

// forms are the encodings of the secrets, the longest first.
func (c Credentials) forms() (forms []string) {
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
	for _, secret := range secrets {
		if len(secret) < leastSecret {
			continue
		}
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
	}
	slices.SortFunc(forms, func(a, b string) int { return cmp.Or(cmp.Compare(len(b), len(a)), strings.Compare(a, b)) })
	return slices.Compact(forms)
}

// inside is a quoted text without its quotes.
func inside(quoted string) string { return quoted[1 : len(quoted)-1] }

var escaped = regexp.MustCompile(`%[0-9A-F]{2}`)
