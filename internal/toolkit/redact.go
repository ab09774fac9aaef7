package toolkit

import (
	"context"
	"errors"

	"agentplatform/internal/tool"
)

// discreet wraps a kind and removes credentials from everything that a server sends back, before a model or a client is
// told or it is stored.
type discreet struct{ tool.Kind }

func (s *Toolkits) kind(name string) discreet { return discreet{s.Kinds[name]} }

// Discover finds tools, without the credentials in their descriptions. Its errors are those of the kind.
func (k discreet) Discover(ctx context.Context, e tool.Endpoint) ([]tool.Definition, error) {
	strike := e.Credentials.Strike()
	found, err := k.Kind.Discover(ctx, e)
	for i := range found {
		found[i].Description = strike(found[i].Description)
	}
	return found, withoutCredentials(err, strike)
}

// Call calls a tool. Its errors are those of the kind.
func (k discreet) Call(
	ctx context.Context,
	e tool.Endpoint,
	d tool.Definition,
	i tool.Invocation,
) (tool.Result, error) {
	strike := e.Credentials.Strike()
	r, err := k.Kind.Call(ctx, e, d, i)
	r.Text = strike(r.Text)
	for n, f := range r.Files {
		r.Files[n] = tool.File{
			Name:        strike(f.Name),
			ContentType: strike(f.ContentType),
			Data:        []byte(strike(string(f.Data))),
		}
	}
	return r, withoutCredentials(err, strike)
}

// Browse lists what an endpoint offers besides tools. Its errors are those of the kind, and one for a kind that is no
// tool.Shelf.
func (k discreet) Browse(ctx context.Context, e tool.Endpoint) (tool.Offerings, error) {
	shelf, ok := k.Kind.(tool.Browser)
	if !ok {
		return tool.Offerings{}, errors.New("toolkit: the kind has no shelf")
	}
	strike := e.Credentials.Strike()
	found, err := shelf.Browse(ctx, e)
	for i, r := range found.Resources {
		found.Resources[i] = tool.Resource{
			URI: strike(
				r.URI,
			),
			Name:        strike(r.Name),
			Description: strike(r.Description),
			ContentType: strike(r.ContentType),
		}
	}
	for i, p := range found.Prompts {
		found.Prompts[i].Name, found.Prompts[i].Description = strike(p.Name), strike(p.Description)
		for n := range p.Arguments {
			p.Arguments[n] = strike(p.Arguments[n])
		}
	}
	return found, withoutCredentials(err, strike)
}

// told returns an error without credentials in its text.
func withoutCredentials(err error, strike func(string) string) error {
	if err == nil {
		return nil
	}
	var known *tool.Error
	if errors.As(err, &known) {
		return &tool.Error{Message: strike(known.Message)}
	}
	if said := strike(err.Error()); said != err.Error() { // the original error is for the log
		return struck{err, said}
	}
	return err
}

// struck is an error with another text.
type struck struct {
	error
	said string
}

func (s struck) Error() string { return s.said }

func (s struck) Unwrap() error { return s.error }
