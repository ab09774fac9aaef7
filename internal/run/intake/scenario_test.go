package intake_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/core/lifecycle"
	"agentplatform/internal/org/catalog"
	"agentplatform/internal/org/tenant"
	"agentplatform/internal/platform/problem"
	"agentplatform/internal/proof/faulttable"
	"agentplatform/internal/run/intake"
	"agentplatform/internal/run/transition"
	"agentplatform/internal/store/record"
)

// If any call of the store fails permanently, the operation returns an error, and nothing is written.
func TestFailedStoreCallIsReportedAndWritesNothing(t *testing.T) {
	const patience = 8 // attempts of a call of the store
	for name, ready := range operations() {
		t.Run(name, func(t *testing.T) {
			for fails, done := 0, false; !done; fails++ {
				require.Less(t, fails, 100)
				w := newWorld(t)
				do := ready(w)
				before := w.stored()
				calls, failed := 0, 0
				w.items.Before = func(faulttable.Call) faulttable.Fault {
					if calls++; calls > fails && failed < patience {
						failed++
						return faulttable.Down
					}
					return faulttable.None
				}
				_, err := do(t.Context())
				w.items.Before = nil
				if done = failed == 0; done {
					require.NoError(t, err)
					require.Positive(t, fails)
					continue
				}
				require.Equal(t, "unavailable", code(err), "call %d: %v", fails, err)
				assert.Equal(t, before, w.stored(), "call %d", fails)
			}
		})
	}
}

// A message whose commit is refused because of another one with the same key returns the outcome of that one. The key
// keeps this outcome, also if the run changes later.
func TestIdempotencyKeyKeepsOneOutcome(t *testing.T) {
	for name, ready := range operations() {
		switch name {
		case "a new chat", "a named chat", "a next turn", "a message that is parked", "an answer", "a followup":
		default:
			continue // they have no key
		}
		for _, conflict := range []bool{false, true} {
			w := newWorld(t)
			do := ready(w)
			var first intake.Posted
			var err error
			if conflict {
				w.items.Overtake(func() { first, err = do(t.Context()) })
			} else {
				first, err = do(t.Context())
				require.NoError(t, err, name)
			}
			for range 2 {
				second, again := do(t.Context())
				require.NoError(t, again, name)
				require.NoError(t, err, name)
				assert.False(t, first.Replayed, name)
				assert.True(t, second.Replayed, name)
				assert.Equal(t, first.Run.ID(), second.Run.ID(), name)
				assert.Equal(t, first.Parked, second.Parked, name)
				if run := w.run(first.Run.ID()); run.Status == lifecycle.Queued && first.Parked == nil {
					w.transition(run.ID(),
						transition.Change{Event: lifecycle.Claim{Holder: "w", Until: w.Host.Now().Add(time.Hour)}})
				}
			}
		}
	}
}

