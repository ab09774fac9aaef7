// Package model is the port to language models: a conversation in, streamed text and tool calls out.
//
// The caller guarantees:
//   - Messages are in order and begin with a user's.
//   - Ending the context aborts the call.
//
// The adapter guarantees:
//   - It sends the request as [Request.Sendable] makes it.
//   - The pieces given to emit, concatenated, equal the reply's text.
//   - Every failure is an [Error] with a kind.
//
// The package also has the parts that adapters share: streams of events, drafts of replies, lists of models, bounds. It
// must not know runs. It imports egress, to report network failures, providerhttp, to read providers' failures,
// paragraph, to recognize blank texts, and schema, as each provider accepts only some schemas of tools.
package model

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"agentplatform/internal/ai/providerhttp"
	"agentplatform/internal/platform/egress"
	"agentplatform/internal/platform/schema"
)

// Role is the author of a message.
type Role string

// The roles.
const (
	User      Role = "user"
	Assistant Role = "assistant"
	Tool      Role = "tool" // results of the calls of the assistant message before it
)

// Message is one message of a conversation.
type Message struct {
	Role     Role
	Text     string   // of a user or assistant
	Images   []Image  // of a user
	Texts    []Text   // of a user: text extracted from attached files
	Passages string   // found for a user's message, in the form of the results of [Search]
	Calls    []Call   // of an assistant
	Results  []Result // of tools
}

// Text is the text extracted from an attached file.
type Text struct {
	Name string // of the file
	Text string
}

// FullText returns a user message's text, followed by the texts of its files and its passages. Passages have no tag
// around them, which a document could close: each is a line of JSON, and no text ends its string.
func (m Message) FullText() string {
	var b strings.Builder
	b.WriteString(m.Text)
	for _, t := range m.Texts {
		fmt.Fprintf(&b, "\n\n<file name=%q>\n%s\n</file>", t.Name, t.Text)
	}
	if m.Passages != "" {
		fmt.Fprintf(&b, "\n\nPassages found in the knowledge bases:\n%s", m.Passages)
	}
	return b.String()
}

// Size is the number of bytes of text in messages, with their calls and results.
func Size(messages ...Message) (n int) {
	for _, m := range messages {
		n += len(m.Text) + len(m.Passages)
		for _, c := range m.Calls {
			n += len(c.Name) + len(c.Arguments)
		}
		for _, t := range m.Texts {
			n += len(t.Text)
		}
		for _, r := range m.Results {
			n += len(r.Note) + len(r.Text)
		}
	}
	return n
}

// Image is a picture shown to the model.
type Image struct {
	ContentType string // one of ImageTypes
	Data        []byte
}

// ImageTypes are the content types of pictures that all models accept.
var ImageTypes = []string{"image/png", "image/jpeg", "image/gif", "image/webp"}

// Call is a tool call that the model requests.
type Call struct {
	ID        string
	Name      string
	Arguments json.RawMessage // a JSON object, or the text that the model wrote instead
}

// Object returns the call's arguments as an object, for providers that accept nothing else. Arguments that are not a
// JSON object become an empty one. The model got the error as the call's result.
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

// Result is the result of a call.
type Result struct {
	CallID  string
	Name    string
	Outcome Outcome
	Text    string
	Note    string // of the service about the call; it stands before the text
}

// ForModel is the text for the model: the result with its outcome in words, as providers' APIs have no field for it.
func (r Result) ForModel() string {
	text := r.Text
	switch r.Outcome {
	case Failed:
		text = "Error: " + text
	case Rejected:
		text = "A human rejected this call: " + text
	}
	if r.Note != "" {
		return r.Note + "\n" + text
	}
	return text
}

// AskUser is the name of the tool by which a model asks the human; arguments: {"question", "options"?}.
const AskUser = "ask_user"

// Question is the arguments of a call of [AskUser].
func Question(question string, options []string) json.RawMessage {
	arguments, _ := json.Marshal(struct { // strings can be encoded
		Question string   `json:"question"`
		Options  []string `json:"options,omitempty"`
	}{question, options})
	return arguments
}

// Search is the name of the tool by which a model searches the agent's knowledge bases; arguments: {"query"}.
const Search = "search"

// SearchTool is the tool with that name.
var SearchTool = ToolSpec{
	Name: Search,
	Description: "Searches the documents of the knowledge bases and returns numbered passages. Search before you " +
		"answer what documents may say; search again, in other words, when the passages do not answer.",
	Parameters: json.RawMessage(`{"type":"object","properties":{"query":{"type":"string","minLength":1,` +
		`"maxLength":4000,"description":"what to look for, in words that the documents may use"}},` +
		`"required":["query"],"additionalProperties":false}`),
}

// ToolSpec describes a tool to the model.
type ToolSpec struct {
	Name        string
	Description string
	Parameters  json.RawMessage // a JSON schema
}

// Request is one call of a model.
type Request struct {
	Name         string // of the model at its provider
	Temperature  *float64
	MaxTokens    *int
	Instructions string
	Messages     []Message
	Tools        []ToolSpec
	Options      Options
	Attempt      int // how often this call has failed before
}

