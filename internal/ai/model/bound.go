package model

import (
	"context"
	"errors"
	"io"
	"net/http"
	"time"
)

// Limits on a reply, whatever the provider sends. An adapter reads no more than this; the caller checks what it is
// given.
const (
	MaxText      = 4 << 20         // bytes of text
	MaxArguments = 4 << 20         // bytes of arguments, all calls together
	MaxStream    = 256 << 20       // bytes of a response body, with all framing
	MaxSilence   = 5 * time.Minute // without a byte of the response body
)

var (
	errEndless = errors.New("the answer does not end")
	errSilent  = errors.New("the answer broke off: nothing came any more")
)

// Bound returns a copy of a client whose response bodies end: reading fails after [MaxStream] bytes, or when
// nothing arrives for [MaxSilence].
func Bound(c *http.Client) *http.Client {
	bounded := *c
	bounded.Transport = &boundedTransport{c.Transport, MaxStream, MaxSilence}
	return &bounded
}

type boundedTransport struct {
	inner   http.RoundTripper // nil: the default
	bytes   int64
	silence time.Duration
}

func (t *boundedTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancelCause(r.Context())
	inner := t.inner
	if inner == nil {
		inner = http.DefaultTransport
	}
	answer, err := inner.RoundTrip(r.WithContext(ctx))
	if err != nil {
		cancel(nil)
		return nil, err
	}
	b := &boundedBody{ReadCloser: answer.Body, ctx: ctx, cancel: cancel, left: t.bytes, silence: t.silence}
	b.timer = time.AfterFunc(t.silence, func() { cancel(errSilent) })
	answer.Body = b
	return answer, nil
}

type boundedBody struct {
	io.ReadCloser

	ctx     context.Context //nolint:containedctx // of the request; it is cancelled with the body
	cancel  context.CancelCauseFunc
	timer   *time.Timer
	left    int64
	silence time.Duration
}

func (b *boundedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.timer.Reset(b.silence)
	if b.left -= int64(n); b.left < 0 {
		return 0, errEndless
	}
	if err != nil && !errors.Is(err, io.EOF) && errors.Is(context.Cause(b.ctx), errSilent) {
		err = errSilent
	}
	return n, err
}

func (b *boundedBody) Close() error {
	b.timer.Stop()
	defer b.cancel(nil)
	return b.ReadCloser.Close()
}