// A parked message starts when its turn comes. A retry with its key returns its position.
func TestRetryFindsParkedMessage(t *testing.T) {
	w := newWorld(t)
	first := w.post(intake.Message{Text: "first", ChatID: "c"}).Run
	park := func(key string) intake.Posted {
		return w.post(intake.Message{Text: key, ChatID: "c", Enqueue: true, Key: key})
	}
	one, two := park("one"), park("two")
	assert.Equal(t, []int{1, 2}, []int{one.Parked.Position, two.Parked.Position})
	assert.Equal(t, "one", one.Parked.Message)
	assert.Nil(t, one.Parked.RunID)
	assert.Equal(t, []string{one.Parked.ParkedID, two.Parked.ParkedID}, w.run(first.ID()).Parked)
	assert.Equal(t, 2, park("two").Parked.Position)

	w.complete(first.ID())
	again := park("one")
	require.NotNil(t, again.Parked.RunID)
	assert.Equal(t, one.Parked.ParkedID, *again.Parked.RunID)
	assert.Equal(t, one.Parked.ParkedID, again.Run.ID())
	again = park("two")
	assert.Equal(t, 1, again.Parked.Position)
	assert.Equal(t, one.Parked.ParkedID, again.Run.ID(), "it waits on the run that has started")

	err := w.Withdraw(t.Context(), w.who, first.ID(), one.Parked.ParkedID)
	assert.Equal(t, "already_started", code(err))
	require.NoError(t, w.Withdraw(t.Context(), w.who, first.ID(), two.Parked.ParkedID))
	assert.Empty(t, w.run(one.Parked.ParkedID).Parked)
	assert.Equal(t, "not_found", code(w.Withdraw(t.Context(), w.who, first.ID(), two.Parked.ParkedID)))
	assert.Equal(t, "not_found", code(w.Withdraw(t.Context(), w.who, first.ID(), first.ID())), "it never was parked")
	free := park("two")
	assert.False(t, free.Replayed, "what was withdrawn frees its key")

	other := w.post(intake.Message{Text: "other", ChatID: "d"}).Run
	assert.Equal(t, "not_found", code(w.Withdraw(t.Context(), w.who, other.ID(), free.Parked.ParkedID)),
		"of another chat")
	for range 4 {
		w.post(intake.Message{Text: "x", ChatID: "c", Enqueue: true})
	}
	_, err = w.Post(t.Context(), w.who, intake.Message{AgentID: w.agent, Text: "x", ChatID: "c", Enqueue: true})
	assert.Equal(t, "parked_queue_full", code(err))
	_, err = w.Post(t.Context(), w.who, intake.Message{AgentID: w.agent, Text: "x", ChatID: "c"})
	assert.Equal(t, "chat_busy", code(err))
}

// A message answers a run that waits for exactly one answer. A followup never does, and no other pause is answered.
func TestMessageAnswersOnlyASingleQuestion(t *testing.T) {
	for name, c := range map[string]struct {
		kinds  []lifecycle.InterruptKind
		answer bool
	}{
		"one question":           {[]lifecycle.InterruptKind{lifecycle.Clarification}, true},
		"an approval":            {[]lifecycle.InterruptKind{lifecycle.Approval}, false},
		"two":                    {[]lifecycle.InterruptKind{lifecycle.Clarification, lifecycle.Clarification}, false},
		"nothing is waited upon": {nil, false},
	} {
		w := newWorld(t)
		run := w.post(intake.Message{Text: "x", ChatID: "c"}).Run.ID()
		if c.kinds != nil {
			w.ask(run, c.kinds...)
		}
		status := w.run(run).Status
		followed, err := w.Followup(t.Context(), w.who, run, "later", "")
		require.NoError(t, err)
		assert.Equal(t, 1, followed.Parked.Position, name)
		assert.Equal(t, status, w.run(run).Status, name)
		posted := w.post(intake.Message{Text: "the answer", ChatID: "c", Enqueue: true})
		assert.Equal(t, c.answer, posted.Parked == nil, name)
		assert.Equal(t, run, posted.Run.ID(), name)
		if c.answer {
			after := w.run(run)
			assert.Equal(t, lifecycle.Queued, after.Status)
			assert.Equal(t, w.who.User, after.DecidedBy)
			assert.WithinDuration(t, w.Host.Now().Add(time.Minute), after.StartBy, 10*time.Second)
			d, found, err := w.Store.LastDecision(t.Context(), run, 1)
			require.NoError(t, err)
			require.True(t, found)
			assert.Equal(t, "the answer", d.List[0].Message)
		}
		w.transition(run, transition.Change{Event: lifecycle.Remove{KeepParked: true}})
		_, err = w.Followup(t.Context(), w.who, run, "too late", "")
		assert.Equal(t, "run_not_active", code(err), name)
	}
}