// Declared are the tools to declare to providers that refuse a conversation with calls otherwise. They are the tools of
// the request. Where it has none, they are those that its conversation has calls of, by their names.
func (r Request) Declared() []ToolSpec {
	if len(r.Tools) > 0 {
		return r.Tools
	}
	var called []ToolSpec
	for _, m := range r.Messages {
		for _, c := range m.Calls {
			if !slices.ContainsFunc(called, func(t ToolSpec) bool { return t.Name == c.Name }) {
				called = append(called, ToolSpec{
					Name: c.Name, Description: "No longer exists.",
					Parameters: schema.Anything,
				})
			}
		}
	}
	return called
}

// Reply is the model's answer.
type Reply struct {
	Text         string
	Calls        []Call // empty: the model has finished
	InputTokens  int64
	OutputTokens int64
	Finish       string // why it stopped: stop, tool_calls or length
	RequestID    string // the provider's id of the call, where it sends one
	Model        string // that answered, in the provider's words; may be empty
}

// WindowFull is the stop reason that providers send for a reply that ended because the context window is full.
const WindowFull = "model_context_window_exceeded"

// Model is the port. Implementations are safe for concurrent use.
type Model interface {
	// Converse calls the model once and passes text to emit as it arrives. Its error is an [Error], or the context's.
	// With an error, also one of an ended context, the reply has the InputTokens and OutputTokens that the provider
	// reported until then; 0: it reported none. The other members of that reply have no meaning.
	Converse(ctx context.Context, r Request, emit func(text string)) (Reply, error)
}

// Info describes a model that can be reached.
type Info struct {
	Name        string `json:"name"`
	Description string `json:"description"`
}

// Catalogue lists the models of a provider.
type Catalogue interface {
	// List returns the models that can be reached now. The text of its error may be shown to clients.
	List(ctx context.Context) ([]Info, error)
}

// Kind classifies a failure; retries depend on it.
type Kind string

// The kinds of failure.
const (
	Retryable  Kind = "retryable"   // the same call may succeed later
	Throttled  Kind = "throttled"   // as Retryable, after a wait
	Refused    Kind = "refused"     // the provider refuses the content
	TooLong    Kind = "too_long"    // the conversation exceeds the model's context window
	BadRequest Kind = "bad_request" // the same call never succeeds
)

// Error is a failed model call.
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

// Unredacted is [providerhttp.Unredacted].
func Unredacted(err error) string { return providerhttp.Unredacted(err) }

// FromHTTP makes the [Error] of an error response, from its HTTP status and its report.
func FromHTTP(status int, trouble providerhttp.Trouble) error {
	cause := trouble.Cause(status)
	return &Error{Kind: kinds[cause], Wait: trouble.Wait, Trouble: trouble, Err: fmt.Errorf("%sanswered %d: %s",
		cause.In(provider), status, cmp.Or(trouble.Message, http.StatusText(status)))}
}

// BrokeOff makes the [Error] of an answer that reports a failure while it is streamed. It is retryable, unless the
// report means otherwise.
func BrokeOff(trouble providerhttp.Trouble) error {
	cause := trouble.Cause(0)
	return &Error{Kind: kinds[cause], Wait: trouble.Wait, Trouble: trouble, Err: fmt.Errorf("%sbroke off: %s",
		cause.In(provider), cmp.Or(trouble.Message, "no reason given"))}
}

const provider = "the model's provider"

// kinds are the kinds of failures by their causes.
var kinds = map[providerhttp.Cause]Kind{
	providerhttp.Passing: Retryable, providerhttp.Throttled: Throttled, providerhttp.TooLong: TooLong,
	providerhttp.Filtered: Refused, providerhttp.UsedUp: BadRequest, providerhttp.BadKey: BadRequest,
	providerhttp.Denied: BadRequest, providerhttp.Wrong: BadRequest,
}

// Refuses reports whether a failure means that the provider does not know or take a parameter of the request.
func Refuses(err error, parameter string) bool {
	e, is := errors.AsType[*Error](err)
	return is && e.Trouble.Refuses(parameter)
}

// Unreachable makes the retryable [Error] of a call that got no answer or whose answer broke off. The text does
// not contain the provider's address: clients see it.
func Unreachable(err error) error {
	failure, _ := egress.Plain(err)
	return &Error{Kind: Retryable, Err: fmt.Errorf("the model cannot be reached: %w", failure)}
}

// Begin marks a failure as one of a call that the provider had begun: it got the request and did not refuse it.
func Begin(err error) error {
	if f, is := errors.AsType[*Error](err); is {
		f.Begun = true
	}
	return err
}

// Begun reports whether the provider may have worked on a failed call of which no part of a reply arrived: see [Begin].
// It is true for an ended context, where this is not known.
func Begun(err error) bool {
	if f, is := errors.AsType[*Error](err); is && f.Begun {
		return true
	}
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

// Mute reports whether a call failed because nothing of its answer arrived.
func Mute(err error) bool {
	f, is := errors.AsType[*Error](err)
	return is && f.Mute
}

// MayRetry reports whether the same call may be retried, and the shortest time to wait before that.
func MayRetry(err error) (after time.Duration, ok bool) {
	var e *Error
	if !errors.As(err, &e) || (e.Kind != Retryable && e.Kind != Throttled) {
		return 0, false
	}
	return e.Wait, true
}
