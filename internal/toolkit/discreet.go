package toolkit

import (
	"context"
	"errors"

	"agentplatform/internal/tool"
)

// discreet wraps a kind and removes credentials that a server repeats. Everything that a kind returns passes
// through it before a model or a client reads it or it is stored.
type discreet struct{ tool.Kind }

func (s *Toolkits) kind(name string) discreet { return discreet{s.Kinds[name]} }

// Discover finds tools and removes credentials from their definitions. Errors are the kind's, without credentials.
func (k discreet) Discover(ctx context.Context, e tool.Endpoint) ([]tool.Definition, error) {
	strike := e.Credentials.Strike()
	found, err := k.Kind.Discover(ctx, e)
	for i := range found {
		found[i].Description = strike(found[i].Description)
	}
	return found, told(err, strike)
}

// Call runs a tool. The result and the error are the kind's, without credentials.
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
	return r, told(err, strike)
}

// Browse lists what an endpoint offers beside tools, for kinds that implement [tool.Shelf]. Errors are the kind's,
// without credentials.
func (k discreet) Browse(ctx context.Context, e tool.Endpoint) (tool.Offerings, error) {
	shelf, ok := k.Kind.(tool.Shelf)
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
	return found, told(err, strike)
}

// told is an error whose text contains no credentials.
func told(err error, strike func(string) string) error {
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
