package broker

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"agentplatform/internal/ai/embedding"
	"agentplatform/internal/ai/tool"
	"agentplatform/internal/org/toolkit"
	"agentplatform/internal/platform/problem"
	"agentplatform/internal/store/record"
	"agentplatform/internal/store/seal"
)

// The messages are a named operation with its arguments, and the result as the use case returns it.

// operation names an operation of the broker.
type operation string

// The operations, with the types of their arguments and results.
const (
	askRefresh  operation = "toolkit.refresh" // refreshArguments, toolkit.Difference
	askSelect   operation = "toolkit.select"  // choice, toolkit.Difference
	askBrowse   operation = "toolkit.browse"  // toolkitRef, tool.Offerings
	askTestCall operation = "toolkit.try"     // testCallArguments, toolkit.Attempt
	askProbe    operation = "webhook.probe"   // probeArguments, record.DeliveryAttempt
	askModels   operation = "models.list"     // nothing, provider.Listing
	askModel    operation = "models.check"    // modelArguments, nothing
	askEmbed    operation = "embed"           // embedArguments, embedding.Reply
)

// Bounds of an ask and of its answer as JSON, in bytes. Lambda accepts and returns at most 6 MB in a synchronous call.
const (
	MaxAsk    = 2 << 20
	MaxAnswer = 5 << 20
)

// question is one ask. During a deployment or its rollback, client and broker may have different versions. So a broker
// ignores members of an ask, and of its author, that it does not know. It refuses arguments with such members: one may
// prevent an effect, as dry_run does. A member that must not be ignored is an argument.
type question struct {
	Operation operation       `json:"operation"`
	WaitMS    int64           `json:"wait_ms"`          // milliseconds, from now on, for which the client waits
	Author    *record.Author  `json:"author,omitempty"` // for the audit log
	Arguments json.RawMessage `json:"arguments"`
	// Traceparent is the client's span in W3C Trace Context form; empty if it is not sampled.
	Traceparent string `json:"traceparent,omitempty"`
}

// toolkitRef names a toolkit. The organization is "-" for toolkits of none, here and below.
type toolkitRef struct {
	Organization string `json:"organization_id"`
	Toolkit      string `json:"toolkit_id"`
}

type refreshArguments struct {
	toolkitRef

	DryRun bool `json:"dry_run,omitempty"` // only return the changes
}

type choice struct {
	toolkitRef

	Choice toolkit.Choice `json:"choice"`
	Match  record.Match   `json:"match,omitempty"`
}

type testCallArguments struct {
	toolkitRef

	Tool      string          `json:"tool"`
	Arguments json.RawMessage `json:"arguments"` // an object in its normal form
	Approved  bool            `json:"approved,omitempty"`
}

type probeArguments struct {
	Organization string `json:"organization_id"`
	CallbackURL  string `json:"callback_url"`
}

type modelArguments struct {
	Provider string `json:"provider"`
	Name     string `json:"name"`
	Skip     bool   `json:"skip,omitempty"` // do not call the provider
}

type embedArguments struct {
	Provider   string   `json:"provider"`
	Name       string   `json:"name"`
	Dimensions int      `json:"dimensions,omitempty"`
	Purpose    string   `json:"purpose"`
	Texts      []string `json:"texts"`
}

// Answer is the broker's answer: a result, a failure, or both if the work before the failure matters.
type Answer struct {
	Result  json.RawMessage `json:"result,omitempty"`
	Failure *Failure        `json:"failure,omitempty"`
}

// FailureKind is the meaning of a failure for the client.
type FailureKind string

// The kinds of failure.
const (
	FailureProblem    FailureKind = "problem"    // an error for clients
	FailureTool       FailureKind = "tool"       // an error for models
	FailureEmbedding  FailureKind = "embedding"  // of an embedding model
	FailureUnapproved FailureKind = "unapproved" // the call needs an approval that was not given
	FailureConflict   FailureKind = "conflict"   // another writer was faster
	FailureSealed     FailureKind = "sealed"     // a sealed text does not open
	FailureDeadline   FailureKind = "deadline"   // the time was over
	FailureCancelled  FailureKind = "cancelled"  // it was given up
	FailureInternal   FailureKind = "internal"   // anything else
)

