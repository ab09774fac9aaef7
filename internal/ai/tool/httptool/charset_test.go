package httptool_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/ai/tool"
	"agentplatform/internal/ai/tool/httptool"
)

// answered is a tool's result, where the server answers with a content type and a body.
func answered(t *testing.T, kind, body string) tool.Result {
	t.Helper()
	result, err := request(t, http.StatusOK, kind, body)
	require.NoError(t, err)
	return result
}

func request(t *testing.T, status int, kind, body string) (tool.Result, error) {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header()["Content-Type"] = nil // no type is made up
		if kind != "" {
			w.Header().Set("Content-Type", kind)
		}
		w.WriteHeader(status)
		_, _ = w.Write([]byte(body))
	}))
	defer server.Close()
	binding, err := json.Marshal(httptool.Request{Method: "GET", URL: server.URL})
	require.NoError(t, err)
	return httptool.Do(t.Context(), http.DefaultClient, tool.Credentials{}, binding,
		tool.Invocation{Arguments: json.RawMessage(`{}`)})
}

// A character may have more bytes in a result than at the server.
func TestADecodedAnswerIsAtMostAsLargeAsAResult(t *testing.T) {
	for kind, one := range map[string]string{
		"text/plain; charset=windows-1252": "\x80", "text/plain; charset=utf-8": "\x80",
		"text/plain; charset=utf-16le": "\xac\x20", "text/plain; charset=gb18030": "\xd6\xd0", "text/plain": "\xe9",
	} {
		_, err := request(t, http.StatusOK, kind, strings.Repeat(one, tool.MaxResult/len(one)))
		require.EqualError(t, err, "the answer is over 20 MiB", kind)
		_, err = request(t, http.StatusTeapot, kind, strings.Repeat(one, tool.MaxResult/len(one)))
		require.ErrorContains(t, err, "the server answered 418", kind)
	}
	const euros = tool.MaxResult / len("€")
	assert.Len(t, answered(t, "text/plain; charset=windows-1252", strings.Repeat("\x80", euros)).Text, 3*euros)
	_, err := request(t, http.StatusOK, "text/plain; charset=windows-1252", strings.Repeat("\x80", euros+1))
	require.EqualError(t, err, "the answer is over 20 MiB")
}

func TestAnAnswerIsReadInItsCharset(t *testing.T) {
	const privet = "\xcf\xf0\xe8\xe2\xe5\xf2" // Привет in windows-1251
	for _, c := range []struct{ kind, body, want string }{
		{"text/plain; charset=iso-8859-1", "caf\xe9", "café"},
		{`text/plain; charset="ISO-8859-15"`, "\xa4 5", "€ 5"},
		{"text/plain; charset=windows-1251", privet, "Привет"},
		{"text/html; charset=koi8-r", "\xf0\xd2\xc9\xd7\xc5\xd4", "Привет"},
		{"text/plain; charset=shift_jis", "\x93\xfa\x96{", "日本"},
		{"text/plain; charset=euc-jp", "\xc6\xfc\xcb\xdc", "日本"},
		{"text/plain; charset=iso-2022-jp", "\x1b$BF|K\\\x1b(B", "日本"},
		{"text/plain; charset=gb18030", "\xd6\xd0\xce\xc4", "中文"},
		{"text/plain; charset=big5", "\xa4\xa4\xa4\xe5", "中文"},
		{"text/plain; charset=euc-kr", "\xc7\xd1\xb1\xdb", "한글"},
		{"application/json; charset=utf-16", "\xff\xfe{\x00\"\x00\xe9\x00\"\x00}\x00", `{"é"}`},
		{"application/json; charset=utf-16", "\xfe\xff\x00{\x00}", "{}"},
		{"application/json", "{\x00\"\x00\xe9\x00\"\x00}\x00", `{"é"}`},
		{"application/json; charset=utf-16be", "\x00{\x00}", "{}"},
		{"application/json", "\xef\xbb\xbf{}", "{}"},
		{"application/json", "\xff\xfe\x00\x00{\x00\x00\x00}\x00\x00\x00", "{}"},
		{"application/json", "{\x00\x00\x00}\x00\x00\x00", "{}"},
		{"application/problem+json; charset=latin1", "\"caf\xe9\"", `"café"`},
		{"text/xml", "<?xml version=\"1.0\" encoding=\"windows-1251\"?><a>" + privet + "</a>",
			"<?xml version=\"1.0\" encoding=\"windows-1251\"?><a>Привет</a>"},
		{"application/soap+xml", "<?xml version='1.0' encoding='iso-8859-1'?><a>\xe9</a>",
			"<?xml version='1.0' encoding='iso-8859-1'?><a>é</a>"},
		{"text/html", "<html><meta charset=koi8-r>\xf0\xd2\xc9", "<html><meta charset=koi8-r>При"},
		{"text/html", "<meta http-equiv='Content-Type' content='text/html; charset=iso-8859-2'>\xb1",
			"<meta http-equiv='Content-Type' content='text/html; charset=iso-8859-2'>ą"},
		{"application/json, application/json; charset=latin1", "\"caf\xe9\"", `"café"`},
		{"text/html; charset=koi8-r; charset=utf-8", "\xf0\xd2\xc9", "При"},
		{"", "caf\xe9 au lait, bient\xf4t", "café au lait, bientôt"},
		{"text/plain; charset=utf-8", "caf\xe9 au lait", "café au lait"},
		{"text/plain; charset=no-such-one", "caf\xe9 au lait", "café au lait"},
		{"text/plain; charset=", "caf\xe9 au lait", "café au lait"},
		{"text/csv", "a;caf\xe9", "a;café"},
		{"text/plain; charset=iso-8859-1", "café", "café"}, // the server is wrong
		{"text/plain; charset=utf-8", "Grüße aus Köln: größer, schöner, für Öl, ähnlich, \xff übrigens",
			"Grüße aus Köln: größer, schöner, für Öl, ähnlich, \uFFFD übrigens"},
		{"", "plain", "plain"}, {"", "", ""}, {"image/png", "not a picture", "not a picture"},
		{"nonsense", "plain", "plain"},
	} {
		got := answered(t, c.kind, c.body)
		assert.Equal(t, c.want, got.Text, "%s %q", c.kind, c.body)
		assert.Empty(t, got.Files, "%s %q", c.kind, c.body)
	}
}

