package worker

import (
	"context"
	"slices"

	"agentplatform/internal/ai/tool"
	"agentplatform/internal/org/catalog"
	"agentplatform/internal/platform/problem"
	"agentplatform/internal/run/agent"
	"agentplatform/internal/store/record"
)

// task makes an agent's task from stored data, except for the fields that the attempt sets. A failure is for the run's
// result; err is one of the store, the toolkits or the files.
func (w *Worker) task(ctx context.Context, run record.Run) (t agent.Task, failure string, err error) {
	version, failure, err := w.prepare(ctx, run)
	if err != nil || failure != "" {
		return t, failure, err
	}
	t = agent.Task{
		Run: run.ID(), Agent: version, Log: w.Log, BudgetExceeded: w.Store.Overspent(run.Counting.Budgets),
	}
	if t.Tools, err = w.Tools.Open(ctx, run.Organization, version.Spec.ToolkitIDs); err != nil {
		return t, "", err
	}
	if t.Published, err = w.published(ctx, version, t.Tools); err != nil {
		return t, "", err
	}
	in, err := w.Store.Input(ctx, run)
	if err != nil {
		return t, "", err
	}
	left := int64(maxShown)
	if t.Message, err = w.message(ctx, run.Organization, in, &left); err != nil {
		return t, "", err
	}
	if run.Steps > 0 {
		if t.Steps, err = w.Store.Journal(ctx, run.ID()); err != nil {
			return t, "", err
		}
	}
	w.knowledge(run, &t)
	var pauses []record.Pause
	if run.Pause > 0 {
		if pauses, err = w.Store.AllPauses(ctx, run.ID()); err != nil {
			return t, "", err
		}
		t.Pauses, t.Decided = record.Decided(pauses)
		if t.AttachedFiles, err = w.attached(ctx, run.Organization, t.Decided, left); err != nil {
			return t, "", err
		}
	}
	if t.History, t.Unanswered, err = w.history(ctx, run); err != nil {
		return t, "", err
	}
	addContext(&t, run, in, pauses)
	return t, "", nil
}

// published is the policy of the published version of an agent. on are the tools of the run's version.
func (w *Worker) published(ctx context.Context, version catalog.Agent, on []tool.Offer) (catalog.Policy, error) {
	a, err := catalog.Published(ctx, w.Cached, record.Of(version.Organization), version.ID)
	if isGone(err) {
		return catalog.Policy{}, nil
	}
	if err == nil && a.Spec.Approval.Mode == "tools" && !slices.Equal(a.Spec.ToolkitIDs, version.Spec.ToolkitIDs) {
		on, err = w.Tools.Listed(ctx, version.Organization, a.Spec.ToolkitIDs)
	}
	return a.Spec.Policy(on), err
}

// knowledge sets the searches of a task, and the reader that finds the documents which the run's sender may not read.
// The model gets an error on which it can act. Any other failure is for another attempt, or the log.
func (w *Worker) knowledge(run record.Run, t *agent.Task) {
	t.CitationFilter = w.CitationFilter(run.Organization, run.User, run.APIKey)
	if w.Search != nil && len(t.Agent.Spec.KnowledgeBaseIDs) > 0 {
		organization, user, key, spec := run.Organization, run.User, run.APIKey, t.Agent.Spec
		t.Search = func(ctx context.Context, query string) ([]record.Source, record.Embeddings, error) {
			found, used, err := w.Search(ctx, organization, user, key, spec, query)
			if p, is := problem.As(err); is && (p.Kind == problem.Invalid || p.Code == "embedding_unavailable") {
				err = tool.Fail("%s", p.Message)
			}
			return found, used, err
		}
	}
}

// prepare reads the agent's version. A parked message may have lost its user, key or agent since it was sent. Its run
// then fails with that reason, so that the next parked message follows. A failure is for the run's result; err is one
// of the store.
func (w *Worker) prepare(ctx context.Context, run record.Run) (version catalog.Agent, failure string, err error) {
	scope := record.Of(run.Organization)
	if run.Waited && run.Attempt == 1 {
		for _, check := range []struct {
			what string
			err  error
		}{
			// For an operator who acted in the organization, both belong to another one.
			{"the user who sent the message has been deleted",
				second(record.Resource[catalog.User](ctx, w.Store, record.System(), run.User))},
			{"the API key that sent the message has been revoked",
				second(record.Resource[catalog.APIKey](ctx, w.Store, record.System(), run.APIKey))},
			{"the agent has been deleted", second(record.Resource[catalog.Agent](ctx, w.Store, scope, run.Agent))},
		} {
			if isGone(check.err) {
				return version, check.what, nil
			}
			if check.err != nil {
				return version, "", check.err
			}
		}
	}
	version, err = record.Version[catalog.Agent](ctx, w.Cached, scope, run.Agent, run.AgentVersion)
	if isGone(err) {
		return version, "the agent has been deleted", nil
	}
	return version, "", err
}

func second[T any](_ T, err error) error { return err }
