package broker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	oteltrace "go.opentelemetry.io/otel/trace"

	"agentplatform/internal/ai/embedding"
	"agentplatform/internal/ai/provider"
	"agentplatform/internal/ai/tool"
	"agentplatform/internal/org/toolkit"
	"agentplatform/internal/platform/problem"
	"agentplatform/internal/platform/trace"
	"agentplatform/internal/platform/waiting"
	"agentplatform/internal/store/record"
)

// Invoker sends an ask to a broker and returns the answer, both as JSON: the port between [Client] and [Broker].
//
// The caller guarantees that the ask has at most [MaxAsk] bytes. The end of the context ends the wait, but not the work
// of the broker. The adapter guarantees that it sends an ask once at most. Its error is [ErrNotReceived] only if the
// broker has not received the ask. After any other error the broker may have done the work.
type Invoker interface {
	Invoke(ctx context.Context, ask []byte) (answer []byte, err error)
}

// ErrNotReceived means that a broker has not received an ask. It may be sent again later.
var ErrNotReceived = errors.New("broker: nothing was asked")

// unreached is the error of an ask without an answer. If nothing was done, it is the cause of a problem of kind
// Unavailable.
type unreached struct{ error }

func (u *unreached) Unwrap() error { return u.error }

// Client calls a broker. It is a [toolkit.Asker] and a [webhook.Prober], and has models. It is safe for concurrent use.
// Its errors are those of the operation, and the problem Unavailable if the broker cannot take the ask now.
type Client struct{ Broker Invoker }

// hop is the longest part of a caller's wait that is reserved for sending the ask and the answer.
const hop = 500 * time.Millisecond

// ask sends one ask. With an error, the result is the part that was done before it.
func ask[R any](ctx context.Context, c *Client, what operation, arguments any) (result R, err error) {
	if err := ctx.Err(); err != nil {
		return result, err
	}
	ctx, span := trace.Start(ctx, oteltrace.SpanKindClient, "ask", string(what))
	defer func() {
		if err != nil {
			trace.Fail(span, "ask_failed")
		}
		span.End()
	}()
	ctx, cancel := context.WithTimeout(ctx, longestWait)
	defer cancel()
	deadline, _ := ctx.Deadline()
	left := time.Until(deadline)
	encoded, err := json.Marshal(arguments)
	if err != nil {
		return result, err
	}
	q := question{
		Operation: what, WaitMS: max(1, (left - min(left/8, hop)).Milliseconds()), Arguments: encoded,
		Traceparent: trace.Parent(ctx),
	}
	if by, authored := record.AuthorOf(ctx); authored {
		q.Author = &by
	}
	raw, err := json.Marshal(q)
	if err != nil {
		return result, err
	}
	if len(raw) > MaxAsk {
		return result, problem.New(problem.TooLarge, "payload_too_large",
			"the request has %d bytes; the limit is %d", len(raw), MaxAsk)
	}
	end := waiting.Start(ctx)
	raw, err = c.Broker.Invoke(ctx, raw)
	end()
	var answer Answer
	if err == nil {
		err = json.Unmarshal(raw, &answer)
	}
	if err == nil && answer.Result != nil {
		err = json.Unmarshal(answer.Result, &result)
	}
	switch {
	case errors.Is(err, ErrNotReceived):
		return result, problem.Retry(&unreached{err})
	case err != nil:
		return result, &unreached{fmt.Errorf("the broker did not respond: %w", err)}
	case answer.Failure != nil:
		return result, received(*answer.Failure)
	case answer.Result == nil:
		return result, &unreached{errors.New("the broker's answer is empty")}
	}
	return result, nil
}

func toolkitOf(scope record.Scope, id string) toolkitRef {
	return toolkitRef{Organization: scope.Organization(), Toolkit: id}
}

// Refresh is [toolkit.Toolkits.Refresh].
func (c *Client) Refresh(ctx context.Context, scope record.Scope, id string) (toolkit.Difference, error) {
	return ask[toolkit.Difference](ctx, c, askRefresh, refreshArguments{toolkitRef: toolkitOf(scope, id)})
}

// Preview is [toolkit.Toolkits.Preview].
func (c *Client) Preview(ctx context.Context, scope record.Scope, id string) (toolkit.Difference, error) {
	return ask[toolkit.Difference](ctx, c, askRefresh, refreshArguments{toolkitRef: toolkitOf(scope, id), DryRun: true})
}

