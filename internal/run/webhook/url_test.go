package webhook_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/platform/egress"
	"agentplatform/internal/platform/problem"
	"agentplatform/internal/run/webhook"
)

func TestInvalidCallbackURLIsRefused(t *testing.T) {
	longest := "https://example.com/" + strings.Repeat("x", 2048-len("https://example.com/"))
	for code, urls := range map[string][]string{
		"": {
			"https://example.com", "https://example.com:1/", "HTTPS://example.com:65535/x?y#z",
			"https://[2606:4700::1111]:8443/", "https://example.com/a%20b", longest,
		},
		"callback_url_not_https": {
			"http://example.com/", "/hook", "//example.com/", "example.com", "ftp://example.com:70000/", ":",
			"wss://example.com", "https://", "https:///path", "https:path", "https://:443/", "",
		},
		"callback_url_forbidden": {
			"https://user@example.com/", "https://127.0.0.1/", "https://127.0.0.1:8443", "https://0x7f.1/",
			"https://[::1]:443/",
		},
		"invalid_request": {
			"https://example.com:0/", "https://example.com:00/", "https://example.com:65536/",
			"https://example.com:99999999999999999999/", "https://example.com:/", "https://example.com:x/",
			"https://example.com:-1/", "https://exa mple.com/",
			"https://example.com /", " https://example.com/", "https://example.com/ ", "https://example.com/a b",
			"https://example.com/\t", "https://example.com/\x00",
			"https://example.com/\u00a0", "https://exa%20mple.com/", longest + "x", "https://[fe80::1%25eth0]/",
			"https://[::1", "https://example.com/%zz",
		},
	} {
		for _, u := range urls {
			err := webhook.CheckURL(egress.Policy{}, u)
			if code == "" {
				require.NoError(t, err, "%q", u)
				continue
			}
			p, ok := problem.As(err)
			require.True(t, ok, "%q: %v", u, err)
			assert.Equal(t, code, p.Code, "%q", u)
			assert.Equal(t, "callback_url", p.Fields[0].Location, "%q", u)
		}
	}
}
