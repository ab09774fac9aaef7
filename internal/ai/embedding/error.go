package embedding

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"time"

	"agentplatform/internal/ai/providerhttp"
	"agentplatform/internal/platform/egress"
)

// Kind classifies a failure; retries depend on it.
type Kind string

// The kinds of failure.
const (
	Retryable  Kind = "retryable"   // the same call may succeed later
	Throttled  Kind = "throttled"   // as Retryable, after a wait
	Malformed  Kind = "malformed"   // the reply is not what was asked for; another one may be
	TooLong    Kind = "too_long"    // one call has too many texts, or too long ones; [InBatches] mends it
	BadRequest Kind = "bad_request" // the same call never succeeds; also: there is no such model, or no right to it
)

// Error is a failed call. Its text may be shown to the caller: it has no address and no secret.
type Error = providerhttp.Failure[Kind]

// Fail makes an [Error] of a kind.
func Fail(kind Kind, format string, args ...any) error {
	return providerhttp.Fail(kind, format, args...)
}

// KindOf is the kind of a failure, and empty for an error that is not an [Error].
func KindOf(err error) Kind { return providerhttp.KindOf[Kind](err) }

// Redact is [providerhttp.RedactFailure] for an [Error].
func Redact(err error, address string, sent http.Header) error {
	return providerhttp.RedactFailure[Kind](err, address, sent)
}

// Unreachable makes the [Error] of a call that got no complete answer. Its kind is [Retryable], or [Malformed] for a
// reply larger than [MaxReply].
func Unreachable(err error) error {
	if _, is := errors.AsType[*http.MaxBytesError](err); is {
		return malformed("a reply that does not end")
	}
	failure, _ := egress.Plain(err)
	return Fail(Retryable, "the embedding model cannot be reached: %w", failure)
}

// FromHTTP makes an [Error] from a provider's HTTP status and its report.
func FromHTTP(status int, trouble providerhttp.Trouble) error {
	words := cmp.Or(trouble.Message, http.StatusText(status), "no words")
	kind := kindOf(status, trouble)
	return &Error{Kind: kind, Wait: trouble.Wait, Trouble: trouble, Err: fmt.Errorf("%sanswered %d: %s",
		trouble.Cause(status).In("the embedding model's provider"), status, words)}
}

func kindOf(status int, trouble providerhttp.Trouble) Kind {
	switch cause := trouble.Cause(status); {
	case cause == providerhttp.Throttled:
		return Throttled
	case cause == providerhttp.UsedUp, cause == providerhttp.BadKey, cause == providerhttp.Denied,
		cause == providerhttp.Filtered, status == http.StatusNotFound:
		return BadRequest
	case cause == providerhttp.TooLong, status == http.StatusRequestEntityTooLarge,
		tooLarge.MatchString(trouble.Message):
		return TooLong
	case cause == providerhttp.Passing:
		return Retryable
	case status >= http.StatusInternalServerError:
		return BadRequest
	case perMinute.MatchString(trouble.Message):
		return Throttled
	case tooMany.MatchString(trouble.Message) && !ofVectors.MatchString(trouble.Message):
		return TooLong
	}
	return BadRequest
}

// Providers share no codes for these. If another refusal is taken for one of too much, this costs a few calls. Then
// that refusal is returned.
var (
	tooLarge = regexp.MustCompile(`(?i)too large to process`) // llama.cpp answers 500
	tooMany  = regexp.MustCompile(`(?i)batch size|tokens per request|max(imum)? (request|input|item)|` +
		`max(imum)? (number of|allowed)( number of)?( \w+)? (text|input|item|token|document|string|byte|length)|` +
		`too (many|large|long)|maxlength|at most \d+|context.?(length|window)|can ?not exceed \d|` +
		`exceeds? (the )?(model's )?(max|limit)|不得超过`)
	ofVectors = regexp.MustCompile(`(?i)\bdimension`)
	perMinute = regexp.MustCompile(`(?i)\b(requests|tokens|calls) ?(per|a|/) ?(second|sec|minute|min)\b`)
)

// MayRetry reports whether the same call may be retried, and the shortest time to wait before that.
func MayRetry(err error) (after time.Duration, ok bool) {
	var e *Error
	if !errors.As(err, &e) || (e.Kind != Retryable && e.Kind != Throttled && e.Kind != Malformed) {
		return 0, false
	}
	return e.Wait, true
}
