package embedding

import (
	"errors"
	"io"

	"agentplatform/internal/ai/providerhttp"
)

// MaxReply limits the body of a reply in JSON, in bytes: numbers are written with at most 25 digits or so, some
// endpoints put each on a line of its own, and some repeat the texts, each byte of which may be six in JSON.
func MaxReply(r Request) int {
	dimensions := r.Dimensions
	if dimensions == 0 {
		dimensions = MaxDimensions
	}
	size := 64 << 10
	for _, t := range r.Texts {
		size += 6*len(t) + 48*dimensions + 1<<10
	}
	return size
}

// ErrTooLarge is that of a reply that is larger than [MaxReply].
var ErrTooLarge = errors.New("embedding: the reply is too large")

// ReadReply reads the body of a reply, and no more than [MaxReply].
func ReadReply(body io.Reader, r Request) ([]byte, error) {
	raw, err := io.ReadAll(Bounded(body, r))
	switch {
	case errors.Is(err, ErrTooLarge):
		return nil, malformed("a reply that does not end")
	case err != nil:
		return nil, Unreachable(err)
	}
	return raw, nil
}

// Bounded reads the body of a reply. It fails with [ErrTooLarge] where that is larger than [MaxReply].
func Bounded(body io.Reader, r Request) io.Reader { return &bounded{body, MaxReply(r)} }

type bounded struct {
	io.Reader

	left int
}

func (b *bounded) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	if b.left -= n; b.left < 0 {
		return 0, ErrTooLarge
	}
	return n, err
}

// Decode decodes the body of a reply, unless it has more values than a reply can need: in memory each is larger than in
// the body. The error is an [Error] without the words of the JSON library.
func Decode(body []byte, r Request, into any) error {
	values := 1000 + len(r.Texts)*(MaxDimensions+100)
	if err := providerhttp.Read(body, MaxReply(r), values, into); err != nil {
		return malformed("what its protocol does not say")
	}
	return nil
}
