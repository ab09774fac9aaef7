package intake_test

import (
	"context"
	"time"

	"github.com/stretchr/testify/require"

	"agentplatform/internal/core/lifecycle"
	"agentplatform/internal/org/catalog"
	"agentplatform/internal/org/tenant"
	"agentplatform/internal/platform/problem"
	"agentplatform/internal/run/intake"
	"agentplatform/internal/run/transition"
	"agentplatform/internal/store/record"
	"agentplatform/internal/store/table"
	"agentplatform/internal/store/table/memtable"
)

// post sends a message that must be accepted.
func (w *world) post(m intake.Message) intake.Posted {
	w.t.Helper()
	m.AgentID = w.agent
	posted, err := w.Post(w.t.Context(), w.who, m)
	require.NoError(w.t, err)
	return posted
}

// transition makes a transition of a worker.
func (w *world) transition(run string, c transition.Change) {
	w.t.Helper()
	_, err := w.Executor.Do(
		w.t.Context(),
		record.System(),
		run,
		func(record.Run, *record.Tx) (transition.Change, error) { return c, nil },
	)
	require.NoError(w.t, err)
}

var work = lifecycle.Work{Attempt: 1}

func (w *world) claim(run string) {
	w.transition(run, transition.Change{Event: lifecycle.Claim{Holder: "w", Until: w.Host.Now().Add(time.Hour)}})
}

// ask pauses a run for people.
func (w *world) ask(run string, kinds ...lifecycle.InterruptKind) {
	w.claim(run)
	var pending []lifecycle.Pending
	version := 0
	for i, k := range kinds {
		pending = append(pending, lifecycle.Pending{ID: string(rune('i' + i)), Kind: k})
		if k == lifecycle.Approval {
			version = 1
		}
	}
	w.transition(
		run,
		transition.Change{Event: lifecycle.Pause{Work: work, Interrupts: pending,
			ExpiresAt: w.Host.Now().Add(time.Hour), AgentVersion: version}},
	)
}

func (w *world) complete(run string) {
	w.claim(run)
	w.transition(run, transition.Change{Event: lifecycle.Complete{Work: work}})
}

// stored returns the versions of all items.
func (w *world) stored() map[table.Key]int64 {
	items := map[table.Key]int64{}
	w.items.Inner.(*memtable.Table).All(func(i *table.Item) { items[i.Key] = i.Version })
	return items
}

func (w *world) group() string {
	name := "group"
	g, err := w.Tenants.CreateGroup(w.t.Context(), w.who.Organization, tenant.GroupEdit{Name: &name})
	require.NoError(w.t, err)
	return g.Value.ID
}

// budget gives the sender's organization and user these budgets.
func (w *world) budget(ofOrganization, ofUser *record.Budget) {
	w.who = w.who.Of(tenant.Account{
		Organization: catalog.Organization{Budget: ofOrganization}, User: catalog.User{Budget: ofUser},
	})
}

// closed creates an agent that names a group, or whose approvers are a group.
func (w *world) closed(change func(s *catalog.AgentSpec)) string {
	spec := w.Tenants.DefaultSpec(w.who.Organization)
	spec.Name = "closed"
	change(&spec)
	a, err := w.Tenants.CreateAgent(w.t.Context(), w.who.Organization, spec, true)
	require.NoError(w.t, err)
	return a.Value.ID
}

// file is an uploaded file.
func (w *world) file() string {
	f := record.File{ID: w.Host.NewID(), Organization: w.who.Organization, UserID: w.who.User, Uploaded: true}
	_, err := record.Create(w.t.Context(), w.Store, f, f.ID)
	require.NoError(w.t, err)
	return f.ID
}

func (w *world) run(id string) record.Run {
	w.t.Helper()
	e, err := w.Run(w.t.Context(), w.who, id)
	require.NoError(w.t, err)
	return e.Value
}

func code(err error) string {
	if p, ok := problem.As(err); ok {
		return p.Code
	}
	return ""
}

