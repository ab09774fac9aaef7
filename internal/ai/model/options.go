package model

// Options are what the client of a run may set for the calls of its model.
type Options struct {
	TopP *float64
	// Effort is how much a model is to reason, as OpenAI's API names it; empty: as the provider does by default. It is
	// for adapters whose provider has such a parameter.
	Effort string
	// MustCall demands that a reply has a call: of the tool Tool, or of any where that is empty.
	MustCall bool
	Tool     string
	OneCall  bool // a reply may have one call; the loop drops others
}

// Forced reports whether a request's reply must have a call. Providers refuse that without tools.
func (r Request) Forced() bool { return r.Options.MustCall && len(r.Tools) > 0 }
