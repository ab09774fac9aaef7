// Package tool is the port to kinds of toolkits: where tools come from and how they are called.
//
// What the caller guarantees: arguments are a JSON object; a call that may be repeated after a crash carries the same
// idempotency key; a context's end aborts a call. What the adapter guarantees: a failure that the model may read is an
// [Error], without addresses or credentials; a result is at most [MaxResult] long, however much the other side sends.
//
// The port must not know runs. It imports the standard library.
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
	Parameters  json.RawMessage `json:"parameters"` // a JSON schema
	RetrySafe   bool            `json:"retry_safe"` // calling it twice with one idempotency key does no harm
}

// Definition is a tool as its kind found it.
type Definition struct {
	Spec

	// Binding is what the kind needs to call it. Nobody else reads of it more than url, which is there when calls go
	// elsewhere than to the endpoint's URL.
	Binding json.RawMessage `json:"binding,omitempty"`
}

// Origin names the server that calls go to; it is empty where that is the endpoint's own.
func (d Definition) Origin() string {
	var b struct {
		URL string `json:"url"`
	}
	if json.Unmarshal(d.Binding, &b) != nil {
		return ""
	}
	return Origin(b.URL)
}

// Endpoint is where tools are, and how to be let in. Which members a kind needs is its own matter.
type Endpoint struct {
	URL         string          // of the document or of the server
	BaseURL     string          // of the operations, where it is not the document's
	Document    []byte          // instead of a URL
	Request     json.RawMessage // of a toolkit that is a single request
	Command     []string        // of a server that is a program of this machine
	Credentials Credentials
}

// Credentials are how to be let in; the zero value is not at all. They are for the servers that they were given for,
// and are shown to no other.
type Credentials struct {
	Type     string `json:"type"` // bearer, header, query or basic
	Token    string `json:"token,omitempty"`
	Name     string `json:"name,omitempty"`
	Value    string `json:"value,omitempty"`
	Username string `json:"username,omitempty"`
	Password string `json:"password,omitempty"`

	Origins []string `json:"origins,omitempty"` // those servers, as [Origin] names them
}

// For says whether they may be shown to the server of an address. No credentials may be shown to anybody.
func (c Credentials) For(u *url.URL) bool {
	return c.Type == "" || slices.Contains(c.Origins, origin(u))
}

// Origin names the server of an address: scheme, host and port. Of what is no address it is empty.
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

// authorizes are the names of headers and parameters that let somebody in.
var authorizes = regexp.MustCompile(`(?i)auth([^o]|$)|authori[sz]|token|secret|passw|cookie|credential|session|signature|jwt|key$`)

// Authorizes says whether a header or a parameter of this name is one that lets somebody in: its value is a secret, and
// stands in credentials, which are sealed, and nowhere else.
func Authorizes(name string) bool { return authorizes.MatchString(name) }

// Invocation is a call of a tool.
type Invocation struct {
	Name           string
	Arguments      json.RawMessage
	IdempotencyKey string // "<run>-<step>-<call>"
}

// Kind is the port: a kind of toolkit.
type Kind interface {
	// Discover finds the tools at an endpoint. Its error is an [Error] where the endpoint is at fault.
	Discover(ctx context.Context, e Endpoint) ([]Definition, error)
	// Call runs a tool that Discover found.
	Call(ctx context.Context, e Endpoint, d Definition, i Invocation) (Result, error)
}

// Result is what a tool gave: text, and what is no text, as files.
type Result struct {
	Text  string
	Files []File
}

// File is a part of a result that is no text.
type File struct {
	Name        string // may be empty
	ContentType string
	Data        []byte
}

// Said is a result that is a text.
func Said(text string) Result { return Result{Text: text} }

// String is the result as a text, with a mention of its files.
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

// Shelf is what a kind may have besides: it lists what an endpoint offers beside tools.
type Shelf interface {
	Browse(ctx context.Context, e Endpoint) (Offerings, error)
}

// Offerings are what an endpoint offers beside tools.
type Offerings struct {
	Resources []Resource `json:"resources"`
	Prompts   []Prompt   `json:"prompts"`
}

// Resource is something that can be read.
type Resource struct {
	URI         string `json:"uri"`
	Name        string `json:"name"`
	Description string `json:"description"`
	ContentType string `json:"content_type"`
}

