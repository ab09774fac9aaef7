// Package model is the port to language models: a conversation in, streamed text and tool calls out.
//
// What the caller guarantees: messages in order, beginning with a user's; a context whose end aborts the call. What the
// adapter guarantees: the pieces given to emit, joined, equal the reply's text; a failure is an [Error] with its kind.
//
// The port must not know runs. It imports egress, for how to say that a network failed.
package model

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"

	"agentplatform/internal/egress"
)

// Role says whose message it is.
type Role string

// The roles.
const (
	User      Role = "user"
	Assistant Role = "assistant"
	Tool      Role = "tool" // results of the calls of the assistant's message before it
)

// Message is one turn of a conversation.
type Message struct {
	Role    Role
	Text    string   // of a user or assistant
	Images  []Image  // of a user
	Texts   []Text   // of a user: what files that came along say
	Calls   []Call   // of an assistant
	Results []Result // of tools
}

// Text is what a file says.
type Text struct {
	Name string // of the file
	Text string
}

// Whole is a user's text with those of the files.
func (m Message) Whole() string {
	var b strings.Builder
	b.WriteString(m.Text)
	for _, t := range m.Texts {
		fmt.Fprintf(&b, "\n\n<file name=%q>\n%s\n</file>", t.Name, t.Text)
	}
	return b.String()
}

// Image is a picture that the model is shown.
type Image struct {
	ContentType string // one of ImageTypes
	Data        []byte
}

// ImageTypes are the pictures that models take.
var ImageTypes = []string{"image/png", "image/jpeg", "image/gif", "image/webp"}

// Call is a tool call that the model asks for.
type Call struct {
	ID        string
	Name      string
	Arguments json.RawMessage // a JSON object, or whatever the model produced
}

// Object is the arguments for providers that take nothing but an object: an empty one for whatever else it was, as the
// model was told that already.
func (c Call) Object() map[string]any {
	var object map[string]any
	if json.Unmarshal(c.Arguments, &object) != nil || object == nil {
		return map[string]any{}
	}
	return object
}

// Outcome is how a call ended.
type Outcome string

// The outcomes.
const (
	Succeeded Outcome = "succeeded"
	Failed    Outcome = "failed"
	Rejected  Outcome = "rejected" // by a human
	Answered  Outcome = "answered" // by a human
)

// Result is what came of a call.
type Result struct {
	CallID  string
	Name    string
	Outcome Outcome
	Text    string
}

// Tell is the result as a model is told, whose provider knows no outcomes.
func (r Result) Tell() string {
	switch r.Outcome {
	case Failed:
		return "Error: " + r.Text
	case Rejected:
		return "A human rejected this call: " + r.Text
	default:
		return r.Text
	}
}

// AskUser is the name of the tool by which a model asks the human: arguments {"question", "options"?}.
const AskUser = "ask_user"

// Search is the name of the tool by which a model searches the agent's knowledge bases: arguments {"query"}.
const Search = "search"

// ToolSpec describes a tool to the model.
type ToolSpec struct {
	Name        string
	Description string
	Parameters  json.RawMessage // a JSON schema
}

// Request is a call of a model.
type Request struct {
	Name         string // of the model at its provider
	Temperature  *float64
	MaxTokens    *int
	Instructions string
	Messages     []Message
	Tools        []ToolSpec
	Try          int // how often this very call has failed before
}

// Reply is what the model said.
type Reply struct {
	Text         string
	Calls        []Call // empty: the model is done
	InputTokens  int64
	OutputTokens int64
	Finish       string // why it stopped: stop, tool_calls, length
	RequestID    string // by which the provider knows the call, if it said
}

// Model is the port.
type Model interface {
	// Converse calls the model, giving text to emit as it comes.
	Converse(ctx context.Context, r Request, emit func(text string)) (Reply, error)
}

// Info is a model that can be reached.
type Info struct {
	Name        string
	Description string
}

// Catalogue is what can say which models a provider has.
type Catalogue interface {
	// List names the models that can be reached now.
	List(ctx context.Context) ([]Info, error)
}

// Kind says what sort of failure it was.
type Kind string

// The kinds of failure.
const (
	Retryable  Kind = "retryable"   // the same call may succeed later
	Throttled  Kind = "throttled"   // likewise, after a wait
	Refused    Kind = "refused"     // the provider refuses the content
	TooLong    Kind = "too_long"    // the conversation does not fit
	BadRequest Kind = "bad_request" // it will never succeed
)

// Error is a failure of a model call.
type Error struct {
	Kind Kind
	Wait time.Duration // for Throttled, if the provider said
	Err  error

	whole string // for the log, where Err does not say all
}

func (e *Error) Error() string { return e.Err.Error() }
func (e *Error) Unwrap() error { return e.Err }

// Fail makes an error.
func Fail(kind Kind, format string, args ...any) error {
	return &Error{Kind: kind, Err: fmt.Errorf(format, args...)}
}

// FromHTTP makes an error from what a provider answered: its status, 0 for none, and its wish how long to wait.
func FromHTTP(status int, wait time.Duration, err error) error {
	kind := Retryable
	switch {
	case status == http.StatusTooManyRequests:
		kind = Throttled
	case status == http.StatusRequestTimeout, status == http.StatusConflict, status >= 500, status < 400:
	case tooLong.MatchString(err.Error()):
		kind = TooLong
	default:
		kind = BadRequest
	}
	return &Error{Kind: kind, Wait: wait, Err: err}
}

// BrokeOff makes the error of an answer that turned into one under way.
func BrokeOff(why string) error {
	kind := Retryable
	if tooLong.MatchString(why) {
		kind = TooLong
	}
	return &Error{Kind: kind, Err: fmt.Errorf("the model's provider broke off: %s", why)}
}

// Unreachable makes the error of a call that was not answered, or whose answer broke off. Where the provider is, is not
// the client's business.
func Unreachable(err error) error {
	failure, _ := egress.Plain(err)
	return &Error{Kind: Retryable, Err: fmt.Errorf("the model cannot be reached: %w", failure)}
}

// tooLong is how providers say, in their own words, that a conversation does not fit: none has a code for it that the
// others share.
var tooLong = regexp.MustCompile(`(?i)context.?length|context window|maximum context|too long|too many (input )?tokens|exceeds? the (model's )?(maximum|limit)`)

// RetryAfter reads a provider's wish, in seconds, from an answer's headers; 0 when it has none.
func RetryAfter(h http.Header) time.Duration {
	if ms, err := strconv.ParseFloat(h.Get("Retry-After-Ms"), 64); err == nil && ms > 0 {
		return min(time.Duration(ms*float64(time.Millisecond)), maxWait)
	}
	if s, err := strconv.ParseFloat(h.Get("Retry-After"), 64); err == nil && s > 0 {
		return min(time.Duration(s*float64(time.Second)), maxWait)
	}
	return 0
}

// maxWait bounds what a provider may ask for.
const maxWait = 5 * time.Minute

// KindOf is the kind of a failure; empty for what is none of a model.
func KindOf(err error) Kind {
	var e *Error
	if !errors.As(err, &e) {
		return ""
	}
	return e.Kind
}

// MayRetry says whether the same call may be tried again, and after how long at least.
func MayRetry(err error) (after time.Duration, ok bool) {
	var e *Error
	if !errors.As(err, &e) || (e.Kind != Retryable && e.Kind != Throttled) {
		return 0, false
	}
	return e.Wait, true
}