func TestRefusedResumeReturnsTheReason(t *testing.T) {
	w := newWorld(t)
	run := w.post(intake.Message{Text: "x"}).Run.ID()
	resume := func(by string, decisions ...record.Decision) error {
		_, err := w.Resume(t.Context(), w.who, run, by, decisions, nil, nil)
		return err
	}
	extras := func(err error) map[string]any {
		p, ok := problem.As(err)
		require.True(t, ok, "%v", err)
		return p.Extras
	}
	approve := record.Decision{InterruptID: "i", Decision: "approve"}
	err := resume("", approve)
	assert.Equal(t, "not_awaiting_input", code(err))
	assert.Equal(t, lifecycle.Queued, extras(err)["run_status"])
	assert.NotContains(t, extras(err), "last_decision")
	w.ask(run, lifecycle.Approval, lifecycle.Clarification)
	err = resume("", approve)
	assert.Equal(t, "interrupts_mismatch", code(err))
	assert.Equal(t, []string{"i", "j"}, extras(err)["pending_interrupt_ids"])
	assert.Equal(t, "body.decisions",
		about(resume("", approve, record.Decision{InterruptID: "j", Decision: "approve"})))
	require.NoError(t,
		resume("somebody", approve, record.Decision{InterruptID: "j", Decision: "answer", Message: "yes"}))
	after := w.run(run)
	assert.Equal(t, []any{lifecycle.Queued, "somebody"}, []any{after.Status, after.DecidedBy})
	assert.NotEmpty(t, after.Slots.User)
	assert.WithinDuration(t, w.Host.Now().Add(time.Minute), after.StartBy, 10*time.Second)
	last, ok := extras(resume("", approve))["last_decision"].(map[string]any)
	require.True(t, ok)
	assert.Equal(t, []string{"i", "j"}, last["interrupt_ids"])
	assert.Equal(t, "somebody", last["decided_by"])
}

