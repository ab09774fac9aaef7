package egress_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/platform/egress"
)

var addressPattern = regexp.MustCompile(`\d+\.\d+|::|localhost|example|lookup|dial|://|:\d+`)

func TestFailureNamesNoAddress(t *testing.T) {
	plain, secured := httptest.NewServer(http.NotFoundHandler()), httptest.NewTLSServer(http.NotFoundHandler())
	breaks := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		panic(http.ErrAbortHandler)
	}))
	for _, s := range []*httptest.Server{plain, secured, breaks} {
		t.Cleanup(s.Close)
	}
	refused := refusing(t)
	port := plain.URL[strings.LastIndex(plain.URL, ":"):]
	open := egress.Policy{Allow: []string{refused, host(plain.URL), host(secured.URL), host(breaks.URL)}}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for address, c := range map[string]struct {
		ctx context.Context //nolint:containedctx // a case of a test
		why string
	}{
		"http://localhost" + port:       {t.Context(), "this address is not allowed"},
		"http://127.0.0.1" + port + "/": {ended, "the request was cancelled"},
		"http://" + refused:             {t.Context(), "the connection was refused"},
		breaks.URL:                      {t.Context(), "the connection was closed early"},
		secured.URL:                     {t.Context(), "the server's certificate is from an unknown authority"},
		"https://" + host(plain.URL):    {t.Context(), "the server does not support TLS"},
		"http://nowhere.invalid":        {t.Context(), "the host name cannot be resolved"},
	} {
		request, err := http.NewRequestWithContext(c.ctx, http.MethodGet, address, nil)
		require.NoError(t, err)
		response, err := open.Client(0).Do(request)
		if err == nil {
			_ = response.Body.Close()
		}
		require.Error(t, err, address)
		failure, known := egress.Plain(err)
		assert.True(t, known, "%s: %v", address, err)
		assert.Equal(t, c.why, failure.Error(), address)
		assert.NotRegexp(t, addressPattern, failure.Error())
		assert.ErrorIs(t, failure, err, "the log may know")
	}
	for _, err := range []error{
		&net.DNSError{Err: "no such host", Name: "db.example.com", Server: "10.0.0.2:53"},
		&net.OpError{Op: "dial", Err: errors.New("10.1.2.3: odd")},
		&url.Error{Op: "Get", URL: "http://10.0.0.1/", Err: io.EOF},
		fmt.Errorf("reading from 10.0.0.1:80: %w", errors.New("odd")),
	} {
		failure, _ := egress.Plain(err)
		assert.NotRegexp(t, addressPattern, failure.Error())
	}
}

func host(address string) string { return address[strings.Index(address, "://")+3:] }

// refusing returns an address that refuses connections until the test ends. It is bound, so no other process gets it,
// and no process listens.
func refusing(t *testing.T) string {
	t.Helper()
	socket, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
	require.NoError(t, err)
	t.Cleanup(func() { _ = syscall.Close(socket) })
	require.NoError(t, syscall.Bind(socket, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}))
	bound, err := syscall.Getsockname(socket)
	require.NoError(t, err)
	return fmt.Sprintf("127.0.0.1:%d", bound.(*syscall.SockaddrInet4).Port)
}
