// Package tool is the port to kinds of toolkits: where tools come from and how they are called.
//
// The caller guarantees:
//   - Arguments are a JSON object.
//   - A call that may be repeated after a crash carries the same idempotency key.
//   - Ending the context aborts a call.
//
// The adapter guarantees:
//   - A failure that the model may read is an [Error] without addresses or credentials.
//   - A result is at most [MaxResult] bytes, however much the other side sends.
//
// The package must not know runs. It imports the standard library.
package tool

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"
)

// Spec describes a tool to a model.
type Spec struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Parameters  json.RawMessage `json:"parameters" shape:"object"` // a JSON schema
	RetrySafe   bool            `json:"retry_safe"`                // calls with the same idempotency key do no harm
}

// Definition is a tool as its kind discovered it. Names of a discovery may be alike; toolkits number them.
type Definition struct {
	Spec

	// Own is the server's own name of the tool, if the binding does not have it as its member name. Two tools with
	// different own names are different tools.
	Own string `json:"-"`
	// ReadOnly: the server declares that a call changes nothing. A binding with a method needs no declaration.
	ReadOnly bool `json:"-"`

	// Binding is the data that the kind needs for a call. Other packages read only its members name (the server's own
	// name of the tool), method, url and beside. url is set if calls go to another address than the endpoint's URL.
	Binding json.RawMessage `json:"binding,omitempty"`
	// Problem is why the tool cannot be called, in words; empty where it can.
	Problem string `json:"-"`
}

// Origin is the server that calls go to; empty where that is the endpoint's own.
func (d Definition) Origin() string {
	var b struct {
		URL string `json:"url"`
	}
	if json.Unmarshal(d.Binding, &b) != nil {
		return ""
	}
	return Origin(b.URL)
}

// Beside reports whether the document names the tool's server for its path or operation alone, besides its own server.
func (d Definition) Beside() bool {
	var b struct {
		Beside bool `json:"beside"`
	}
	return json.Unmarshal(d.Binding, &b) != nil || b.Beside
}

// Endpoint is where tools are, and the credentials for them. Each kind uses other members.
type Endpoint struct {
	URL         string       // of the document or of the server
	BaseURL     string       // of the operations, where it is not the document's
	Document    []byte       // instead of a URL
	Request     *HTTPRequest // of a toolkit that is a single request
	Command     []string     // of a server that is a program on this machine
	Selection   Selection    // of the operations of a document
	Requested   *Selection   // the part of it that this request sets; nil: none, the selection is stored
	Names       Names
	Credentials Credentials
}

// Names are the names of a toolkit's tools, by the server's own names of them.
type Names map[string][]string

// HTTPRequest is the one request of a toolkit of the kind http, as its owner describes it.
type HTTPRequest struct {
	Name        string            `json:"name,omitempty" doc:"the name of the tool"`
	Description string            `json:"description,omitempty"`
	Method      string            `json:"method,omitempty"`
	Headers     map[string]string `json:"headers,omitempty"`
	Query       []string          `json:"query,omitempty" doc:"arguments that become query parameters"`
	Body        string            `json:"body,omitempty" doc:"the argument that is the JSON body"`
	Parameters  json.RawMessage   `json:"parameters,omitempty" shape:"object" doc:"a JSON schema"`
}

// Credentials authorize requests; the zero value means none. They are sent only to the servers that they were
// given for.
type Credentials struct {
	Type     string `json:"type"` // bearer, header, query or basic
	Token    string `json:"token,omitempty"`
	Name     string `json:"name,omitempty"`
	Value    string `json:"value,omitempty"`
	Username string `json:"username,omitempty"`
	Password string `json:"password,omitempty"`

	Origins []string `json:"origins,omitempty"` // those servers, in the form of [Origin]
}

// For reports whether the credentials may be sent to the server of an address. Empty credentials may be sent to any.
func (c Credentials) For(u *url.URL) bool {
	return c.Type == "" || slices.Contains(c.Origins, origin(u))
}

// Origin is the server of an address as scheme, host and port; empty where the address is invalid.
func Origin(address string) string {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" {
		return ""
	}
	return origin(u)
}

func origin(u *url.URL) string {
	host, scheme := strings.ToLower(u.Hostname()), strings.ToLower(u.Scheme)
	port := u.Port()
	if port == "" {
		port = map[string]string{"https": "443", "http": "80"}[scheme]
	}
	return scheme + "://" + strings.TrimSuffix(net.JoinHostPort(host, port),
		map[string]string{"https": ":443", "http": ":80"}[scheme])
}

