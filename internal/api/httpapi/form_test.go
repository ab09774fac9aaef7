package httpapi_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"agentplatform/internal/api/httpapi"
	"agentplatform/internal/api/httpapi/httpapitest"
)

// A form that just stops, and a part of unknown purpose, are malformed: nothing is lost without an error.
func TestAMalformedFormIsRefused(t *testing.T) {
	e := httpapitest.New(t)
	whole := "--b\r\nContent-Disposition: form-data; name=\"agent_id\"\r\n\r\n" + e.Agent + "\r\n" +
		"--b\r\nContent-Disposition: form-data; name=\"message\"\r\n\r\nhello\r\n"
	disposed := func(header string) string { return "--b\r\nContent-Disposition: " + header + "\r\n\r\nx\r\n--b--" }
	for name, c := range map[string]struct {
		more   string
		status int
	}{
		"whole":                     {"--b--\r\n", http.StatusAccepted},
		"whole, without a line end": {"--b--", http.StatusAccepted},
		"no end":                    {"--b\r\n", http.StatusBadRequest},
		"no end, and no line end":   {"--b", http.StatusBadRequest},
		"a name that stays open":    {disposed("form-data; name=\"title"), http.StatusBadRequest},
		"a quote in a name":         {disposed("form-data; name=\"f\"; filename=\"a\"b.txt\""), http.StatusBadRequest},
		"a name without quotes":     {disposed("form-data; name=\"f\"; filename=a b.txt"), http.StatusBadRequest},
		"no disposition":            {"--b\r\nContent-Type: text/plain\r\n\r\nx\r\n--b--", http.StatusBadRequest},
		"another disposition":       {disposed("attachment; name=\"f\""), http.StatusBadRequest},
	} {
		r := httptest.NewRequest(http.MethodPost, httpapi.Base+"/chat", strings.NewReader(whole+c.more))
		r.Header.Set("Content-Type", "multipart/form-data; boundary=b")
		w := e.Do(r)
		assert.Equal(t, c.status, w.Code, "%s: %s", name, w.Body)
	}
}
