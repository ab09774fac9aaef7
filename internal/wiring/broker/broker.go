// Package broker does the work that needs opened secrets, for programs that may not open them. It calls toolkits'
// servers with their credentials, posts test events signed with organizations' secrets, and calls model providers with
// the deployment's keys. On AWS it is a separate function, which only the function api may invoke. So no function that
// the internet reaches can decrypt anything. On a laptop there is one process and no broker.
//
// A request to the broker, an ask, is a named operation with a few typed arguments, never a request of a client. Its
// sender has authenticated and authorized the client. [Broker] answers with the use cases. [Client] sends asks, and has
// the methods of the same use cases. Both together behave like the use cases: results and errors stay the same,
// problems with their codes and fields. An answer never contains a secret.
//
// One operation is one call, and no call is repeated: a tool may have been called already. The sizes are bounded
// ([MaxAsk], [MaxAnswer]); an answer that is too large is a problem of kind TooLarge.
//
// The broker's work is a part of the trace of the request that caused it.
//
// The package must not know HTTP, Lambda or permissions. It imports the use cases toolkit and webhook, provider, the
// ports embedding and tool, trace, and the errors of record and seal.
package broker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	jsonv2 "github.com/go-json-experiment/json"
	oteltrace "go.opentelemetry.io/otel/trace"

	"agentplatform/internal/ai/embedding"
	"agentplatform/internal/ai/provider"
	"agentplatform/internal/ai/tool"
	"agentplatform/internal/org/toolkit"
	"agentplatform/internal/platform/egress"
	"agentplatform/internal/platform/host"
	"agentplatform/internal/platform/problem"
	"agentplatform/internal/platform/strictjson"
	"agentplatform/internal/platform/trace"
	"agentplatform/internal/run/webhook"
	"agentplatform/internal/store/record"
)

// Broker answers asks. It is safe for concurrent use.
type Broker struct {
	Toolkits   toolkit.Asker
	Webhooks   webhook.Prober
	Callbacks  egress.Policy // allowed addresses of test events
	Models     provider.Models
	Embeddings map[string]embedding.Model // by provider
	Log        *slog.Logger
}

const (
	// longestWait is the longest wait for an answer: a function behind API Gateway has 29 seconds.
	longestWait = 29 * time.Second
	// maxDepth and maxValues bound the JSON of an ask; the arguments of a tool have 64 levels.
	maxDepth, maxValues = 80, 300_000
	// maxName bounds names and ids, in bytes.
	maxName = 4096
)

// errUnapproved means that a call needs an approval that was not given.
var errUnapproved = errors.New("broker: the call needs an approval")

// refusal is the fault of an ask. Only a bug of ours makes one, or an attacker who has taken over the client.
type refusal struct{ why string }

func (r *refusal) Error() string { return "broker: the ask is none: " + r.why }

func refuse(format string, args ...any) error { return &refusal{fmt.Sprintf(format, args...)} }

// Invoke answers an ask, both as JSON. A failure is in the answer; the error is always nil. It has the form of
// [Invoker], and of a handler of Lambda.
func (b *Broker) Invoke(ctx context.Context, ask []byte) ([]byte, error) {
	var result any
	var err error
	if died := host.Catch(func() { result, err = b.answer(ctx, ask) }); died != nil {
		b.Log.Error("an ask panicked", "panic", died.Value, "stack", string(died.Stack))
		result, err = nil, errors.New("broker: the ask panicked")
	}
	if _, is := errors.AsType[*refusal](err); is {
		b.Log.Error("an ask was refused", "error", err)
	}
	return written(result, err), nil
}

func written(result any, err error) []byte {
	var a Answer
	if err != nil {
		a.Failure = failed(err)
	}
	if v, partial := result.(embedding.Reply); err == nil || partial && v.Tokens > 0 {
		raw, bad := json.Marshal(result)
		if bad != nil {
			return written(nil, fmt.Errorf("broker: the answer cannot be written: %w", bad))
		}
		a.Result = raw
	}
	raw, bad := json.Marshal(a)
	if bad != nil {
		return written(nil, fmt.Errorf("broker: the failure cannot be written: %w", bad))
	}
	if len(raw) > MaxAnswer {
		return written(nil, problem.New(problem.TooLarge, "payload_too_large",
			"the operation succeeded, but its response has %d bytes; the limit is %d", len(raw), MaxAnswer))
	}
	return raw
}

func (b *Broker) answer(ctx context.Context, raw []byte) (any, error) {
	if err := strictjson.Within(raw, strictjson.Limits{Bytes: MaxAsk, Depth: maxDepth}, maxValues); err != nil {
		return nil, refuse("%s", err)
	}
	var ask question
	if err := jsonv2.Unmarshal(raw, &ask); err != nil { // more members, of a later version, change nothing
		return nil, refuse("%s", err)
	}
	do, known := operations[ask.Operation]
	if !known {
		return nil, refuse("unknown operation %.100q", ask.Operation)
	}
	if ask.WaitMS <= 0 {
		return nil, refuse("nobody waits for the answer")
	}
	// The work may have effects, so it ends when no client waits: Lambda does not report when a client ends.
	ctx, cancel := context.WithTimeout(ctx, time.Duration(min(ask.WaitMS, longestWait.Milliseconds()))*time.Millisecond)
	defer cancel()
	if a := ask.Author; a != nil {
		if !isOwner(a.Organization) || max(len(a.UserID), len(a.APIKeyID), len(a.Operation)) > maxName {
			return nil, refuse("its author is none")
		}
		ctx = record.By(ctx, *a)
	}
	ctx = trace.Under(ctx, ask.Traceparent)
	ctx, span := trace.Start(ctx, oteltrace.SpanKindServer, "answer", string(ask.Operation))
	defer span.End()
	result, err := do(b, ctx, ask.Arguments)
	if err != nil {
		trace.Fail(span, string(failed(err).Kind))
	}
	return result, err
}