// The runs of an agent that names groups are visible only to these groups, in every operation. Only they may decide
// about them.
func TestRunIsOnlyForThoseWhoMayUseItsAgent(t *testing.T) {
	ctx := t.Context()
	w := newWorld(t)
	group := w.group()
	closed := w.closed(func(s *catalog.AgentSpec) { s.GroupIDs = []string{group} })
	open := w.post(intake.Message{Text: "open", ChatID: "c"}).Run
	w.complete(open.ID())
	secret, err := w.Post(ctx, w.who, intake.Message{AgentID: closed, Text: "secret", ChatID: "c"})
	require.NoError(t, err)
	alone, err := w.Post(ctx, w.who, intake.Message{AgentID: closed, Text: "alone", ChatID: "alone"})
	require.NoError(t, err)
	w.ask(secret.Run.ID(), lifecycle.Approval)
	parked, err := w.Post(ctx, w.who, intake.Message{AgentID: closed, Text: "parked", ChatID: "c", Enqueue: true})
	require.NoError(t, err)

	for who, may := range map[string]bool{"an outsider": false, "a member": true, "an admin": true} {
		p := w.who
		p.Level = tenant.LevelRun
		switch who {
		case "a member":
			p.Groups = []string{group}
		case "an admin":
			p.Level = tenant.LevelAdmin
		}
		allowed := func(what string, err error) {
			t.Helper()
			if may {
				assert.NoError(t, err, "%s: %s", who, what)
			} else {
				assert.Equal(t, "insufficient_permission", code(err), "%s: %s: %v", who, what, err)
			}
		}
		_, err := w.Run(ctx, p, secret.Run.ID())
		allowed("read", err)
		_, err = w.Followup(ctx, p, secret.Run.ID(), "x", "k of "+who)
		allowed("followup", err)
		_, err = w.Post(ctx, p,
			intake.Message{AgentID: w.agent, Text: "x", ChatID: "c", Enqueue: true, Key: "p of " + who})
		allowed("speak beside it", err)
		_, err = w.Post(ctx, p,
			intake.Message{AgentID: closed, Text: "x", ChatID: "alone", Enqueue: true, Key: "a of " + who})
		allowed("speak to it", err)
		_, err = w.Chat(ctx, p, "alone")
		allowed("see its chat", err)
		chat, err := w.Chat(ctx, p, "c")
		require.NoError(t, err, "%s took part with another agent", who)
		assert.Equal(t, "open", chat.Value.Title)
		one, err := w.Run(ctx, w.who, open.ID())
		require.NoError(t, err)
		two, err := w.Run(ctx, w.who, alone.Run.ID())
		require.NoError(t, err)
		runs, err := w.RunsFor(ctx, p, []record.RunEntity{two, one, two})
		require.NoError(t, err)
		assert.Len(t, runs, map[bool]int{false: 1, true: 3}[may], who)
		_, yes, err := w.Seen(ctx, p, lifecycle.Chat{Agents: []string{w.agent, closed}})
		require.NoError(t, err)
		assert.True(t, yes, who)
		if !may {
			allowed("withdraw", w.Withdraw(ctx, p, open.ID(), parked.Parked.ParkedID))
			_, err = w.Cancel(ctx, p, alone.Run.ID(), "")
			allowed("cancel", err)
			_, err = w.DeleteChat(ctx, p, "c")
			allowed("delete", err)
			_, err = w.Resume(ctx, p, secret.Run.ID(), "",
				[]record.Decision{{InterruptID: "i", Decision: "approve"}}, nil, nil)
			allowed("resume", err)
			seen, yes, err := w.Seen(ctx, p, lifecycle.Chat{Title: "t", Agents: []string{closed, w.agent}})
			require.NoError(t, err)
			assert.True(t, yes)
			assert.Empty(t, seen.Title, "the title is the first agent's")
			_, yes, err = w.Seen(ctx, p, lifecycle.Chat{})
			require.NoError(t, err)
			assert.True(t, yes, "nobody took part")
			_, yes, err = w.Seen(ctx, p, lifecycle.Chat{Agents: []string{closed}})
			require.NoError(t, err)
			assert.False(t, yes)
			_, yes, err = w.Seen(ctx, p,
				lifecycle.Chat{ID: "alone", OwnID: true, Organization: p.Organization, LastRun: alone.Run.ID()})
			require.NoError(t, err)
			assert.False(t, yes, "the agents of a chat from before they were noted are those of its runs")
			old := chat.Value
			old.Agents = nil // as before agents were noted
			seen, yes, err = w.Seen(ctx, p, old)
			require.NoError(t, err)
			assert.True(t, yes)
			assert.Equal(t, "open", seen.Title)
			outside := p
			outside.Organization = "0123456789abcdef01234567"
			_, err = w.Run(ctx, outside, open.ID())
			assert.Equal(t, "outside_organization", code(err))
		}
	}
}

// No new run begins while the number of paused runs of a user, or of an organization, is at its limit. Messages that
// end a pause, or wait for its end, are accepted.
func TestNothingBeginsWhileTooManyRunsArePaused(t *testing.T) {
	w := newWorld(t)
	w.PausedRuns = 2
	colleague := w.who
	colleague.User = "0123456789abcdef01234567"
	refused := func(who tenant.Principal, scope string, used int) {
		t.Helper()
		before := w.stored()
		_, err := w.Post(t.Context(), who, intake.Message{AgentID: w.agent, Text: "x"})
		require.True(t, problem.Is(err, "paused_runs_limit"), err)
		p, _ := problem.As(err)
		assert.Equal(t, problem.Limited, p.Kind)
		assert.Equal(t, map[string]any{"limit": "paused_runs", "scope": scope, "max": 2, "used": used}, p.Extras)
		assert.Equal(t, time.Minute, p.RetryAfter)
		assert.Equal(t, before, w.stored())
	}
	for _, chat := range []string{"c", "d"} {
		w.ask(w.post(intake.Message{Text: "x", ChatID: chat, Key: chat}).Run.ID(), lifecycle.Clarification)
	}
	refused(w.who, "user", 2)
	_, err := w.Post(t.Context(), colleague, intake.Message{AgentID: w.agent, Text: "x", ChatID: "first"})
	require.NoError(t, err, "who has none paused is not refused for those of others")
	run, err := w.Post(t.Context(), colleague, intake.Message{AgentID: w.agent, Text: "x", ChatID: "second"})
	require.NoError(t, err)
	w.ask(run.Run.ID(), lifecycle.Clarification)
	refused(colleague, "organization", 3)
	assert.True(t, w.post(intake.Message{Text: "x", ChatID: "c", Key: "c"}).Replayed, "it has begun")
	_, err = w.Followup(t.Context(), w.who, w.post(intake.Message{Text: "x", Key: "d"}).Run.ID(), "and then", "")
	require.NoError(t, err, "it waits for the end of a pause")
	w.post(intake.Message{Text: "yes", ChatID: "c"})
	refused(w.who, "organization", 2)
	w.post(intake.Message{Text: "yes", ChatID: "d"})
	w.post(intake.Message{Text: "x", ChatID: "e"})
}

