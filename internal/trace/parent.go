package trace

import (
	"context"
	"encoding/hex"
	"net/http"
	"strings"
)

// header is how the span of a caller is named in requests (W3C Trace Context).
const header = "Traceparent"

// ParseParent reads a traceparent as W3C Trace Context defines it: versions 00 to fe, in lower-case digits, neither
// name zero; after version 00 nothing else, after a later one only what a dash separates. ok is false for anything
// else.
func ParseParent(text string) (from Link, ok bool) {
	const whole = len("00-00000000000000000000000000000000-0000000000000000-00")
	if len(text) < whole || text[2] != '-' || text[35] != '-' || text[52] != '-' || !digits(text[:2]) ||
		!digits(text[3:35]) || !digits(text[36:52]) || !digits(text[53:whole]) {
		return from, false
	}
	switch version, rest := text[:2], text[whole:]; {
	case version == "ff", version == "00" && rest != "", rest != "" && rest[0] != '-':
		return from, false
	}
	_, _ = hex.Decode(from.Trace[:], []byte(text[3:35]))
	_, _ = hex.Decode(from.Span[:], []byte(text[36:52]))
	return from, from.Trace != ID{} && from.Span != SpanID{}
}

func digits(text string) bool {
	return !strings.ContainsFunc(text, func(r rune) bool { return (r < '0' || r > '9') && (r < 'a' || r > 'f') })
}

// Parent is the traceparent for requests that are a part of the context's span; empty where that is not sampled.
func Parent(ctx context.Context) string {
	at := placeOf(ctx)
	if at == nil || at.span == nil {
		return ""
	}
	trace, span := at.span.names()
	if !at.tracer.samples(trace) {
		return ""
	}
	return "00-" + trace.String() + "-" + span.String() + "-01"
}

// Under is a context whose spans are parts of the span that a traceparent names; where it names none, nothing is
// made. It is for what another program of ours says by [Parent], not for what a stranger may.
func Under(ctx context.Context, traceparent string) context.Context {
	at := placeOf(ctx)
	if at == nil {
		return ctx
	}
	from, ok := ParseParent(traceparent)
	if !ok {
		return place{tracer: at.tracer, silent: true}.in(ctx)
	}
	return place{tracer: at.tracer, span: &Span{tracer: at.tracer, Ended: Ended{Link: from}, done: true}}.in(ctx)
}

// Outgoing makes requests say which span they are a part of, unless they say something else or that is not sampled.
// Nothing but its name and that of its trace is sent: no state and no baggage.
func Outgoing(next http.RoundTripper) http.RoundTripper { return outgoing{next} }

type outgoing struct{ next http.RoundTripper }

func (o outgoing) RoundTrip(r *http.Request) (*http.Response, error) {
	if p := Parent(r.Context()); p != "" && r.Header.Get(header) == "" {
		r = r.Clone(r.Context())
		r.Header.Set(header, p)
	}
	return o.next.RoundTrip(r)
}

// CloseIdleConnections is for [http.Client.CloseIdleConnections].
func (o outgoing) CloseIdleConnections() {
	if c, ok := o.next.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}