// Prompt is a message with gaps.
type Prompt struct {
	Name        string   `json:"name"`
	Description string   `json:"description"`
	Arguments   []string `json:"arguments"`
}

// The bounds of what a kind takes from the other side.
const (
	MaxResult   = 20 << 20 // bytes of a result
	MaxDocument = 10 << 20 // bytes of a description of tools
	MaxTools    = 500      // of a toolkit
	MaxSchema   = 64 << 10 // bytes of a tool's parameters
)

// Offer is a tool that an agent may call, with the rules for it.
type Offer struct {
	Spec

	Own         string // its name in its toolkit, whatever it is offered under; empty: that one
	Source      string // which tool it is, whatever name it is offered under; empty: its name says
	Fingerprint string // what it is, as [Fingerprint] tells it
	Approval    Approval
	Timeout     time.Duration
	Call        func(ctx context.Context, i Invocation) (Result, error)
}

// Fingerprint tells a tool from what it was before: whoever lets a call of it pass has seen this very definition at
// this very place.
func Fingerprint(place, definition any) string {
	b, err := json.Marshal([]any{place, definition})
	if err != nil {
		panic("tool: a definition cannot be encoded: " + err.Error()) // it was read from JSON
	}
	var normal any // the same, however its members are ordered
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	if d.Decode(&normal) == nil {
		b, _ = json.Marshal(normal)
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// Is says whether this is the tool that a call was asked of, as it was then. An earlier program noted no fingerprint,
// and some tools need none.
func (o Offer) Is(source, fingerprint string) bool {
	return source == "" || source == o.Source && (fingerprint == "" || fingerprint == o.Fingerprint)
}

// Listed says whether a list of names means one of the tools that are offered. Others decide under which name a tool is
// offered: by what they offer, take back or call their toolkit. So a tool is meant by its own name, too, and by each
// longer one that it may have had, where no tool has that for its own.
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

// Longer makes a name of one that is taken: what comes after it tells the tool apart.
func Longer(name, after string) string {
	after = "_" + after[max(0, len(after)-MaxName/2+1):]
	return name[:min(len(name), MaxName-len(after))] + after
}

// isLonger says whether [Longer] may have made a name of another.
func isLonger(longer, name string) bool {
	return strings.HasPrefix(longer, name+"_") || (len(name) > MaxName/2 && strings.HasPrefix(longer, name[:MaxName/2]))
}

// Taken are the names of what the loop itself offers: no tool is offered under one of them.
var Taken = []string{"ask_user", "search"}

// Approval says when a call needs a human's approval: never, always, or when an argument matches a pattern.
type Approval struct {
	Mode     string `json:"mode,omitempty"` // never (or empty), always, when
	Argument string `json:"argument,omitempty"`
	Pattern  string `json:"pattern,omitempty"` // a regular expression; empty: whenever the argument is there
}

// Asks says whether a call with these arguments, in their normal form, needs approval, and why. What cannot be read
// asks, rather than lets pass. A member counts whatever the case of its name, as there are servers that do not look at
// it; of a value that is no text, the pattern is held against its JSON and against each text and number in it.
func (a Approval) Asks(arguments json.RawMessage) (why string, asks bool) {
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

// texts are what a pattern is held against: a value that is a text itself; else its JSON, and the texts and numbers in
// it.
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

// Error is a failure that the model is told.
type Error struct{ Message string }

func (e *Error) Error() string { return e.Message }

// Fail makes an error.
func Fail(format string, args ...any) error { return &Error{Message: fmt.Sprintf(format, args...)} }

// Clip keeps as much of a text as its reader needs: of what a failure or a description says.
func Clip(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	return strings.ToValidUTF8(text[:limit], "") + "…"
}

// EnoughText is how much of a failure or a description of the other side is told.
const EnoughText = 2000

var unfit = regexp.MustCompile(`[^a-zA-Z0-9_-]+`)

// MaxName is how long a tool's name may be: what every provider of models takes.
const MaxName = 64

// Name makes a name that every provider of models takes from any text.
func Name(text string) string {
	name := strings.Trim(unfit.ReplaceAllString(text, "_"), "_")
	if len(name) > MaxName {
		name = name[:MaxName]
	}
	if name == "" {
		return "tool"
	}
	return name
}