func TestAnAnswerWithoutTextIsAFile(t *testing.T) {
	for kind, media := range map[string]string{
		"image/png": "image/png", "application/pdf; x=y": "application/pdf", "": "image/png", "a b": "image/png",
		"application/octet-stream": "application/octet-stream", "audio/mpeg": "audio/mpeg",
	} {
		got := answered(t, kind, "\x89PNG\r\n\x1a\n\x00\x00\xff\xd8")
		assert.Empty(t, got.Text)
		require.Len(t, got.Files, 1, kind)
		assert.Equal(t, media, got.Files[0].ContentType)
		assert.Len(t, got.Files[0].Data, 12)
	}
	assert.Len(t, answered(t, "text/plain; charset=utf-8", "a\xff\x00\x00\x00\x00b").Files, 1, "text has no zeros")
}

func TestACompressionThatCannotBeReadIsAnError(t *testing.T) {
	for coding, want := range map[string]string{"br": "(br)", "X-GZIP": "(X-GZIP)", "deflate": "answered 404",
		"utf-8": "", "identity": ""} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", coding)
			if coding == "deflate" {
				w.WriteHeader(http.StatusNotFound)
			}
			_, _ = w.Write([]byte("ok"))
		}))
		binding, err := json.Marshal(httptool.Request{Method: "GET", URL: server.URL})
		require.NoError(t, err)
		result, err := httptool.Do(t.Context(), http.DefaultClient, tool.Credentials{}, binding,
			tool.Invocation{Arguments: []byte("{}")})
		if server.Close(); want == "" {
			require.NoError(t, err)
			assert.Equal(t, "ok", result.Text)
			continue
		}
		require.ErrorContains(t, err, want)
		require.ErrorContains(t, err, "compressed in a form that cannot be read")
	}
}

// A new resource may be named by a header alone. An empty answer has no compression, though some servers name one.
func TestAnAnswerWithoutABodyIsItsLocation(t *testing.T) {
	for _, coding := range []string{"", "gzip", "br"} {
		for _, status := range []int{http.StatusOK, http.StatusCreated, http.StatusNoContent} {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Location", "/things/7")
				if coding != "" {
					w.Header().Set("Content-Encoding", coding)
				}
				w.WriteHeader(status)
			}))
			binding, err := json.Marshal(httptool.Request{Method: "POST", URL: server.URL})
			require.NoError(t, err)
			result, err := httptool.Do(t.Context(), http.DefaultClient, tool.Credentials{}, binding,
				tool.Invocation{Arguments: []byte("{}")})
			server.Close()
			require.NoError(t, err, "%s %d", coding, status)
			assert.Equal(t, "Location: /things/7", result.Text)
		}
	}
}
