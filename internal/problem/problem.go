// Package problem is the one error type that a client may see: a kind from a closed list, a stable code, a sentence.
//
// Use cases return it; the HTTP edge turns it into an answer in one place. Any other error is an internal one, whose
// text no client sees. The package knows no HTTP status and imports only the standard library.
package problem

import (
	"errors"
	"fmt"
	"time"
)

// Kind says what sort of answer a problem is.
type Kind int

// The kinds. Each maps to one HTTP status at the edge.
const (
	Internal           Kind = iota // our fault
	Invalid                        // the request is malformed
	TooLarge                       // the request is too large
	Unauthenticated                // no valid key
	Forbidden                      // a valid key that may not
	NotFound                       // no such thing, or no longer
	Conflict                       // the state of things forbids it
	PreconditionFailed             // an If-Match that no longer holds
	Limited                        // too much; later
	Unavailable                    // nothing was done; try again
)

// Field is one thing wrong with a request: where, and what.
type Field struct {
	Location string `json:"location"`
	Message  string `json:"message"`
}

// Error is a problem as the client is told it.
type Error struct {
	Kind       Kind
	Code       string         // stable, listed in the OpenAPI document
	Message    string         // for a human
	Fields     []Field        // for Invalid
	Extras     map[string]any // further members of the answer's body
	RetryAfter time.Duration  // for Limited and Unavailable
	Cause      error          // for the log, never for the client
}

func (e *Error) Error() string {
	if e.Cause != nil {
		return e.Message + ": " + e.Cause.Error()
	}
	return e.Message
}

func (e *Error) Unwrap() error { return e.Cause }

// With adds a member to the answer's body.
func (e *Error) With(name string, value any) *Error {
	if e.Extras == nil {
		e.Extras = map[string]any{}
	}
	e.Extras[name] = value
	return e
}

// New makes a problem.
func New(kind Kind, code, format string, args ...any) *Error {
	return &Error{Kind: kind, Code: code, Message: fmt.Sprintf(format, args...)}
}

// InvalidField is a 400 that names the field.
func InvalidField(location, format string, args ...any) *Error {
	message := fmt.Sprintf(format, args...)
	return &Error{
		Kind: Invalid, Code: "invalid_request", Message: location + ": " + message,
		Fields: []Field{{Location: location, Message: message}},
	}
}

// Missing is the answer for something that nowhere exists, or no longer.
func Missing(what string) *Error { return New(NotFound, "not_found", "%s does not exist", what) }

// Outside is the answer for something that exists in another organisation.
func Outside(what string) *Error {
	return New(Forbidden, "outside_organization", "%s is outside the organization of this API key", what)
}

// Retry says that nothing was done and the same request may be sent again.
func Retry(cause error) *Error {
	return &Error{
		Kind: Unavailable, Code: "unavailable", Message: "the service could not do this right now; nothing was done",
		RetryAfter: time.Second, Cause: cause,
	}
}

// As finds the problem in err, if it is one.
func As(err error) (*Error, bool) {
	var e *Error
	ok := errors.As(err, &e)
	return e, ok
}

// Is says whether err is a problem with this code.
func Is(err error, code string) bool {
	e, ok := As(err)
	return ok && e.Code == code
}