// authorizes matches names of headers and parameters that carry credentials.
var authorizes = regexp.MustCompile(`(?i)auth([^o]|$)|authori[sz]|token|secret|passw|cookie|credential|` +
	`session|signature|jwt|key$`)

// Authorizes reports whether a header or a parameter of this name carries credentials. Its value is then a secret and
// belongs only into Credentials, which are sealed.
func Authorizes(name string) bool { return authorizes.MatchString(name) }

// Invocation is a call of a tool.
type Invocation struct {
	Name           string
	Arguments      json.RawMessage
	IdempotencyKey string // "<run>-<step>-<call>"

	Answers []Answer // to the questions of this call when it was made before
	Resumed bool     // an earlier session of the run has called the same server
}

// Question is the error of a call whose server needs an answer of a human. The call has ended without a result. It may
// be made again, with the answer.
type Question struct {
	ID      string // the same whenever the server asks the same
	Text    string
	Options []string // the answers that there are; nil: any text
}

// Limits of the options of a question, in bytes.
const (
	MaxOption  = 500
	MaxOptions = 16 << 10 // of all together
)

// FitOptions reports whether a human can choose from these.
func FitOptions(options []string) bool {
	size := 0
	for _, one := range options {
		size += len(one)
	}
	return size <= MaxOptions && !slices.ContainsFunc(options, func(one string) bool { return len(one) > MaxOption })
}

func (q *Question) Error() string { return "the server asks its user: " + q.Text }

// Answer is a human's answer to a [Question].
type Answer struct{ Question, Text string }

// Kind is the port: a kind of toolkit. Implementations are safe for concurrent use.
type Kind interface {
	// Discover lists the tools at an endpoint. Its error is an [Error] where the endpoint is at fault, or the
	// context's.
	Discover(ctx context.Context, e Endpoint) ([]Definition, error)
	// Call runs a tool that Discover listed. Its error is an [Error] where the model may read it, a [Question], or the
	// context's.
	Call(ctx context.Context, e Endpoint, d Definition, i Invocation) (Result, error)
}

// Connector is an optional interface of a kind whose calls may share a session with the server.
type Connector interface {
	// Session makes a session, which begins with its first call. Its owner ends it.
	Session(e Endpoint) Session
}

// Session makes calls. A server may remember earlier calls of the session. It is safe for concurrent use.
type Session interface {
	// Call is that of [Kind].
	Call(ctx context.Context, d Definition, i Invocation) (Result, error)
	// End ends the session, within seconds. Nothing of it is left then: no connection, program or goroutine.
	End()
}

// Result is the result of a call: text, and everything else as files.
type Result struct {
	Text  string
	Files []File
}

// File is a part of a result that is not text.
type File struct {
	Name        string // may be empty
	ContentType string
	Data        []byte
}

// TextResult is a result of text only.
func TextResult(text string) Result { return Result{Text: text} }

// String is the result as text that mentions the files.
func (r Result) String() string {
	parts := make([]string, 0, 1+len(r.Files))
	if r.Text != "" {
		parts = append(parts, r.Text)
	}
	for _, f := range r.Files {
		parts = append(parts, fmt.Sprintf("[%d bytes of %s]", len(f.Data), f.ContentType))
	}
	return strings.Join(parts, "\n")
}

// Browser is an optional interface of a kind: it lists what an endpoint offers beside tools.
type Browser interface {
	Browse(ctx context.Context, e Endpoint) (Offerings, error)
}

// Offerings are what an endpoint offers beside tools.
type Offerings struct {
	Resources []Resource `json:"resources"`
	Prompts   []Prompt   `json:"prompts"`
}

// Resource is something that clients can read.
type Resource struct {
	URI         string `json:"uri"`
	Name        string `json:"name"`
	Description string `json:"description"`
	ContentType string `json:"content_type"`
}

// Prompt is a message template.
type Prompt struct {
	Name        string   `json:"name"`
	Description string   `json:"description"`
	Arguments   []string `json:"arguments"`
}

// Limits on what a kind accepts from the other side.
const (
	MaxResult   = 20 << 20 // bytes of a result
	MaxDocument = 32 << 20 // bytes of a description of tools
	MaxTools    = 500      // per toolkit
	MaxOffered  = 128      // in a request to a model: some providers take no more
	MaxSchema   = 64 << 10 // bytes of a tool's parameters

	MaxDescription = 16 << 10 // bytes of a tool's description
)