// Select is [toolkit.Toolkits.Select].
func (c *Client) Select(
	ctx context.Context, scope record.Scope, id string, match record.Match, edit toolkit.Choice,
) (toolkit.Difference, error) {
	return ask[toolkit.Difference](ctx, c, askSelect,
		choice{toolkitRef: toolkitOf(scope, id), Match: match, Choice: edit})
}

// Browse is [toolkit.Toolkits.Browse].
func (c *Client) Browse(ctx context.Context, scope record.Scope, id string) (tool.Offerings, error) {
	found, err := ask[tool.Offerings](ctx, c, askBrowse, toolkitOf(scope, id))
	for i := range found.Prompts { // a broker of an earlier version leaves out an empty list
		if found.Prompts[i].Arguments == nil {
			found.Prompts[i].Arguments = []string{}
		}
	}
	return found, err
}

// TestCall is [toolkit.Toolkits.Try].
func (c *Client) TestCall(
	ctx context.Context, scope record.Scope, id, name string, arguments json.RawMessage, approve func() error,
) (toolkit.Attempt, error) {
	arguments, err := toolkit.Arguments(arguments)
	if err != nil {
		return toolkit.Attempt{}, err
	}
	unapproved := approve()
	done, err := ask[toolkit.Attempt](ctx, c, askTestCall, testCallArguments{
		toolkitRef: toolkitOf(scope, id), Tool: name, Arguments: arguments, Approved: unapproved == nil,
	})
	if errors.Is(err, errUnapproved) {
		err = unapproved
	}
	return done, err
}

// Probe is [webhook.Sender.Probe].
func (c *Client) Probe(ctx context.Context, organization, callback string) (record.DeliveryAttempt, error) {
	return ask[record.DeliveryAttempt](ctx, c, askProbe,
		probeArguments{Organization: organization, CallbackURL: callback})
}

// Models are the models of a deployment whose providers a broker calls.
type Models struct {
	Client *Client
	// Near are those of providers without a key: the broker need not check their models.
	Near *provider.Set
}

// List is [provider.Set.List].
func (m *Models) List(ctx context.Context) (provider.Listing, error) {
	return ask[provider.Listing](ctx, m.Client, askModels, struct{}{})
}

// Check is [provider.Set.Check].
func (m *Models) Check(ctx context.Context, provider, name string, skip bool) error {
	if _, near := m.Near.Catalogues[provider]; near {
		return m.Near.Check(ctx, provider, name, skip)
	}
	_, err := ask[struct{}](ctx, m.Client, askModel, modelArguments{
		Provider: provider, Name: name, Skip: skip,
	})
	return err
}

// Embedding is the embedding models, other than lexical ones, of a provider that a broker calls. It implements
// [embedding.Model].
type Embedding struct {
	Client   *Client
	Provider string
}

// atOnce is the limit of one ask: its vectors, of 4,096 dimensions with 14 bytes each, are below [MaxAnswer].
var atOnce = embedding.Limits{Texts: 32, Bytes: 256 << 10, Characters: 64 << 10, Timeout: longestWait}

// Embed calls the broker, with as many asks as needed.
func (m *Embedding) Embed(ctx context.Context, r embedding.Request) (embedding.Reply, error) {
	var before int64 // tokens that were used before a failure
	reply, err := embedding.InBatches(ctx, r, atOnce, func(ctx context.Context, r embedding.Request) (
		embedding.Reply, error,
	) {
		done, err := ask[embedding.Reply](ctx, m.Client, askEmbed, embedArguments{
			Provider: m.Provider, Name: r.Name, Dimensions: r.Dimensions, Purpose: string(r.Purpose), Texts: r.Texts,
		})
		if err != nil {
			before = done.Tokens
			return embedding.Reply{}, &final{err}
		}
		return done, nil
	})
	reply.Tokens += before
	if last, is := errors.AsType[*final](err); is {
		err = last.err
	}
	if _, is := errors.AsType[*unreached](err); is && ctx.Err() == nil {
		err = embedding.Fail(embedding.Retryable, "the embedding model cannot be reached now: %w", err)
	}
	return reply, err
}

// final hides the kind of a failure. The broker has already sent long texts again in smaller pieces, as far as that
// helps.
type final struct{ err error }

func (f *final) Error() string { return f.err.Error() }
