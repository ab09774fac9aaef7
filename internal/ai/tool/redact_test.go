package tool_test

import (
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"html"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"agentplatform/internal/ai/tool"
)

// each writes each byte of a text in a form.
func each(form, between, text string) string {
	var all []string
	for _, b := range []byte(text) {
		all = append(all, fmt.Sprintf(form, b))
	}
	return strings.Join(all, between)
}

func reversed(text string) string {
	b := []byte(text)
	slices.Reverse(b)
	return string(b)
}

// If a server repeats a secret in another form, no part of it is shown that anybody could decode. Nothing else is lost.
func TestAnEncodedSecretIsRemoved(t *testing.T) {
	const secret = "s3cret!Wörd+/=42"
	std, web := base64.StdEncoding.EncodeToString, base64.URLEncoding.EncodeToString
	folded := std([]byte("user:" + secret))
	forms := map[string]string{
		"plain": secret, "base64": std([]byte(secret)), "base64 of an address": web([]byte(secret)),
		"one byte before": std([]byte("x" + secret + "yz")), "two bytes before": web([]byte("xx" + secret + "y")),
		"Basic": "Basic " + std([]byte("user:"+secret)), "base64 in lines": folded[:9] + "\r\n " + folded[9:],
		"hex": hex.EncodeToString([]byte(secret)), "HEX": strings.ToUpper(hex.EncodeToString([]byte(secret))),
		"parted hex": each("%02x", ":", secret), "a dump": each("0x%02X", ", ", secret),
		"percent": each("%%%02x", "", secret), "query": url.QueryEscape(secret), "path": url.PathEscape(secret),
		"component": strings.ReplaceAll(url.QueryEscape(secret), "%21", "!"), "JavaScript": each(`\x%02x`, "", secret),
		"JSON": strings.ReplaceAll(secret, "/", `\/`), "entities": each("&#x%x;", "", secret),
		"HTML": html.EscapeString(secret), "decimal": each("&#%d;", "", secret),
		"spaced": each("%c", " ", "s3cret!Word42"), "reversed": reversed(secret),
	}
	for name, form := range forms {
		c := tool.Credentials{Type: "bearer", Token: secret}
		if name == "spaced" {
			c.Token = "s3cret!Word42"
		}
		got := c.Redactor()("it is " + form + ", and no more")
		assert.True(t, strings.HasPrefix(got, "it is "), "%s: %s", name, got)
		assert.True(t, strings.HasSuffix(got, ", and no more"), "%s: %s", name, got)
		assert.Contains(t, got, tool.Redacted, name)
		most := len("it is ") + len(tool.Redacted) + len("Basic dXNlcj") + len(", and no more") + 6
		assert.Less(t, len(got), most, "%s: %s", name, got)
	}
	redact := tool.Credentials{Type: "query", Value: "s3cret!Word42"}.Redactor()
	assert.Equal(t, `{"a":"[credentials]"}`, redact(`{"a":"`+each(`\u%04x`, "", "s3cret!Word42")+`"}`))
}

// Short secrets are removed as they are and in few forms: other texts would contain the other forms by chance.
func TestATextWithoutTheSecretIsWhole(t *testing.T) {
	text := strings.Repeat("the pass word of a bath is 70 61 73 73, or c3Nh&#112; 100%ab \\u00zz &#x; 0x \\", 3)
	for _, secret := range []string{"abc", "wxyz", "pass word of a boat", "70617373!"} {
		redact := tool.Credentials{Type: "basic", Username: "somebody", Password: secret}.Redactor()
		assert.Equal(t, text, redact(text), secret)
	}
	assert.Equal(t, "a [credentials] b", tool.Credentials{Type: "bearer", Token: "wxyz"}.Redactor()("a wxyz b"))
	both := tool.Credentials{Type: "bearer", Token: "12345678"}.Redactor()("12345678 1 2345678 x 8 7654321 1234567")
	assert.Equal(t, "[credentials] [credentials] x [credentials] 1234567", both)
}
