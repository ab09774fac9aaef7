// Package trace says what a piece of work did, how long it took and whose part it was: spans, in the sense of
// OpenTelemetry. A span that ends is given to a sink; how it leaves the process is the sink's matter (package otlp).
//
// The trace of a run follows from its id (see [StartOf]), so every hop finds it: attempts, resumes after three days,
// tries of a webhook. Nothing of it is stored or sent along, and what a nudge loses is not lost.
//
// Use cases start spans by a context. Where no tracer is in it, as in the simulation and wherever traces are off,
// nothing is made, and nothing is allocated.
//
// Spans say ids, names, counts and codes; never what a client, a model or a tool said. The package must not know what a
// run is. It imports only the standard library: neither it nor a use case knows OpenTelemetry's libraries.
package trace

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"math/rand/v2"
	"strings"
	"sync"
	"time"
)

// ID names a trace. The zero value names none.
type ID [16]byte

// SpanID names a span within a trace. The zero value names none.
type SpanID [8]byte

func (i ID) String() string     { return hex.EncodeToString(i[:]) }
func (i SpanID) String() string { return hex.EncodeToString(i[:]) }

// Kind is a span's part in a call between two programs, by OpenTelemetry's numbers.
type Kind int

// The kinds.
const (
	Internal Kind = iota + 1
	Server
	Client
	Producer // sends a message that another handles later
	Consumer // handles it
)

// Attribute is a fact about a span. Value is a string, bool, int64, float64 or []string.
type Attribute struct {
	Key   string
	Value any
}

// Link is a span elsewhere that has to do with this one.
type Link struct {
	Trace ID
	Span  SpanID
}

// Ended is a span that has ended.
type Ended struct {
	Link // its own names

	Parent     SpanID // zero: none
	Name       string
	Kind       Kind
	Start, End time.Time
	Attributes []Attribute
	Links      []Link
	Error      string // a code; empty: it did not fail
}

// Attributes of our own that spans of several packages have.
const (
	RunID          = "agentplatform.run.id"
	OrganizationID = "agentplatform.organization.id"
)

// Provider is the name of a model provider by OpenTelemetry's conventions for generative AI.
func Provider(name string) string {
	if name == "bedrock" {
		return "aws.bedrock"
	}
	return name
}

// Bounds of a span.
const (
	maxAttributes = 32
	maxText       = 256 // bytes of a text
)

// Tracer makes spans. It is safe for concurrent use; a nil Tracer makes none.
type Tracer struct {
	below uint64 // traces whose last eight bytes, shifted by one, are below it are sampled
	now   func() time.Time
	sink  func(Ended)
}

// New makes a tracer of which a share of the traces, from 0 to 1, reaches the sink. Whether a trace does depends on its
// id alone, as OpenTelemetry's TraceIdRatioBased has it, so that every process decides alike; what a caller says of its
// own trace does not matter. sink must not block and may be called by many goroutines.
func New(share float64, now func() time.Time, sink func(Ended)) *Tracer {
	return &Tracer{below: uint64(share * (1 << 63)), now: now, sink: sink}
}

func (t *Tracer) samples(id ID) bool { return binary.BigEndian.Uint64(id[8:])>>1 < t.below }

// Of is the trace of a thing with an identifier of package host, and the span that is its root. The trace's id is the
// thing's 24 digits and the last 8 of them again; the root's id is the last 16. A trace's id begins with the seconds of
// the thing's creation, as X-Ray wants it; that which sampling goes by is random. ok is false where id has another
// form.
func Of(id string) (trace ID, root SpanID, ok bool) {
	if len(id) != 24 || strings.ToLower(id) != id {
		return trace, root, false
	}
	if _, err := hex.Decode(trace[:12], []byte(id)); err != nil {
		return ID{}, root, false
	}
	copy(trace[12:], trace[8:12])
	copy(root[:], trace[4:12])
	return trace, root, trace != ID{} && root != SpanID{}
}

// place is where in a trace a context is.
type place struct {
	tracer *Tracer
	span   *Span // nil: at the beginning of a trace, or in one that is not sampled
	door   *Span // the request that all began with, if it was one
	silent bool  // in a trace that is not sampled
}

type placeKey struct{}

func placeOf(ctx context.Context) *place {
	p, _ := ctx.Value(placeKey{}).(*place)
	return p
}

func (p place) in(ctx context.Context) context.Context { return context.WithValue(ctx, placeKey{}, &p) }

// With is a context in which spans are made by t; none where t is nil.
func With(ctx context.Context, t *Tracer) context.Context {
	if t == nil {
		return ctx
	}
	return place{tracer: t}.in(ctx)
}

// Start begins a span, a part of the span in the context. Its name is the operation, and the subject if there is one.
func Start(ctx context.Context, kind Kind, operation, subject string) (context.Context, *Span) {
	at := placeOf(ctx)
	if at == nil || at.silent {
		return ctx, nil
	}
	s := at.tracer.begin(kind, operation, subject)
	if at.span == nil {
		s.Trace = newID()
	} else {
		s.Trace, s.Parent = at.span.names()
	}
	return place{tracer: at.tracer, span: s, door: at.door}.in(ctx), s
}