// operations are all operations of a client. Each is prepared in its own world, and may be done twice with one key.
func operations() map[string]func(w *world) func(context.Context) (intake.Posted, error) {
	type do = func(context.Context) (intake.Posted, error)
	post := func(w *world, m intake.Message) do {
		m.AgentID, m.Text = w.agent, "x"
		return func(ctx context.Context) (intake.Posted, error) { return w.Post(ctx, w.who, m) }
	}
	entity := func(f func(ctx context.Context) (record.RunEntity, error)) do {
		return func(ctx context.Context) (intake.Posted, error) {
			e, err := f(ctx)
			return intake.Posted{Run: e.Value}, err
		}
	}
	return map[string]func(w *world) do{
		"a new chat":   func(w *world) do { return post(w, intake.Message{Key: "k"}) },
		"a named chat": func(w *world) do { return post(w, intake.Message{Key: "k", ChatID: "c"}) },
		"a next turn": func(w *world) do {
			w.complete(w.post(intake.Message{Text: "x", ChatID: "c"}).Run.ID())
			return post(w, intake.Message{Key: "k", ChatID: "c"})
		},
		"a message that is parked": func(w *world) do {
			w.post(intake.Message{Text: "x", ChatID: "c"})
			return post(w, intake.Message{Key: "k", ChatID: "c", Enqueue: true})
		},
		"an answer": func(w *world) do {
			w.ask(w.post(intake.Message{Text: "x", ChatID: "c"}).Run.ID(), lifecycle.Clarification)
			return post(w, intake.Message{Key: "k", ChatID: "c"})
		},
		"a followup": func(w *world) do {
			run := w.post(intake.Message{Text: "x", ChatID: "c"}).Run.ID()
			w.ask(run, lifecycle.Clarification)
			return func(ctx context.Context) (intake.Posted, error) { return w.Followup(ctx, w.who, run, "x", "k") }
		},
		"a resume": func(w *world) do {
			run := w.post(intake.Message{Text: "x"}).Run.ID()
			w.ask(run, lifecycle.Approval)
			return entity(func(ctx context.Context) (record.RunEntity, error) {
				return w.Resume(ctx, w.who, run, "", []record.Decision{{InterruptID: "i", Decision: "approve"}}, nil,
					nil)
			})
		},
		"a cancel": func(w *world) do {
			run := w.post(intake.Message{Text: "x"}).Run.ID()
			w.claim(run)
			return entity(
				func(ctx context.Context) (record.RunEntity, error) { return w.Cancel(ctx, w.who, run, "no") },
			)
		},
		"a withdrawal": func(w *world) do {
			run := w.post(intake.Message{Text: "x", ChatID: "c"}).Run.ID()
			parked := w.post(intake.Message{Text: "y", ChatID: "c", Enqueue: true}).Parked.ParkedID
			return func(ctx context.Context) (intake.Posted, error) {
				return intake.Posted{}, w.Withdraw(ctx, w.who, run, parked)
			}
		},
		"a message with a push": func(w *world) do {
			return post(w, intake.Message{Key: "k", Push: &record.Push{URL: "https://example.com/"}})
		},
		"a push that is set": func(w *world) do {
			run := w.post(intake.Message{Text: "x"}).Run.ID()
			return func(ctx context.Context) (intake.Posted, error) {
				return intake.Posted{}, w.SetPush(ctx, w.who, run, record.Push{URL: "https://example.com/"})
			}
		},
		"a push that is deleted": func(w *world) do {
			run := w.post(intake.Message{Text: "x", Push: &record.Push{URL: "https://example.com/"}}).Run.ID()
			return func(ctx context.Context) (intake.Posted, error) {
				return intake.Posted{}, w.DeletePush(ctx, w.who, run, "")
			}
		},
		"a chat's deletion": func(w *world) do {
			w.post(intake.Message{Text: "x", ChatID: "c"})
			return func(ctx context.Context) (intake.Posted, error) {
				_, err := w.DeleteChat(ctx, w.who, "c")
				return intake.Posted{}, err
			}
		},
		"an idle chat's deletion": func(w *world) do {
			w.complete(w.post(intake.Message{Text: "x", ChatID: "c"}).Run.ID())
			return func(ctx context.Context) (intake.Posted, error) {
				_, err := w.DeleteChat(ctx, w.who, "c")
				return intake.Posted{}, err
			}
		},
		"a message on budgets, with a file": func(w *world) do {
			n := int64(9)
			w.budget(&record.Budget{Period: "month", MaxRuns: &n, MaxTokens: &n}, nil)
			w.who.Groups = []string{w.group()}
			return post(w, intake.Message{Key: "k", Files: []record.FileRef{{FileID: w.file()}}})
		},
		"an answer with a file": func(w *world) do {
			w.ask(w.post(intake.Message{Text: "x", ChatID: "c"}).Run.ID(), lifecycle.Clarification)
			return post(w, intake.Message{Key: "k", ChatID: "c", Files: []record.FileRef{{FileID: w.file()}}})
		},
		"a message that is parked, with a file": func(w *world) do {
			n := int64(9)
			w.budget(&record.Budget{Period: "month", MaxRuns: &n}, nil)
			w.post(intake.Message{Text: "x", ChatID: "c"})
			return post(
				w,
				intake.Message{Key: "k", ChatID: "c", Enqueue: true, Files: []record.FileRef{{FileID: w.file()}}},
			)
		},
		"a key again": func(w *world) do {
			w.who.Level = tenant.LevelRun
			w.post(intake.Message{Text: "x", Key: "k"})
			return post(w, intake.Message{Key: "k"})
		},
		"the key of a message that waits": func(w *world) do {
			w.post(intake.Message{Text: "x", ChatID: "c"})
			w.post(intake.Message{Text: "x", ChatID: "c", Enqueue: true, Key: "k"})
			return post(w, intake.Message{ChatID: "c", Key: "k", Enqueue: true})
		},
		"the key of a message that waited": func(w *world) do {
			run := w.post(intake.Message{Text: "x", ChatID: "c"}).Run.ID()
			w.post(intake.Message{Text: "x", ChatID: "c", Enqueue: true, Key: "k"})
			w.complete(run)
			return post(w, intake.Message{ChatID: "c", Key: "k", Enqueue: true})
		},
		"a message to a busy chat": func(w *world) do {
			w.post(intake.Message{Text: "x", ChatID: "c"})
			m := intake.Message{AgentID: w.agent, Text: "x", ChatID: "c", Key: "k"}
			return func(ctx context.Context) (intake.Posted, error) {
				posted, err := w.Post(ctx, w.who, m)
				if code(err) == "chat_busy" {
					err = nil
				}
				return posted, err
			}
		},
		"a resume that comes late": func(w *world) do {
			run := w.post(intake.Message{Text: "x"}).Run.ID()
			return entity(func(ctx context.Context) (record.RunEntity, error) {
				e, err := w.Resume(ctx, w.who, run, "", []record.Decision{{InterruptID: "i", Decision: "approve"}},
					nil, nil)
				if code(err) == "not_awaiting_input" {
					err = nil
				}
				return e, err
			})
		},
		"a look at an old chat": func(w *world) do {
			w.post(intake.Message{Text: "x", ChatID: "c"})
			w.who.Level = tenant.LevelRun
			chat, err := w.Chat(w.t.Context(), w.who, "c")
			require.NoError(w.t, err)
			chat.Value.Agents = nil
			return func(ctx context.Context) (intake.Posted, error) {
				_, may, err := w.Seen(ctx, w.who, chat.Value)
				require.Equal(w.t, err == nil, may)
				return intake.Posted{}, err
			}
		},
		"a look at a chat": func(w *world) do {
			w.post(intake.Message{Text: "x", ChatID: "c"})
			w.who.Level = tenant.LevelRun
			return func(ctx context.Context) (intake.Posted, error) {
				_, err := w.Chat(ctx, w.who, "c")
				return intake.Posted{}, err
			}
		},
		"a look at a list": func(w *world) do {
			run := w.post(intake.Message{Text: "x"}).Run
			w.who.Level = tenant.LevelRun
			return func(ctx context.Context) (intake.Posted, error) {
				_, err := w.RunsFor(ctx, w.who, []record.RunEntity{record.Fresh(run)})
				return intake.Posted{}, err
			}
		},
	}
}