// Offer is a tool that an agent may call, with its rules.
type Offer struct {
	Spec

	Own         string // its name in its toolkit; empty: the same as the name it is offered under
	Source      string // identifies the tool under any name; empty: its name does
	Fingerprint string // of its definition, see [Fingerprint]
	Approval    Approval
	Timeout     time.Duration
	Call        func(ctx context.Context, i Invocation) (Result, error)
	// End ends the sessions that calls of the toolkit's tools have left open. It is set at the first of these tools, or
	// nil. The opener of tools calls it after the last call has ended, see [End].
	End func()
}

// End ends the sessions that calls of these tools have left open, concurrently where there are several. run begins a
// function and returns a function that waits for it.
func End(offers []Offer, run func(func()) func()) {
	var ends []func()
	for _, o := range offers {
		if o.End != nil {
			ends = append(ends, o.End)
		}
	}
	if len(ends) == 1 {
		ends[0]()
		return
	}
	waits := make([]func(), 0, len(ends))
	for _, end := range ends {
		waits = append(waits, run(end))
	}
	for _, wait := range waits {
		wait()
	}
}

// Fingerprint is a hash of a tool's definition and endpoint: approving a call approves exactly this definition.
func Fingerprint(endpoint, definition any) string {
	b, err := json.Marshal([]any{endpoint, definition})
	if err != nil {
		panic("tool: a definition cannot be encoded: " + err.Error()) // it was read from JSON
	}
	var normal any // makes the order of members irrelevant
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	if d.Decode(&normal) == nil {
		b, _ = json.Marshal(normal)
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// Is reports whether this is still the tool that a stored call was for. Calls of earlier program versions have no
// fingerprint, and some tools need none.
func (o Offer) Is(source, fingerprint string) bool {
	return source == "" || source == o.Source && (fingerprint == "" || fingerprint == o.Fingerprint)
}

// Listed reports whether a list of names contains a tool that is offered. The name under which a tool is offered may
// change when other toolkits are added, changed or removed. Therefore a tool also matches its own name and each longer
// name that it may have had, unless another tool has that as its own name.
func Listed(all []Offer, o Offer, list []string) bool {
	own := cmp.Or(o.Own, o.Name)
	return slices.ContainsFunc(list, func(name string) bool {
		if name = Name(name); name == own || name == o.Name {
			return true
		}
		another := o.Name == own &&
			slices.ContainsFunc(all, func(o Offer) bool { return cmp.Or(o.Own, o.Name) == name })
		return !another && isLonger(name, own)
	})
}

// Unknown returns the names of a list that no offered tool has, neither as the name under which it is offered nor as
// its own. [Listed] also matches longer names, so it is not known which tool such a name meant.
func Unknown(all []Offer, list []string) (names []string) {
	for _, one := range list {
		name := Name(one)
		if !slices.ContainsFunc(all, func(o Offer) bool { return name == o.Name || name == o.Own }) {
			names = append(names, one)
		}
	}
	return names
}

// Unlisted returns the tools that the list was has, as [Listed] reads it, and that now has no more. Its work is linear
// in the names and in the tools: all may be those of a hundred toolkits.
func Unlisted(all []Offer, was, now []string) []string {
	// open are the tools that now does not name, by the names that may have matched them.
	kept, open := map[string]bool{}, map[string]string{}
	for _, name := range now {
		kept[Name(name)] = true
	}
	for _, o := range all {
		own := cmp.Or(o.Own, o.Name)
		if kept[own] || kept[o.Name] {
			continue
		}
		open[own], open[o.Name] = own, own
		if len(own) > MaxName/2 {
			open[own[:MaxName/2]+"…"] = own
		}
	}
	names := []string{}
	for _, name := range was {
		if name = Name(name); kept[name] {
			continue
		}
		for end := len(name); end > 0; end = strings.LastIndexByte(name[:end], '_') {
			names = append(names, open[name[:end]])
		}
		names = append(names, open[name[:min(len(name), MaxName/2)]+"…"])
	}
	slices.Sort(names)
	return slices.DeleteFunc(slices.Compact(names), func(name string) bool { return name == "" })
}

// Longer makes a longer name from one that is in use, with a suffix that identifies the tool.
func Longer(name, after string) string {
	after = "_" + after[max(0, len(after)-MaxName/2+1):]
	return name[:min(len(name), MaxName-len(after))] + after
}

// isLonger reports whether [Longer] may have made one name from the other.
func isLonger(longer, name string) bool {
	return strings.HasPrefix(longer, name+"_") || (len(name) > MaxName/2 && strings.HasPrefix(longer, name[:MaxName/2]))
}

// ReservedNames are the names of the agent loop's own tools: no toolkit's tool is offered under one of them.
var ReservedNames = []string{"ask_user", "search"}

// Approval states when a call needs a human's approval: never, always, or when an argument matches a pattern.
type Approval struct {
	Mode     string `json:"mode,omitempty"` // never (or empty), always, when
	Argument string `json:"argument,omitempty"`
	Pattern  string `json:"pattern,omitempty"` // a regular expression; empty: whenever the argument is present
}

// Always is the first approval of a tool whose calls may change something.
var Always = Approval{Mode: "always"}

// Loosens reports whether some call needs an approval by was and may need none by a. Patterns are compared as texts. A
// pattern is known to match more only if it has more alternatives at its end.
func (a Approval) Loosens(was Approval) bool {
	switch {
	case was.Mode == "" || was.Mode == "never" || a.Mode == "always":
		return false
	case was.Mode != "when" || a.Mode != "when" || !strings.EqualFold(a.Argument, was.Argument):
		return true
	}
	more := strings.HasPrefix(a.Pattern, was.Pattern+"|") && !strings.Contains(was.Pattern, `\Q`)
	return a.Pattern != "" && a.Pattern != was.Pattern && !more
}

// Required reports whether a call with these arguments, in their normal form, needs approval, and why. Arguments that
// cannot be read need approval. Members match regardless of case, as some servers ignore it. For a value that is not
// text, the pattern is matched against its JSON and against each string and number in it.
func (a Approval) Required(arguments json.RawMessage) (why string, asks bool) {
	switch a.Mode {
	case "", "never":
		return "", false
	case "when":
	default:
		return "every call of this tool needs approval", true
	}
	var named map[string]json.RawMessage
	if json.Unmarshal(arguments, &named) != nil {
		return "its arguments cannot be read", true
	}
	pattern, err := regexp.Compile(a.Pattern)
	for name, value := range named {
		if strings.EqualFold(name, a.Argument) &&
			(err != nil || slices.ContainsFunc(texts(value), pattern.MatchString)) {
			return fmt.Sprintf("its argument %s matches %q", a.Argument, a.Pattern), true
		}
	}
	return "", false
}

// texts returns the texts that a pattern is matched against. For a string, that is the value itself. For any other
// value, they are its JSON and the strings and numbers in it.
func texts(value json.RawMessage) []string {
	var text string
	if value[0] == '"' && json.Unmarshal(value, &text) == nil {
		return []string{text}
	}
	list := []string{string(value)}
	d := json.NewDecoder(bytes.NewReader(value))
	d.UseNumber()
	for {
		token, err := d.Token()
		if err != nil {
			return list
		}
		switch token := token.(type) {
		case string:
			list = append(list, token)
		case json.Number:
			list = append(list, token.String())
		}
	}
}

// Error is a failure whose text the model reads. Field names the member of a selection that is wrong, if one is.
type Error struct{ Message, Field string }

func (e *Error) Error() string { return e.Message }

// Fail makes an [Error].
func Fail(format string, args ...any) error { return &Error{Message: fmt.Sprintf(format, args...)} }

// Clip cuts a text of others to at most limit bytes of whole characters, and marks the cut with "…".
func Clip(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	return strings.ToValidUTF8(text[:limit], "") + "…"
}

// EnoughText is the limit for failures, and for descriptions of resources and prompts, in bytes.
const EnoughText = 2000

// unfit reports whether a character may not stand in a tool's name.
func unfit(r rune) bool {
	return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '_' && r != '-'
}

// MaxName is the longest tool name that every model provider accepts, in bytes.
const MaxName = 64

// Name makes a tool name that every model provider accepts from any text. The name of a name is that name.
func Name(text string) string {
	name := strings.Trim(strings.Join(strings.FieldsFunc(text, unfit), "_"), "_")
	return cmp.Or(strings.TrimRight(name[:min(len(name), MaxName)], "_"), "tool")
}
