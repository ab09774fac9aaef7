package embedding

import (
	"context"
	"slices"
	"strings"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"agentplatform/internal/platform/host"
)

// Limits are what an endpoint takes.
type Limits struct {
	Texts      int           // of one call
	Bytes      int           // of all texts of one call, unless it has only one
	Characters int           // of a text; a longer one is cut
	Calls      int           // concurrent calls of one request; 0: one
	Timeout    time.Duration // of one call
}

// Call sends texts to an endpoint, in one request that keeps within the limits. Its error is an [Error]. After one of
// kind [TooLong], it is called again with less. Its reply is unchecked, as the endpoint sent it.
type Call func(ctx context.Context, r Request) (Reply, error)

// InBatches embeds texts in calls that the endpoint accepts, and scales the vectors to unit length. If the endpoint
// calls a batch too large, the batch is halved, down to one text. That text is then cut in half, down to 200
// characters. No other call is repeated.
//
// The error is an [Error] of kind [Malformed] unless the reply has one vector for each text. All vectors must have the
// requested dimensions, at most [MaxDimensions]. All numbers must be finite, and in each vector at least one must not
// be 0. Token counts that the endpoint claims are clipped to what is possible.
func InBatches(ctx context.Context, r Request, l Limits, call Call) (Reply, error) {
	s := &sender{request: r, limits: l, call: call}
	if err := s.check(); err != nil {
		return Reply{}, err
	}
	texts := make([]string, len(r.Texts))
	for i, t := range r.Texts {
		texts[i] = Cut(t, l.Characters)
	}
	vectors, err := s.sendAll(ctx, batches(texts, l))
	if err == nil {
		err = alike(vectors)
	}
	if ctx.Err() != nil {
		err = ctx.Err() // the context's error comes before those of the calls
	}
	if err != nil {
		return Reply{Tokens: s.tokens.Load()}, err
	}
	return Reply{Vectors: vectors, Tokens: s.tokens.Load()}, nil
}

// leastCut is the shortest length to which a text may be cut, in characters. A shorter piece would not represent the
// text.
const leastCut = 200

// Cut returns a text's first characters, at most so many.
func Cut(text string, characters int) string {
	if len(text) <= characters {
		return text
	}
	for at := range text {
		if characters == 0 {
			return text[:at]
		}
		characters--
	}
	return text
}

type sender struct {
	request Request
	limits  Limits
	call    Call
	tokens  atomic.Int64
}

func (s *sender) check() error {
	if d := s.request.Dimensions; d < 0 || d > MaxDimensions {
		return Fail(BadRequest, "a vector may have at most %d dimensions, not %d", MaxDimensions, d)
	}
	for i, t := range s.request.Texts {
		if strings.TrimSpace(t) == "" {
			return Fail(BadRequest, "text %d of %d is blank", i+1, len(s.request.Texts))
		}
	}
	return nil
}

// batches splits texts, in order, into batches of one call each.
func batches(texts []string, l Limits) (all [][]string) {
	from, size := 0, 0
	for i, t := range texts {
		if i > from && (i-from == l.Texts || size+len(t) > l.Bytes) {
			all = append(all, texts[from:i])
			from, size = i, 0
		}
		size += len(t)
	}
	if from < len(texts) {
		all = append(all, texts[from:])
	}
	return all
}

// sendAll sends the batches, some concurrently. The first failure ends all calls. A panic of a call becomes a panic of
// the caller.
func (s *sender) sendAll(ctx context.Context, batches [][]string) ([][]float32, error) {
	replies := make([][][]float32, len(batches))
	err := host.Each(ctx, len(batches), max(s.limits.Calls, 1), func(ctx context.Context, i int) (err error) {
		if err = ctx.Err(); err == nil {
			replies[i], err = s.send(ctx, batches[i])
		}
		return err
	})
	return slices.Concat(replies...), err
}

// send embeds the texts of a batch, in as few calls as the endpoint takes.
func (s *sender) send(ctx context.Context, texts []string) ([][]float32, error) {
	vectors, err := s.once(ctx, texts)
	if KindOf(err) != TooLong {
		return vectors, err
	}
	if half := len(texts) / 2; half > 0 {
		first, err := s.send(ctx, texts[:half])
		if err != nil {
			return nil, err
		}
		second, err := s.send(ctx, texts[half:])
		return append(first, second...), err
	}
	characters := utf8.RuneCountInString(texts[0])
	if characters <= leastCut {
		return nil, err
	}
	return s.send(ctx, []string{Cut(texts[0], max(characters/2, leastCut))})
}

// once makes one call and checks the reply.
func (s *sender) once(ctx context.Context, texts []string) ([][]float32, error) {
	ctx, cancel := context.WithTimeout(ctx, s.limits.Timeout)
	defer cancel()
	r := s.request
	r.Texts = texts
	reply, err := s.call(ctx, r)
	if err != nil {
		return nil, err
	}
	s.tokens.Add(believable(reply.Tokens, texts))
	if len(reply.Vectors) != len(texts) {
		return nil, malformed("%d vectors for %d texts", len(reply.Vectors), len(texts))
	}
	for _, v := range reply.Vectors {
		switch want := r.Dimensions; {
		case len(v) == 0, len(v) > MaxDimensions:
			return nil, malformed("a vector of %d dimensions", len(v))
		case want > 0 && len(v) != want:
			return nil, malformed("vectors of %d dimensions, where %d were asked for", len(v), want)
		case !Unit(v):
			return nil, malformed("a vector that points nowhere")
		}
	}
	return reply.Vectors, nil
}

func malformed(format string, args ...any) error {
	return Fail(Malformed, "the embedding model's provider sent "+format, args...)
}

// alike checks that vectors of one request can be compared with each other. No single call shows this.
func alike(vectors [][]float32) error {
	for _, v := range vectors {
		if len(v) != len(vectors[0]) {
			return malformed("vectors of %d and of %d dimensions", len(vectors[0]), len(v))
		}
	}
	return nil
}

// framing is how many tokens a model may put around a text.
const framing = 16

// believable clips a claim of tokens. Each token stands for at least one byte, except those put around a text.
func believable(claim int64, texts []string) int64 {
	most := int64(0)
	for _, t := range texts {
		most += int64(len(t)) + framing
	}
	return min(max(claim, 0), most)
}
