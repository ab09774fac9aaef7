// Package problem is the only error type whose text clients may see. It has a kind from a closed list, a stable code
// and a message.
//
// Use cases return it. The HTTP layer translates it into a response in one place. Any other error is internal, and its
// text is not sent to clients. The package knows no HTTP status and imports only the standard library.
package problem

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// Kind is the category of a problem.
type Kind int

// The kinds. The HTTP layer maps each to one status.
const (
	Internal           Kind = iota // a fault of the service
	Invalid                        // the request is malformed
	TooLarge                       // the request is too large
	Unauthenticated                // no valid key
	Forbidden                      // a valid key without the right
	NotFound                       // does not exist, or no longer
	Conflict                       // the state of the resource does not allow it
	PreconditionFailed             // an If-Match that does not match
	Limited                        // a limit is reached; later it may succeed
	Unavailable                    // nothing was done; retry
	Full                           // nothing was done: the disk is full
)

// Field is a fault of one field of a request: its location and a message.
type Field struct {
	Location string `json:"location"`
	Message  string `json:"message"`
}

// Error is a problem as clients see it. Use [As] to find one in an error.
type Error struct {
	Kind       Kind
	Code       string         // stable; listed in the OpenAPI document
	Message    string         // for humans
	Fields     []Field        // for Invalid
	Extras     map[string]any // further members of the response's body
	RetryAfter time.Duration  // for Limited and Unavailable
	Cause      error          // for the log, never sent to clients
}

func (e *Error) Error() string {
	if e.Cause != nil {
		return e.Message + ": " + e.Cause.Error()
	}
	return e.Message
}

func (e *Error) Unwrap() error { return e.Cause }

// With adds a member to the response's body, and returns e.
func (e *Error) With(name string, value any) *Error {
	if e.Extras == nil {
		e.Extras = map[string]any{}
	}
	e.Extras[name] = value
	return e
}

// New makes a problem with a formatted message.
func New(kind Kind, code, format string, args ...any) *Error {
	return &Error{Kind: kind, Code: code, Message: fmt.Sprintf(format, args...)}
}

// InvalidField makes a problem of the kind [Invalid] that names the field.
func InvalidField(location, format string, args ...any) *Error {
	message := fmt.Sprintf(format, args...)
	return &Error{
		Kind: Invalid, Code: "invalid_request", Message: location + ": " + message,
		Fields: []Field{{Location: location, Message: message}},
	}
}

// InvalidIf is [InvalidField] if bad is true, else nil. Several of them in [cmp.Or] are a list of checks.
func InvalidIf(bad bool, location, format string, args ...any) error {
	if !bad {
		return nil
	}
	return InvalidField(location, format, args...)
}

// Missing is the problem for a resource that does not exist or was deleted: [NotFound], "not_found".
func Missing(what string) *Error { return New(NotFound, "not_found", "%s does not exist", what) }

// Outside is the problem for a resource of another organization: [Forbidden], "outside_organization".
func Outside(what string) *Error {
	return New(Forbidden, "outside_organization", "%s is outside the organization of this API key", what)
}

// Retry is the problem for a temporary failure: nothing was done, and the request may be repeated. It is
// [Unavailable], "unavailable", and wraps cause.
func Retry(cause error) *Error {
	return &Error{
		Kind: Unavailable, Code: "unavailable", Message: "the service is unavailable and did nothing; try again",
		RetryAfter: time.Second, Cause: cause,
	}
}

// Exceeded is the problem for a limit of a shared thing: [Limited], "share_exceeded". The parameter what names the
// thing in the plural, as in request_bodies. The scope is organization, user or api_key. maximum is how much the scope
// may hold at the same time, used how much it holds. unit is empty for things that are counted. The caller sets
// RetryAfter.
func Exceeded(what, scope string, maximum, used int64, unit string) *Error {
	if unit != "" {
		unit = " " + unit
	}
	return New(Limited, "share_exceeded", "the limit for %s of this %s is %d%s at a time, and %d are in use; try again",
		strings.ReplaceAll(what, "_", " "), strings.ReplaceAll(scope, "_", " "), maximum, unit, used).
		With("limit", what).With("scope", scope).With("max", maximum).With("used", used)
}

// DiskFull is the problem of a request whose bytes do not fit on the disk: nothing was done. The request may be
// repeated when there is room. It is [Full], "insufficient_storage", and wraps cause.
func DiskFull(cause error) *Error {
	return &Error{
		Kind: Full, Code: "insufficient_storage", Cause: cause,
		Message: "the disk is full, so nothing was stored; try again when there is space",
	}
}

// As finds the problem in err, if it wraps one.
func As(err error) (*Error, bool) {
	return errors.AsType[*Error](err)
}

// Is reports whether err wraps a problem with this code.
func Is(err error, code string) bool {
	e, ok := As(err)
	return ok && e.Code == code
}

// Code is the code of a problem, internal for any other error, and empty for none.
func Code(err error) string {
	if err == nil {
		return ""
	}
	if p, ok := As(err); ok {
		return p.Code
	}
	return "internal"
}