// StartOf is Start in the trace of a thing (see [Of]). Where the context is in another trace, the span is a part of the
// root of the thing's trace, and has a link to the span in the context.
func StartOf(ctx context.Context, id string, kind Kind, operation, subject string) (context.Context, *Span) {
	at := placeOf(ctx)
	if at == nil {
		return ctx, nil
	}
	of, root, ok := Of(id)
	if !ok {
		return Start(ctx, kind, operation, subject)
	}
	if !at.tracer.samples(of) {
		return place{tracer: at.tracer, silent: true}.in(ctx), nil
	}
	s := at.tracer.begin(kind, operation, subject)
	s.Trace, s.Parent = of, root
	if at.span != nil {
		if trace, span := at.span.names(); trace == of {
			s.Parent = span
		} else {
			s.Links = append(s.Links, Link{trace, span})
		}
	}
	return place{tracer: at.tracer, span: s}.in(ctx), s
}

// Door begins the span of a request. Its trace is one of its own until it turns out whose matter it is ([Root],
// [Join]). traceparent is that header of the request, whatever is in it: it becomes a link, so that the caller's trace
// is found from ours; it neither names our trace nor decides whether that is sampled, as callers may be strangers.
func (t *Tracer) Door(ctx context.Context, traceparent []string) (context.Context, *Span) {
	if t == nil {
		return ctx, nil
	}
	s := t.begin(Server, "", "")
	s.Trace = newID()
	if len(traceparent) == 1 {
		if from, ok := ParseParent(traceparent[0]); ok {
			s.Links = append(s.Links, from)
		}
	}
	return place{tracer: t, span: s, door: s}.in(ctx), s
}

// Root makes the request that the context belongs to the root of a thing's trace: the request has made the thing. It
// does nothing when the request is a matter of another thing already, or there is none.
func Root(ctx context.Context, id string) { move(ctx, id, true) }

// Join makes the request that the context belongs to a part of a thing's trace: the request has changed the thing. It
// does nothing when the request is a matter of another thing already, or there is none.
func Join(ctx context.Context, id string) { move(ctx, id, false) }

func move(ctx context.Context, id string, root bool) {
	at := placeOf(ctx)
	if at == nil || at.door == nil {
		return
	}
	of, first, ok := Of(id)
	if !ok {
		return
	}
	d := at.door
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case d.moved || d.done:
		return
	case root:
		d.Span = first
	default:
		d.Parent = first
	}
	d.Trace, d.moved = of, true
}

// Span is a piece of work under way. Its methods are safe for concurrent use, and do nothing where it is nil.
type Span struct {
	tracer *Tracer

	mu sync.Mutex
	Ended
	moved bool // to the trace of a thing
	done  bool
}

func (t *Tracer) begin(kind Kind, operation, subject string) *Span {
	s := &Span{tracer: t, Ended: Ended{Kind: kind, Start: t.now(), Name: operation}}
	if subject != "" {
		s.Name = short(operation + " " + subject)
	}
	for s.Span == (SpanID{}) {
		binary.NativeEndian.PutUint64(s.Span[:], rand.Uint64()) //nolint:gosec // names, no secrets
	}
	return s
}

func newID() (id ID) {
	for id == (ID{}) {
		binary.NativeEndian.PutUint64(id[:8], rand.Uint64()) //nolint:gosec // as above
		binary.NativeEndian.PutUint64(id[8:], rand.Uint64()) //nolint:gosec // as above
	}
	return id
}

// names are the span's names; a request may be moved to another trace.
func (s *Span) names() (ID, SpanID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.Trace, s.Span
}

// Rename gives the span another name: that of a request is known late.
func (s *Span) Rename(name string) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.Name = short(name)
}

// Set adds an attribute, unless the value is empty.
func (s *Span) Set(key, value string) {
	if s != nil && value != "" {
		s.add(key, short(value))
	}
}

// SetInt adds an attribute.
func (s *Span) SetInt(key string, value int64) {
	if s != nil {
		s.add(key, value)
	}
}

// SetList adds an attribute that is a list of one.
func (s *Span) SetList(key, value string) {
	if s != nil && value != "" {
		s.add(key, []string{short(value)})
	}
}

// SetFloat adds an attribute, unless there is no value.
func (s *Span) SetFloat(key string, value *float64) {
	if s != nil && value != nil {
		s.add(key, *value)
	}
}

func (s *Span) add(key string, value any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.Attributes) < maxAttributes && !s.done {
		s.Attributes = append(s.Attributes, Attribute{key, value})
	}
}

// Fail says that the work failed, by a code of ours: what others say of a failure may have their words.
func (s *Span) Fail(code string) {
	if s == nil || code == "" {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.Error = short(code)
}

// End ends the span. Another end does nothing.
func (s *Span) End() {
	if s == nil {
		return
	}
	s.mu.Lock()
	if s.done {
		s.mu.Unlock()
		return
	}
	s.done = true
	s.Ended.End = s.tracer.now()
	ended := s.Ended
	s.mu.Unlock()
	if s.tracer.samples(ended.Trace) {
		s.tracer.sink(ended)
	}
}

// short cuts a text to what a span may say, in valid UTF-8.
func short(text string) string {
	if len(text) > maxText {
		text = text[:maxText]
	}
	return strings.ToValidUTF8(text, "")
}
