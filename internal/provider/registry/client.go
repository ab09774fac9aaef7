package registry

import (
	"net/http"
	"time"

	"agentplatform/internal/trace"
)

// firstByte limits the wait for a response's headers; the caller limits the time of the whole answer.
const firstByte = 5 * time.Minute

// httpClient makes the client of providers that speak HTTP.
func httpClient() *http.Client {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConnsPerHost, transport.ResponseHeaderTimeout = 64, firstByte
	outgoing := trace.Outgoing(transport)
	return &http.Client{Transport: outgoing, CheckRedirect: func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse // a key is sent only to the configured address
	}}
}