// Runs are refused above the caps and above a budget; each run counts once.
func TestRunsAboveCapsAndBudgetsAreRefused(t *testing.T) {
	w := newWorld(t)
	for n := range 5 {
		w.post(intake.Message{Text: "x", Key: string(rune('a' + n))})
	}
	for range 2 {
		_, err := w.Post(t.Context(), w.who, intake.Message{AgentID: w.agent, Text: "x", Key: "k"})
		assert.Equal(t, "user_concurrency_cap", code(err))
		p, _ := problem.As(err)
		assert.Equal(t, map[string]any{"limit": 5, "active": 5}, p.Extras)
		assert.Equal(t, time.Second, p.RetryAfter)
	}
	assert.True(t, w.post(intake.Message{Text: "x", Key: "a"}).Replayed,
		"an outcome that is there comes before the caps")
	other := w.who
	other.User = "0123456789abcdef01234567"
	_, err := w.Post(t.Context(), other, intake.Message{AgentID: w.agent, Text: "x"})
	assert.Equal(t, "organization_concurrency_cap", code(err))

	w = newWorld(t)
	runs, tokens := int64(2), int64(7)
	ofUser := &record.Budget{Period: "day", MaxTokens: &tokens}
	w.budget(&record.Budget{Period: "month", MaxRuns: &runs}, ofUser)
	first := w.post(intake.Message{Text: "x", ChatID: "c"}).Run
	require.Len(t, first.Budgets, 1)
	assert.Equal(t, tokens, first.Budgets[0].MaxTokens)
	parked := w.post(intake.Message{Text: "x", ChatID: "c", Enqueue: true})
	assert.Len(t, parked.Run.Budgets, 1)
	for _, chat := range []string{"c", "d"} {
		_, err = w.Post(t.Context(), w.who, intake.Message{AgentID: w.agent, Text: "x", ChatID: chat, Enqueue: true})
		assert.Equal(t, "budget_exhausted", code(err), chat)
		p, _ := problem.As(err)
		assert.Equal(t, map[string]string{"kind": "organization", "id": w.who.Organization, "period": "month"},
			p.Extras["budget"])
		assert.Positive(t, p.RetryAfter)
	}
	w.budget(nil, ofUser)
	w.claim(first.ID())
	w.transition(first.ID(), transition.Change{
		Event: lifecycle.Complete{
			Work: lifecycle.Work{Attempt: 1, Usage: lifecycle.Usage{InputTokens: 3, OutputTokens: 4}},
		},
	})
	_, err = w.Post(t.Context(), w.who, intake.Message{AgentID: w.agent, Text: "x"})
	assert.Equal(t, "budget_exhausted", code(err))
}

