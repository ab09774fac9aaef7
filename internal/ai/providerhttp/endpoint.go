package providerhttp

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"maps"
	"net/http"
	"net/http/httptrace"
	"regexp"
	"sync/atomic"
)

// Endpoint is a provider's URL with the credentials for it.
type Endpoint struct {
	URL    string
	Header http.Header
	Client *http.Client
}

// Post sends JSON; accept is the content type of the answer. The error is that of a call without an answer. The answer
// may be a [Refusal], and its body must be closed. A request that was partly written is not sent again here: the caller
// counts it and decides.
func (e Endpoint) Post(ctx context.Context, body []byte, accept string) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, e.URL, bytes.NewReader(body))
	if err != nil {
		return nil, errors.New("its address is not valid")
	}
	maps.Copy(r.Header, e.Header)
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", accept)
	return e.Client.Do(r)
}

// Sending returns a context for a request, and a function that reports whether the whole request was sent.
func Sending(ctx context.Context) (_ context.Context, sent func() bool) {
	var wrote atomic.Bool
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		WroteRequest: func(r httptrace.WroteRequestInfo) { wrote.Store(r.Err == nil) },
	}), wrote.Load
}

// maxRefusal limits how much is read of the body of a refusal, in bytes.
const maxRefusal = 64 << 10

// Refusal reads an answer other than 200. It returns its status and its failure, with the wait that it asks for.
func Refusal(answer *http.Response) (status int, trouble Trouble) {
	raw, _ := io.ReadAll(io.LimitReader(answer.Body, maxRefusal)) // of a body that breaks off, what came
	trouble = ParseTrouble(raw)
	trouble.Wait = cmp.Or(RetryAfter(answer.Header), trouble.Wait)
	if trouble.Wait == 0 && answer.StatusCode == http.StatusTooManyRequests {
		trouble.Wait = resets(answer.Header)
	}
	return answer.StatusCode, trouble
}

// Signed returns the address of a request that AWS's SDK has signed, and the parts of it that identify us. These are
// the token, the access key id and the signature, in the form that [Redact] takes.
func Signed(r *http.Request) (address string, sent http.Header) {
	sent = http.Header{"Token": r.Header.Values("X-Amz-Security-Token")}
	for _, part := range signed.FindAllStringSubmatch(r.Header.Get("Authorization"), -1) {
		sent.Add("Signed", part[1])
	}
	return r.URL.String(), sent
}

// signed matches what identifies us in a signature. Its other parts name the service and the day.
var signed = regexp.MustCompile(`(?:Credential|Signature)=([^/,\s]+)`)