// Failure is an error that is sent to the client. Its text is for the log, unless its kind has another use.
type Failure struct {
	Kind      FailureKind       `json:"kind"`
	Text      string            `json:"text"`
	Problem   *failureToClient  `json:"problem,omitempty"`
	Embedding *failureOfVectors `json:"embedding,omitempty"`
}

// failureToClient is a problem without its text.
type failureToClient struct {
	Kind       string          `json:"kind"`
	Code       string          `json:"code"`
	Fields     []problem.Field `json:"fields,omitempty"`
	Extras     map[string]any  `json:"extras,omitempty"`
	RetryAfter time.Duration   `json:"retry_after_ns,omitempty"`
	Cause      *Failure        `json:"cause,omitempty"`
}

// failureOfVectors is the reaction to an embedding model's failure.
type failureOfVectors struct {
	Kind string        `json:"kind"`
	Wait time.Duration `json:"wait_ns,omitempty"`
}

// kinds are the names of the kinds of problems.
var kinds = map[problem.Kind]string{
	problem.Internal: "internal", problem.Invalid: "invalid", problem.TooLarge: "too_large",
	problem.Unauthenticated: "unauthenticated", problem.Forbidden: "forbidden", problem.NotFound: "not_found",
	problem.Conflict: "conflict", problem.PreconditionFailed: "precondition_failed", problem.Limited: "limited",
	problem.Unavailable: "unavailable",
	problem.Full:        "full",
}

// marks are the errors that callers match with errors.Is.
var marks = []struct {
	kind FailureKind
	mark error
}{
	{FailureUnapproved, errUnapproved}, {FailureConflict, record.ErrConflict},
	{FailureSealed, seal.ErrNotOurs}, {FailureDeadline, context.DeadlineExceeded},
	{FailureCancelled, context.Canceled},
}

// failed converts an error for sending; nil for none.
func failed(err error) *Failure {
	if err == nil {
		return nil
	}
	f := &Failure{Kind: FailureInternal, Text: err.Error()}
	if p, is := problem.As(err); is {
		f.Kind, f.Text = FailureProblem, p.Message
		f.Problem = &failureToClient{
			Kind: kinds[p.Kind], Code: p.Code, Fields: p.Fields, Extras: p.Extras, RetryAfter: p.RetryAfter,
			Cause: failed(p.Cause),
		}
		return f
	}
	if e, is := errors.AsType[*embedding.Error](err); is {
		f.Kind, f.Embedding = FailureEmbedding, &failureOfVectors{Kind: string(e.Kind), Wait: e.Wait}
		return f
	}
	if e, is := errors.AsType[*tool.Error](err); is {
		f.Kind, f.Text = FailureTool, e.Message
		return f
	}
	for _, m := range marks {
		if errors.Is(err, m.mark) {
			f.Kind = m.kind
			return f
		}
	}
	return f
}

// received converts a failure back to its error.
func received(f Failure) error {
	switch {
	case f.Kind == FailureProblem && f.Problem != nil:
		p := &problem.Error{
			Code: f.Problem.Code, Message: f.Text, Fields: f.Problem.Fields, Extras: f.Problem.Extras,
			RetryAfter: f.Problem.RetryAfter,
		}
		for kind, name := range kinds {
			if name == f.Problem.Kind {
				p.Kind = kind
			}
		}
		if f.Problem.Cause != nil {
			p.Cause = received(*f.Problem.Cause)
		}
		return p
	case f.Kind == FailureEmbedding && f.Embedding != nil:
		return &embedding.Error{
			Kind: embedding.Kind(f.Embedding.Kind), Wait: f.Embedding.Wait, Err: errors.New(f.Text),
		}
	case f.Kind == FailureTool:
		return &tool.Error{Message: f.Text}
	}
	for _, m := range marks {
		if m.kind == f.Kind {
			return &marked{f.Text, m.mark}
		}
	}
	return errors.New(f.Text)
}

// marked is an error with its original text and the error that it matches.
type marked struct {
	text string
	mark error
}

func (m *marked) Error() string { return m.text }
func (m *marked) Unwrap() error { return m.mark }
