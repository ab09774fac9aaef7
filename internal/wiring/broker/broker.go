// Package broker does for programs that may not open secrets what needs them opened: it asks toolkits' servers with
// their credentials, posts test events signed with organizations' secrets, and asks model providers with the
// deployment's keys. On AWS it is a function of its own, which only the function api may invoke, so that no function
// that the internet reaches can decrypt anything. On a laptop there is one process and no broker.
//
// What is asked is a named operation with a few typed arguments (package events), never a request of a client: whoever
// asks has authenticated and authorized its client. [Broker] answers, over the use cases; [Client] asks, and has the
// methods of the same use cases. Both behave as one: errors cross as they are, problems with their codes and fields. An
// answer never has a secret in it.
//
// One operation is one call, and no call is repeated: a tool may have been called already. What crosses is bounded
// ([events.MaxAsk], [events.MaxAnswer]); an answer that is too large is a problem of kind TooLarge.
//
// What the broker does is a part of the trace of the request that has it asked.
//
// The package must not know HTTP, Lambda or who may do what. It imports events, the use cases toolkit and webhook,
// provider, the port embedding, trace, and the errors of record, seal and tool.
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

	"agentplatform/events"
	"agentplatform/internal/ai/embedding"
	"agentplatform/internal/ai/provider"
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
	Callbacks  egress.Policy // where test events may go
	Models     provider.Models
	Embeddings map[string]embedding.Model // by provider
	Log        *slog.Logger
}

const (
	// longestWait is the longest that anybody waits for an answer: a function behind API Gateway has 29 seconds.
	longestWait = 29 * time.Second
	// maxDepth and maxValues bound the JSON of an ask; the arguments of a tool have 64 levels.
	maxDepth, maxValues = 80, 300_000
	// maxName bounds what is given for names and ids, in bytes.
	maxName = 4096
)

// errUnapproved says that a call needs an approval that was not given.
var errUnapproved = errors.New("broker: the call needs an approval")

// refusal says what is wrong with an ask. Only a fault of ours makes one, or somebody who has taken over the asker.
type refusal struct{ why string }

func (r *refusal) Error() string { return "broker: the ask is none: " + r.why }

func refuse(format string, args ...any) error { return &refusal{fmt.Sprintf(format, args...)} }

// Invoke answers an ask, both as JSON. What fails is in the answer; the error is always nil. It has the form of
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