var operations = map[operation]func(*Broker, context.Context, json.RawMessage) (any, error){
	askRefresh:  reading((*Broker).refresh),
	askSelect:   reading((*Broker).choose),
	askBrowse:   reading((*Broker).browse),
	askTestCall: reading((*Broker).testCall),
	askProbe:    reading((*Broker).probe),
	askModels:   reading((*Broker).models),
	askModel:    reading((*Broker).model),
	askEmbed:    reading((*Broker).embed),
}

// reading makes an operation of a method. It reads the arguments strictly: JSON without unknown or repeated members, or
// anything after it.
func reading[A, R any](
	do func(*Broker, context.Context, A) (R, error),
) func(*Broker, context.Context, json.RawMessage) (any, error) {
	return func(b *Broker, ctx context.Context, raw json.RawMessage) (any, error) {
		var arguments A
		if err := jsonv2.Unmarshal(raw, &arguments, jsonv2.RejectUnknownMembers(true)); err != nil {
			return nil, refuse("%s", err)
		}
		return do(b, ctx, arguments)
	}
}

func isOwner(organization string) bool {
	return organization == record.NoOrganization || host.ValidID(organization)
}

// scope is that of a toolkit's organization. The toolkit must belong to it.
func scope(a toolkitRef) (record.Scope, error) {
	if !isOwner(a.Organization) || !host.ValidID(a.Toolkit) {
		return record.Scope{}, refuse("it names no toolkit")
	}
	return record.Of(a.Organization), nil
}

func (b *Broker) refresh(ctx context.Context, a refreshArguments) (toolkit.Difference, error) {
	of, err := scope(a.toolkitRef)
	if err != nil {
		return toolkit.Difference{}, err
	}
	if a.DryRun {
		return b.Toolkits.Preview(ctx, of, a.Toolkit)
	}
	return b.Toolkits.Refresh(ctx, of, a.Toolkit)
}

func (b *Broker) choose(ctx context.Context, a choice) (toolkit.Difference, error) {
	of, err := scope(a.toolkitRef)
	if err != nil {
		return toolkit.Difference{}, err
	}
	return b.Toolkits.Select(ctx, of, a.Toolkit, a.Match, a.Choice)
}

func (b *Broker) browse(ctx context.Context, a toolkitRef) (tool.Offerings, error) {
	of, err := scope(a)
	if err != nil {
		return tool.Offerings{}, err
	}
	return b.Toolkits.Browse(ctx, of, a.Toolkit)
}

func (b *Broker) testCall(ctx context.Context, a testCallArguments) (toolkit.Attempt, error) {
	of, err := scope(a.toolkitRef)
	if err != nil {
		return toolkit.Attempt{}, err
	}
	if len(a.Tool) > maxName {
		return toolkit.Attempt{}, refuse("it names no tool")
	}
	return b.Toolkits.TestCall(ctx, of, a.Toolkit, a.Tool, a.Arguments, func() error {
		if a.Approved {
			return nil
		}
		return errUnapproved
	})
}

func (b *Broker) probe(ctx context.Context, a probeArguments) (record.DeliveryAttempt, error) {
	if !isOwner(a.Organization) {
		return record.DeliveryAttempt{}, refuse("it names no organization")
	}
	if err := webhook.CheckURL(b.Callbacks, a.CallbackURL); err != nil {
		return record.DeliveryAttempt{}, err
	}
	return b.Webhooks.Probe(ctx, a.Organization, a.CallbackURL)
}

func (b *Broker) models(ctx context.Context, _ struct{}) (provider.Listing, error) {
	return b.Models.List(ctx)
}

func (b *Broker) model(ctx context.Context, a modelArguments) (struct{}, error) {
	return struct{}{}, b.Models.Check(ctx, a.Provider, a.Name, a.Skip)
}

func (b *Broker) embed(ctx context.Context, a embedArguments) (embedding.Reply, error) {
	if len(a.Texts) > atOnce.Texts {
		return embedding.Reply{}, refuse("%d texts are too many", len(a.Texts))
	}
	model, known := b.Embeddings[a.Provider]
	if !known {
		return embedding.Reply{}, embedding.Fail(embedding.BadRequest, "the provider %.100s is not configured",
			a.Provider)
	}
	return model.Embed(ctx, embedding.Request{
		Name: a.Name, Dimensions: a.Dimensions, Purpose: embedding.Purpose(a.Purpose), Texts: a.Texts,
	})
}
