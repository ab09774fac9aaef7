package httpapi_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/api/httpapi"
	"agentplatform/internal/api/httpapi/httpapitest"
)

// A client that sends the whole request before it reads the answer finds the answer, though the body was refused.
func TestARefusalReachesWhoSendsTheWholeBodyFirst(t *testing.T) {
	e := httpapitest.New(t)
	e.MaxBody = 1 << 20
	s := served(t, e)
	keyless := e.As("none")
	file := "--b\r\nContent-Disposition: form-data; name=\"f\"; filename=\"f\"\r\n\r\n"
	message := "--b\r\nContent-Disposition: form-data; name=\"message\"\r\n\r\n"
	for name, c := range map[string]struct {
		who          httpapitest.API
		path, before string
		kind         string
		status       int
	}{
		"without a key":   {keyless, "/agents", "", "application/json", http.StatusUnauthorized},
		"JSON":            {e, "/agents", `{"name":"`, "application/json", http.StatusRequestEntityTooLarge},
		"a form":          {e, "/chat", file, "multipart/form-data; boundary=b", http.StatusRequestEntityTooLarge},
		"a file":          {e, "/files", file, "multipart/form-data; boundary=b", http.StatusRequestEntityTooLarge},
		"a long message":  {e, "/chat", message, "multipart/form-data; boundary=b", http.StatusBadRequest},
		"no such route":   {e, "/nothing", "", "application/json", http.StatusNotFound},
		"another method":  {e, "/agents/" + e.Agent, "", "application/json", http.StatusMethodNotAllowed},
		"a malformed run": {e, "/runs/x/resume", "", "application/json", http.StatusNotFound},
	} {
		for _, chunked := range []bool{false, true} {
			const rest = 8 << 20
			head := fmt.Sprintf("Content-Type: %s\r\nContent-Length: %d\r\n", c.kind, len(c.before)+rest)
			if chunked {
				head = fmt.Sprintf("Content-Type: %s\r\nTransfer-Encoding: chunked\r\n", c.kind)
			}
			connection := dialAndWrite(t, s, c.who.Head("POST", httpapi.Base+c.path, head))
			require.NoError(t, connection.SetDeadline(time.Now().Add(patience)))
			send(t, connection, c.before, chunked, name)
			for range rest >> 16 {
				send(t, connection, strings.Repeat("x", 1<<16), chunked, name)
			}
			answer, err := http.ReadResponse(bufio.NewReader(connection), nil)
			require.NoError(t, err, name)
			assert.Equal(t, c.status, answer.StatusCode, name)
			_, err = io.Copy(io.Discard, answer.Body)
			require.NoError(t, err, name)
			_ = connection.Close()
		}
	}
}

func send(t *testing.T, to net.Conn, text string, chunked bool, name string) {
	t.Helper()
	if chunked && text != "" {
		text = fmt.Sprintf("%x\r\n%s\r\n", len(text), text)
	}
	_, err := io.WriteString(to, text)
	require.NoError(t, err, name)
}
