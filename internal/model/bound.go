package model

import (
	"context"
	"errors"
	"io"
	"net/http"
	"time"
)

// The bounds of a reply, whatever its provider sends. An adapter reads no further; the caller judges what it is given.
const (
	MaxText      = 4 << 20         // bytes of text
	MaxArguments = 4 << 20         // bytes of arguments, of all calls together
	MaxStream    = 256 << 20       // bytes of an answer as it comes, with all that stands around its text
	MaxSilence   = 5 * time.Minute // between two pieces of an answer
)

var (
	errEndless = errors.New("the answer does not end")
	errSilent  = errors.New("the answer broke off: nothing came any more")
)

// Bound gives a client whose answers end: after [MaxStream] bytes, or when nothing comes for [MaxSilence].
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

	ctx     context.Context //nolint:containedctx // the request's, which ends with the body
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