// written is an answer as JSON.
func written(result any, err error) []byte {
	var a events.Answer
	if err != nil {
		a.Failure = failed(err)
	}
	if v, partial := result.(events.Vectors); err == nil || partial && v.Tokens > 0 {
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
	if len(raw) > events.MaxAnswer {
		return written(nil, problem.New(problem.TooLarge, "payload_too_large",
			"what was asked for was done, and its answer has %d bytes: %d can be sent", len(raw), events.MaxAnswer))
	}
	return raw
}

// answer does what is asked for.
func (b *Broker) answer(ctx context.Context, raw []byte) (any, error) {
	if err := strictjson.Within(raw, strictjson.Limits{Bytes: events.MaxAsk, Depth: maxDepth}, maxValues); err != nil {
		return nil, refuse("%s", err)
	}
	var ask events.Ask
	if err := jsonv2.Unmarshal(raw, &ask); err != nil { // more members, of a later version, change nothing
		return nil, refuse("%s", err)
	}
	do, known := operations[ask.Operation]
	if !known {
		return nil, refuse("there is no operation %.100q", ask.Operation)
	}
	if ask.WaitMS <= 0 {
		return nil, refuse("nobody waits for the answer")
	}
	// What is done may have effects, so it ends when nobody waits any more: Lambda does not say when an asker goes.
	ctx, cancel := context.WithTimeout(ctx, time.Duration(min(ask.WaitMS, longestWait.Milliseconds()))*time.Millisecond)
	defer cancel()
	if a := ask.Author; a != nil {
		if !isOwner(a.Organization) || max(len(a.UserID), len(a.APIKeyID), len(a.Operation)) > maxName {
			return nil, refuse("its author is none")
		}
		ctx = record.By(ctx, record.Author(*a))
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

// read reads arguments: JSON without unknown members, doubled ones, or anything after it.
func read(raw []byte, into any) error {
	if err := jsonv2.Unmarshal(raw, into, jsonv2.RejectUnknownMembers(true)); err != nil {
		return refuse("%s", err)
	}
	return nil
}

// operations are what may be asked for.
var operations = map[events.AskOperation]func(*Broker, context.Context, json.RawMessage) (any, error){
	events.AskRefresh: reading((*Broker).refresh),
	events.AskBrowse:  reading((*Broker).browse),
	events.AskTry:     reading((*Broker).try),
	events.AskProbe:   reading((*Broker).probe),
	events.AskModels:  reading((*Broker).models),
	events.AskModel:   reading((*Broker).model),
	events.AskEmbed:   reading((*Broker).embed),
}

// reading makes an operation of a method, by reading its arguments.
func reading[A, R any](
	do func(*Broker, context.Context, A) (R, error),
) func(*Broker, context.Context, json.RawMessage) (any, error) {
	return func(b *Broker, ctx context.Context, raw json.RawMessage) (any, error) {
		var arguments A
		if err := read(raw, &arguments); err != nil {
			return nil, err
		}
		return do(b, ctx, arguments)
	}
}

func isOwner(organization string) bool {
	return organization == record.NoOrganization || host.ValidID(organization)
}

// scope is that of a toolkit's organization, which the toolkit must be of.
func scope(a events.AskedToolkit) (record.Scope, error) {
	if !isOwner(a.Organization) || !host.ValidID(a.Toolkit) {
		return record.Scope{}, refuse("it names no toolkit")
	}
	return record.Of(a.Organization), nil
}

func (b *Broker) refresh(ctx context.Context, a events.AskedRefresh) (events.Difference, error) {
	of, err := scope(a.AskedToolkit)
	if err != nil {
		return events.Difference{}, err
	}
	refresh := b.Toolkits.Refresh
	if a.DryRun {
		refresh = b.Toolkits.Preview
	}
	found, err := refresh(ctx, of, a.Toolkit)
	if err != nil {
		return events.Difference{}, err
	}
	return sentDifference(found)
}

func (b *Broker) browse(ctx context.Context, a events.AskedToolkit) (events.Offerings, error) {
	of, err := scope(a)
	if err != nil {
		return events.Offerings{}, err
	}
	found, err := b.Toolkits.Browse(ctx, of, a.Toolkit)
	return sentOfferings(found), err
}

func (b *Broker) try(ctx context.Context, a events.AskedTry) (events.ToolAttempt, error) {
	of, err := scope(a.AskedToolkit)
	if err != nil {
		return events.ToolAttempt{}, err
	}
	if len(a.Tool) > maxName {
		return events.ToolAttempt{}, refuse("it names no tool")
	}
	done, err := b.Toolkits.Try(ctx, of, a.Toolkit, a.Tool, a.Arguments, func() error {
		if a.Approved {
			return nil
		}
		return errUnapproved
	})
	return events.ToolAttempt{Result: done.Result, Error: done.Error, ElapsedNS: int64(done.Elapsed)}, err
}

func (b *Broker) probe(ctx context.Context, a events.AskedProbe) (events.ProbeResult, error) {
	if !isOwner(a.Organization) {
		return events.ProbeResult{}, refuse("it names no organization")
	}
	if err := webhook.CheckURL(b.Callbacks, a.CallbackURL); err != nil {
		return events.ProbeResult{}, err
	}
	done, err := b.Webhooks.Probe(ctx, a.Organization, a.CallbackURL)
	return events.ProbeResult(done), err
}

func (b *Broker) models(ctx context.Context, _ events.AskedModels) (events.ModelList, error) {
	found, err := b.Models.List(ctx)
	return sentModels(found), err
}

func (b *Broker) model(ctx context.Context, a events.AskedModel) (events.Done, error) {
	return events.Done{}, b.Models.Check(ctx, a.Provider, a.Name, a.Skip)
}

func (b *Broker) embed(ctx context.Context, a events.AskedVectors) (events.Vectors, error) {
	if len(a.Texts) > atOnce.Texts {
		return events.Vectors{}, refuse("%d texts are too many", len(a.Texts))
	}
	model, known := b.Embeddings[a.Provider]
	if !known {
		return events.Vectors{}, embedding.Fail(embedding.BadRequest, "the provider %.100s is not configured",
			a.Provider)
	}
	reply, err := model.Embed(ctx, embedding.Request{
		Name: a.Name, Dimensions: a.Dimensions, Purpose: embedding.Purpose(a.Purpose), Texts: a.Texts,
	})
	return events.Vectors(reply), err
}