// A run takes its fields from the message and the agent.
func TestRunTakesFieldsFromMessageAndAgent(t *testing.T) {
	w := newWorld(t)
	m := intake.Message{
		Text: "x", ChatID: "c", Metadata: map[string]string{"a": "b"}, CallbackURL: "https://example.com/hook",
		Watched: true, Key: "k",
	}
	run := w.post(m).Run
	assert.Equal(t, []any{w.agent, 1, "c", true, true, true, int64(60_000), w.who.User, w.who.Key}, []any{
		run.Agent, run.AgentVersion, run.Chat, run.OwnChatID, run.Callback, run.Watched, run.LimitMS, run.User,
		run.APIKey,
	})
	in, err := w.Store.Input(t.Context(), run)
	require.NoError(t, err)
	assert.Equal(t, []any{"x", m.Metadata, m.CallbackURL}, []any{in.Message, in.Metadata, in.CallbackURL})
	for name, c := range map[string]intake.Message{
		"an agent":  {AgentID: "0123456789abcdef01234567", Text: "x"},
		"a version": {AgentID: w.agent, Version: 9, Text: "x"},
		"a file":    {AgentID: w.agent, Text: "x", Files: []record.FileRef{{FileID: "0123456789abcdef01234567"}}},
	} {
		_, err := w.Post(t.Context(), w.who, c)
		assert.Error(t, err, "%s that is not there", name)
	}
	_, err = w.Post(t.Context(), w.who,
		intake.Message{AgentID: w.agent, Text: "x", Files: []record.FileRef{{FileID: "0123456789abcdef01234567"}}})
	p, ok := problem.As(err)
	require.True(t, ok, "%v", err)
	assert.Equal(t, "file_ids[0]", p.Fields[0].Location)

	_, err = w.DeleteChat(t.Context(), w.who, "c")
	require.NoError(t, err)
	_, err = w.Run(t.Context(), w.who, run.ID())
	assert.Equal(t, "not_found", code(err))
	again := w.post(intake.Message{Text: "x", ChatID: "c", Key: "k"}).Run
	assert.NotEqual(t, run.ID(), again.ID(), "what was deleted frees its key and its chat's name")
	assert.Equal(t, []int{1, 1}, []int{again.Turn, again.Epoch})
	own := w.post(intake.Message{Text: "x"}).Run
	assert.False(t, own.OwnChatID)
	_, err = w.DeleteChat(t.Context(), w.who, own.Chat)
	require.NoError(t, err)
	_, err = w.Post(t.Context(), w.who, intake.Message{AgentID: w.agent, Text: "x", ChatID: own.Chat})
	assert.Equal(t, "not_found", code(err), "a name that we have made comes once")
}

// A lost right does not return through an idempotency key, another agent's run in the chat, or a followup. The title
// comes from the first message and belongs to its agent.
func TestLostRightIsRefusedEverywhere(t *testing.T) {
	w := newWorld(t)
	ctx, group := t.Context(), w.group()
	closed := w.closed(func(s *catalog.AgentSpec) { s.GroupIDs = []string{group} })
	w.who.Level, w.who.Groups = tenant.LevelRun, []string{group}
	m := intake.Message{AgentID: closed, Text: "secret", ChatID: "c", Key: "k"}
	first, err := w.Post(ctx, w.who, m)
	require.NoError(t, err)
	w.complete(first.Run.ID())
	second := w.post(intake.Message{Text: "open", ChatID: "c"})
	w.who.Groups = nil
	_, err = w.Post(ctx, w.who, m)
	assert.Equal(t, "insufficient_permission", code(err))
	_, err = w.Followup(ctx, w.who, second.Run.ID(), "x", "")
	assert.Equal(t, "insufficient_permission", code(err), "the next agent would be told what the first has said")
	chat, err := w.Chat(ctx, w.who, "c")
	require.NoError(t, err)
	assert.Empty(t, chat.Value.Title)
}

