// Package bridge has the common part of the servers of other protocols: the use cases that they call, and how data of
// their clients becomes a message of ours.
//
// It must not know a protocol, apart from the requests of JSON-RPC, nor HTTP. It imports intake, files, stream, record,
// catalog, tenant, lifecycle, host, problem and strictjson.
package bridge

import (
	"cmp"
	"context"
	"encoding/json"
	"iter"
	"log/slog"
	"slices"
	"strings"
	"time"

	"agentplatform/internal/core/lifecycle"
	"agentplatform/internal/org/catalog"
	"agentplatform/internal/org/tenant"
	"agentplatform/internal/platform/host"
	"agentplatform/internal/platform/problem"
	"agentplatform/internal/run/files"
	"agentplatform/internal/run/intake"
	"agentplatform/internal/run/stream"
	"agentplatform/internal/store/record"
)

// Bridge has the parts of a server of a protocol.
type Bridge struct {
	Intake *intake.Intake
	Store  *record.Store
	Files  *files.Files
	Hub    *stream.Hub
	Log    *slog.Logger
	Window time.Duration // how long a request waits for its run; 0: none waits
	URL    string        // the address of the API: the part before /files/
	// WhileAllowed calls wait with a context. The context ends with the principal's right, with the right to a run if
	// of names one, or when the server stops. It returns the error of wait, unless the right has ended. It returns nil
	// where the server stops.
	WhileAllowed func(
		ctx context.Context, p tenant.Principal, of lifecycle.Whose, wait func(context.Context) error,
	) error
}

// Agent reads an agent that a request names. It returns a problem of kind NotFound or Forbidden.
func (b *Bridge) Agent(ctx context.Context, p tenant.Principal, id string) (catalog.Agent, error) {
	if !host.ValidID(id) {
		return catalog.Agent{}, problem.Missing("agent " + id)
	}
	e, err := b.Intake.Tenants.Agent(ctx, p, id)
	return e.Value, err
}

// The largest number of agents that are read to find those that a principal may use, and the number in one read.
const (
	maxScanned   = 1000
	agentsAtOnce = 100
)

// Agents are the agents that a principal may use, the oldest first. The error is one of the store.
func (b *Bridge) Agents(ctx context.Context, p tenant.Principal) iter.Seq2[catalog.Agent, error] {
	return func(yield func(catalog.Agent, error) bool) {
		after := ""
		for range maxScanned / agentsAtOnce {
			page, err := record.OldestResources[catalog.Agent](ctx, b.Store, p.Scope(), after, agentsAtOnce)
			if err != nil {
				yield(catalog.Agent{}, err)
				return
			}
			for _, e := range page.Rows {
				if p.MayUse(e.Value) == nil && !yield(e.Value, nil) {
					return
				}
			}
			if after = page.Next; after == "" {
				return
			}
		}
	}
}

// Bring returns references to the files of a message. It attaches the files that the message names by id, as
// [files.Files.Attach], and stores the files that were sent with it, as [files.Files.TakeInline]. It also returns the
// rows of the files that were sent: they are dropped when the message is not sent.
func (b *Bridge) Bring(
	ctx context.Context, p tenant.Principal, ids []string, sent []files.Inline,
) (refs []record.FileRef, taken []record.File, err error) {
	refs, err = b.Files.Attach(ctx, p.Scope(), ids, b.MayRead(ctx, p))
	if err == nil {
		taken, err = b.Files.TakeInline(ctx, p.Organization, p.User, sent)
	}
	for _, f := range taken {
		refs = append(refs, f.Ref())
	}
	return refs, taken, err
}

// MayRead returns a function that is nil for a file that a principal may read, and else the reason as an error.
func (b *Bridge) MayRead(ctx context.Context, p tenant.Principal) func(record.File) error {
	return func(f record.File) error { return b.Intake.Tenants.MayReadFile(ctx, p, f) }
}

// Post is [intake.Intake.Post] of a message with the files that it names by ids, and with those that were sent with it.
// It removes the sent files unless a run then has them.
func (b *Bridge) Post(
	ctx context.Context, p tenant.Principal, m intake.Message, ids []string, sent []files.Inline,
) (posted intake.Posted, err error) {
	var taken []record.File
	if m.Files, taken, err = b.Bring(ctx, p, ids, sent); err != nil {
		return posted, err
	}
	if posted, err = b.Intake.Post(ctx, p, m); err != nil || posted.Replayed {
		b.Files.Drop(ctx, taken...)
	}
	return posted, err
}

// FileOf is the id of the file of ours that an address names. Other addresses are not fetched.
func (b *Bridge) FileOf(address string) (id string, ours bool) {
	id, ours = strings.CutPrefix(address, b.URL+"/files/")
	return id, ours && host.ValidID(id)
}

// WhileSeen calls wait with a context. The context ends with the principal's right to see a run, or when the server
// stops; see WhileAllowed.
func (b *Bridge) WhileSeen(
	ctx context.Context, p tenant.Principal, run string, wait func(context.Context) error,
) error {
	e, err := b.Intake.Run(ctx, p, run)
	if err != nil {
		return err
	}
	return b.WhileAllowed(ctx, p, e.Value.Whose(), wait)
}

