package embedding

import (
	"io"
	"net/http"

	"agentplatform/internal/ai/providerhttp"
)

// MaxReply limits the body of a reply in JSON, in bytes. Numbers have at most about 25 digits. Some endpoints write
// each number on a line of its own. Some repeat the texts, and each byte of a text may take six in JSON.
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

// Bounded reads the body of a reply. It fails with [http.MaxBytesError] where that is larger than [MaxReply].
func Bounded(body io.ReadCloser, r Request) io.ReadCloser {
	return http.MaxBytesReader(nil, body, int64(MaxReply(r)))
}

// Decode decodes the body of a reply, unless it has more values than a reply can need: a value takes more space in
// memory than in the body. The error is an [Error] without the words of the JSON library.
func Decode(body []byte, r Request, into any) error {
	values := 1000 + len(r.Texts)*(MaxDimensions+100)
	if err := providerhttp.Read(body, MaxReply(r), values, into); err != nil {
		return malformed("a reply that does not follow its protocol")
	}
	return nil
}
