package toolkit

import (
	"context"
	"encoding/json"
	"errors"

	"agentplatform/internal/ai/tool"
)

// redacting wraps a kind. It removes credentials from all data that a server returns, before the data is stored, or
// sent to a model or a client.
type redacting struct{ tool.Kind }

func (s *Toolkits) kind(name string) redacting { return redacting{s.Kinds[name]} }

// Discover finds tools, without the credentials in their descriptions and parameters. Its errors are those of the kind.
func (k redacting) Discover(ctx context.Context, e tool.Endpoint) ([]tool.Definition, error) {
	redact := e.Credentials.Redactor()
	found, err := k.Kind.Discover(ctx, e)
	for i := range found {
		found[i].Description = redact(found[i].Description)
		found[i].Parameters = json.RawMessage(redact(string(found[i].Parameters))) // examine checks that it is a schema
	}
	return found, withoutCredentials(err, redact)
}

// caller makes the calls of a toolkit's tools.
type caller func(ctx context.Context, d tool.Definition, i tool.Invocation) (tool.Result, error)

// Session makes a session with an endpoint. That of a kind without sessions makes each call by itself, and has no end.
func (k redacting) Session(e tool.Endpoint) (_ caller, end func()) {
	call := func(ctx context.Context, d tool.Definition, i tool.Invocation) (tool.Result, error) {
		return k.Kind.Call(ctx, e, d, i)
	}
	if c, ok := k.Kind.(tool.Connector); ok {
		session := c.Session(e)
		call, end = session.Call, session.End
	}
	redact := e.Credentials.Redactor()
	return func(ctx context.Context, d tool.Definition, i tool.Invocation) (tool.Result, error) {
		r, err := call(ctx, d, i)
		r.Text = redact(r.Text)
		for n, f := range r.Files {
			r.Files[n] = tool.File{
				Name: redact(f.Name), ContentType: redact(f.ContentType), Data: []byte(redact(string(f.Data))),
			}
		}
		return r, withoutCredentials(err, redact)
	}, end
}

// Call calls a tool. Its errors are those of the kind.
func (k redacting) Call(
	ctx context.Context, e tool.Endpoint, d tool.Definition, i tool.Invocation,
) (tool.Result, error) {
	call, end := k.Session(e)
	if end != nil {
		defer end()
	}
	return call(ctx, d, i)
}

// Browse lists the offers of an endpoint besides tools. Its errors are those of the kind, and one for a kind that is
// not a tool.Browser.
func (k redacting) Browse(ctx context.Context, e tool.Endpoint) (tool.Offerings, error) {
	browser, ok := k.Kind.(tool.Browser)
	if !ok {
		return tool.Offerings{}, errors.New("toolkit: the kind cannot be browsed")
	}
	redact := e.Credentials.Redactor()
	found, err := browser.Browse(ctx, e)
	for i, r := range found.Resources {
		found.Resources[i] = tool.Resource{
			URI: redact(r.URI), Name: redact(r.Name), Description: redact(r.Description),
			ContentType: redact(r.ContentType),
		}
	}
	for i, p := range found.Prompts {
		found.Prompts[i].Name, found.Prompts[i].Description = redact(p.Name), redact(p.Description)
		for n := range p.Arguments {
			p.Arguments[n] = redact(p.Arguments[n])
		}
	}
	return found, withoutCredentials(err, redact)
}

// withoutCredentials returns an error without credentials in its text.
func withoutCredentials(err error, redact func(string) string) error {
	if err == nil {
		return nil
	}
	var known *tool.Error
	if errors.As(err, &known) {
		return &tool.Error{Message: redact(known.Message), Field: known.Field}
	}
	var question *tool.Question
	if errors.As(err, &question) {
		q := tool.Question{ID: question.ID, Text: redact(question.Text)}
		for _, option := range question.Options {
			q.Options = append(q.Options, redact(option))
		}
		return &q
	}
	if text := redact(err.Error()); text != err.Error() { // the original error is for the log
		return redacted{err, text}
	}
	return err
}

// redacted is an error with another text.
type redacted struct {
	error
	text string
}

func (s redacted) Error() string { return s.text }

func (s redacted) Unwrap() error { return s.error }