// Approvers decide tool calls; all users with access to the run may answer questions.
func TestOnlyApproversDecideToolCalls(t *testing.T) {
	for kind, verb := range map[lifecycle.InterruptKind]string{
		lifecycle.Approval: "approve", lifecycle.Clarification: "answer",
	} {
		for _, approver := range []bool{false, true} {
			w := newWorld(t)
			group := w.group()
			agent := w.closed(func(s *catalog.AgentSpec) { s.ApproverGroupIDs = []string{group} })
			w.who.Level = tenant.LevelRun
			posted, err := w.Post(t.Context(), w.who, intake.Message{AgentID: agent, Text: "x"})
			require.NoError(t, err)
			w.ask(posted.Run.ID(), kind)
			if approver {
				w.who.Groups = []string{group}
			}
			e, err := w.Resume(t.Context(), w.who, posted.Run.ID(), "",
				[]record.Decision{{InterruptID: "i", Decision: verb, Message: "m"}}, nil, nil)
			if kind == lifecycle.Approval && !approver {
				assert.Equal(t, "insufficient_permission", code(err))
				assert.Equal(t, lifecycle.AwaitingInput, w.run(posted.Run.ID()).Status)
				continue
			}
			require.NoError(t, err)
			assert.Equal(t, lifecycle.Queued, e.Value.Status)
			assert.Equal(t, w.who.User, e.Value.DecidedBy)
		}
	}
}

// A followup has its run's agent, with the current budget, and no callback.
func TestFollowupTakesAgentFromItsRun(t *testing.T) {
	w := newWorld(t)
	n := int64(2)
	agent := w.closed(func(s *catalog.AgentSpec) { s.CallbackURL = "https://example.com/hook" })
	posted, err := w.Post(t.Context(), w.who, intake.Message{AgentID: agent, Text: "x", ChatID: "c"})
	require.NoError(t, err)
	assert.True(t, posted.Run.Callback)
	_, err = w.Tenants.EditAgent(t.Context(), w.who, agent, 0, true, true, func(
		s catalog.AgentSpec,
	) (catalog.AgentSpec, error) {
		s.Budget = &record.Budget{Period: "day", MaxRuns: &n, MaxTokens: &n}
		return s, nil
	})
	require.NoError(t, err)
	for range n {
		f, err := w.Followup(t.Context(), w.who, posted.Run.ID(), "x", "")
		require.NoError(t, err)
		p, err := w.Store.Parked(t.Context(), f.Parked.ParkedID)
		require.NoError(t, err)
		assert.Equal(t, []any{agent, 1, false, true},
			[]any{p.Spec.Agent, p.Spec.AgentVersion, p.Spec.Callback, p.Spec.Waited})
		assert.Len(t, p.Spec.Budgets, 1)
		assert.Empty(t, p.Input.CallbackURL)
	}
	_, err = w.Followup(t.Context(), w.who, posted.Run.ID(), "x", "")
	assert.Equal(t, "budget_exhausted", code(err))
}

// A deleted chat, idle or busy, leaves a job that deletes the rest of it.
func TestDeletedChatStoresAJob(t *testing.T) {
	for _, idle := range []bool{false, true} {
		w := newWorld(t)
		run := w.post(intake.Message{Text: "x", ChatID: "c", CallbackURL: "https://example.com/hook"}).Run
		w.post(intake.Message{Text: "parked", ChatID: "c", Enqueue: true})
		if idle {
			w.transition(run.ID(), transition.Change{Event: lifecycle.Remove{}})
		}
		id, err := w.DeleteChat(t.Context(), w.who, "c")
		require.NoError(t, err)
		job, found, err := w.Store.Job(t.Context(), id)
		require.NoError(t, err)
		require.True(t, found)
		assert.Equal(t, []any{record.RemoveChat, "c", true, 0, w.who.Organization},
			[]any{job.Value.Kind, job.Value.Subject, job.Value.OwnID, job.Value.Epoch, job.Value.Organization})
		_, err = w.Chat(t.Context(), w.who, "c")
		assert.Equal(t, "not_found", code(err))
		_, err = w.Run(t.Context(), w.who, run.ID())
		assert.Equal(t, "not_found", code(err))
	}
}