// UntilEnd returns a run when it has ended or waits for a human, or after the window. It ends with the principal's
// right to see the run.
func (b *Bridge) UntilEnd(
	ctx context.Context, p tenant.Principal, run string, window time.Duration,
) (e record.RunEntity, err error) {
	done := false
	err = b.WhileSeen(ctx, p, run, func(ctx context.Context) (err error) {
		e, err = b.Hub.UntilEnd(ctx, b.Store, p.Scope(), run, 0, window)
		done = err == nil
		return err
	})
	if err == nil && !done { // the server stops
		e, err = b.Store.LiveRun(ctx, p.Scope(), run)
	}
	return e, err
}

// Outlast waits for a run by until, which receives the time that is left of d. It waits on while the store cannot be
// read for a moment: the run goes on then, and after an error clients would send their message again.
func (b *Bridge) Outlast(
	ctx context.Context, d time.Duration, until func(left time.Duration) (record.RunEntity, error),
) (record.RunEntity, error) {
	h := b.Intake.Host
	for began := h.Elapsed(); ; {
		e, err := until(max(0, d-(h.Elapsed()-began)))
		if !problem.Is(err, "unavailable") || h.Elapsed()-began >= d || h.Sleep(ctx, min(time.Second, d)) != nil {
			return e, err
		}
	}
}

// Resume decides a pause of a run, as [intake.Intake.Resume] does. It returns replayed when that pause or the one
// before was decided in the same way: perhaps by this very request.
func (b *Bridge) Resume(
	ctx context.Context, p tenant.Principal, run string, pause int, decisions []record.Decision, push *record.Push,
	changed *record.Context,
) (replayed bool, err error) {
	_, err = b.Intake.Resume(ctx, p, run, "", decisions, push, changed)
	if problem.Is(err, "not_awaiting_input") || problem.Is(err, "interrupts_mismatch") {
		list, _ := b.Store.PausesOf(ctx, run, max(pause-2, 0), 2) // where they cannot be read, err is the answer
		same := func(p record.Pause) bool {
			return p.Decided != nil && record.SameDecisions(p.Decided.List, decisions)
		}
		if slices.ContainsFunc(list, same) {
			return true, nil
		}
	}
	return false, err
}

// Until is how many steps of a journal have an index up to a number.
func Until(steps []record.Step, index int) int {
	n := slices.IndexFunc(steps, func(s record.Step) bool { return s.Index > index })
	if n < 0 {
		return len(steps)
	}
	return n
}

// Used is the usage of steps.
func Used(steps []record.Step) (used lifecycle.Usage) {
	for _, step := range steps {
		used.InputTokens += step.InputTokens
		used.OutputTokens += step.OutputTokens
	}
	return used
}

// Echo is the part of its first request that a run keeps, as the server of its protocol wrote it; empty: nothing.
func Echo[T any](in record.Input) (echo T, err error) {
	if in.Context != nil && len(in.Context.Echo) > 0 {
		err = json.Unmarshal(in.Context.Echo, &echo)
	}
	return echo, err
}

// Unseen reports whether an error means that the principal has no such thing.
func Unseen(err error) bool {
	p, ok := problem.As(err)
	return ok && (p.Kind == problem.NotFound || p.Kind == problem.Forbidden)
}

// Named returns a problem whose fields have the names of the request's members.
func Named(err error, name func(field string) string) error {
	p, ok := problem.As(err)
	if !ok {
		return err
	}
	for i, f := range p.Fields {
		p.Fields[i].Location = name(f.Location)
		if text, is := strings.CutPrefix(p.Message, f.Location+": "); is { // the text may contain the same name
			p.Message = p.Fields[i].Location + ": " + text
		}
	}
	return err
}

// Function is a function of the client. Without parameters it has none.
func Function(name, description string, parameters json.RawMessage) record.Function {
	if IsNull(parameters) {
		parameters = json.RawMessage(`{"type":"object","properties":{}}`)
	}
	return record.Function{Name: name, Description: description, Parameters: parameters}
}

// Arguments are those of a call in a client's conversation. The error is a problem of kind Invalid.
func Arguments(at, text string) (json.RawMessage, error) {
	text = cmp.Or(text, "{}")
	return json.RawMessage(text), problem.InvalidIf(!json.Valid([]byte(text)), at,
		"must be a string that contains JSON")
}

// Called reports whether a conversation has a call with an id.
func Called(conversation []record.ContextMessage, id string) bool {
	return slices.ContainsFunc(conversation, func(part record.ContextMessage) bool {
		return slices.ContainsFunc(part.Calls, func(c record.ContextCall) bool { return c.ID == id })
	})
}

// IsNull reports whether a member is null or was left out.
func IsNull(raw json.RawMessage) bool { return len(raw) == 0 || string(raw) == "null" }
