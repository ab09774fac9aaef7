package model

import (
	"errors"
	"io"
	"sync/atomic"
	"time"
)

// Limits on a reply. A provider may send more: an adapter reads no more than this, and the caller checks the reply that
// it gets.
const (
	MaxText      = 4 << 20         // bytes of text
	MaxArguments = 4 << 20         // bytes of arguments, all calls together
	MaxStream    = 256 << 20       // bytes of a response body, with all framing
	MaxSilence   = 5 * time.Minute // without a byte of the response body
)

var (
	errEndless = errors.New("the answer does not end")
	errSilent  = errors.New("the answer stopped: the provider sent no more data")
)

// bounded is a response body that ends: reading fails after so many bytes, or when nothing arrives for so long.
type bounded struct {
	io.ReadCloser

	left    int64 // bytes
	silence time.Duration
	timer   *time.Timer
	silent  atomic.Bool // the timer has closed the body
}

func bound(body io.ReadCloser, most int64, silence time.Duration) *bounded {
	b := &bounded{ReadCloser: body, left: most, silence: silence}
	b.timer = time.AfterFunc(silence, func() {
		b.silent.Store(true)
		_ = body.Close()
	})
	return b
}

func (b *bounded) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.timer.Reset(b.silence)
	if b.left -= int64(n); b.left < 0 {
		return 0, errEndless
	}
	if err != nil && !errors.Is(err, io.EOF) && b.silent.Load() {
		err = errSilent
	}
	return n, err
}

func (b *bounded) Close() error {
	b.timer.Stop()
	return b.ReadCloser.Close()
}
