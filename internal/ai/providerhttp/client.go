package providerhttp

import (
	"net/http"
	"time"

	"agentplatform/internal/platform/trace"
)

// FirstByte limits the wait for a response's headers; the caller limits the time of the whole answer.
const FirstByte = 5 * time.Minute

// Client makes the client for calls of providers. It follows no redirects; calls carry the trace of their context.
func Client() *http.Client {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConnsPerHost, transport.ResponseHeaderTimeout = 64, FirstByte
	outgoing := trace.Outgoing(transport)
	return &http.Client{Transport: outgoing, CheckRedirect: func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse // a key is sent only to the configured address
	}}
}
