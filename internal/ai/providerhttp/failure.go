package providerhttp

import (
	"errors"
	"fmt"
	"net/http"
	"time"
)

// Failure is a failed call of a provider. Its kinds are those of a port.
type Failure[Kind ~string] struct {
	Kind    Kind
	Wait    time.Duration // how long the provider asks to wait; 0: not given
	Err     error
	Trouble Trouble // as the provider reported it
	Cut     bool    // the connection broke while the answer came, and the caller did not end it
	// Begun: the provider got the request and did not refuse it. It may have worked on it, and may bill that.
	Begun bool
	Mute  bool // the provider had begun an answer, and nothing of it came

	whole string // text for the log, where Err does not have all of it
}

func (f *Failure[Kind]) Error() string  { return f.Err.Error() }
func (f *Failure[Kind]) Unwrap() error  { return f.Err }
func (f *Failure[Kind]) forLog() string { return f.whole }

// Fail makes a [Failure] of a kind.
func Fail[Kind ~string](kind Kind, format string, args ...any) error {
	return &Failure[Kind]{Kind: kind, Err: fmt.Errorf(format, args...)}
}

// KindOf is the kind of a failure, and empty for an error that is not a [Failure] of this port.
func KindOf[Kind ~string](err error) Kind {
	if f, is := errors.AsType[*Failure[Kind]](err); is {
		return f.Kind
	}
	return ""
}

// RedactFailure returns a failure whose text may be shown to the caller. [Redact] removes the rest. The log gets the
// text with addresses but without credentials; see [Unredacted]. The result has the kind and the wait of err. An error
// that is not a [Failure] of this port is returned unchanged.
func RedactFailure[Kind ~string](err error, address string, sent http.Header) error {
	f, is := errors.AsType[*Failure[Kind]](err)
	if !is {
		return err
	}
	shown, whole := Redact(err.Error(), address, sent)
	redacted := *f
	redacted.Err, redacted.whole = errors.New(shown), whole
	return &redacted
}

// Unredacted is the text of a failure for the log: with addresses, without credentials.
func Unredacted(err error) string {
	if f, is := errors.AsType[interface {
		error
		forLog() string
	}](err); is && f.forLog() != "" {
		return f.forLog()
	}
	return err.Error()
}
