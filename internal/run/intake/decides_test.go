package intake_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/core/lifecycle"
	"agentplatform/internal/org/catalog"
	"agentplatform/internal/org/tenant"
	"agentplatform/internal/run/intake"
	"agentplatform/internal/store/record"
)

// Waiting, a read and a resume have one rule for each reader of a run that waits.
func TestWaitingIsWhatAReadAndAResumeAllow(t *testing.T) {
	question, approval := lifecycle.Clarification, lifecycle.Approval
	both := []lifecycle.InterruptKind{question, approval}
	type kinds = []lifecycle.InterruptKind
	for name, c := range map[string]struct {
		level          tenant.Level
		user           string // empty: the run's
		in             string // the group of the reader: users, approvers or none
		closed, named  bool   // the agent names users, approvers
		own            bool   // chats are their users' own
		self           *bool
		kinds          kinds
		sees, decides  bool
		outside, older bool // older: another agent took part in the chat, which is closed to the reader
	}{
		"the user's question": {
			level: tenant.LevelRun, named: true, kinds: kinds{question}, sees: true, decides: true,
		},
		"the user's approval": {
			level: tenant.LevelRun, kinds: kinds{approval}, sees: true, decides: true,
		},
		"the user's, of approvers": {level: tenant.LevelRun, named: true, kinds: kinds{approval}, sees: true},
		"a colleague's question": {
			level: tenant.LevelRun, user: "other", kinds: kinds{question}, sees: true, decides: true,
		},
		"a colleague's approval": {
			level: tenant.LevelRun, user: "other", kinds: kinds{approval}, sees: true,
		},
		"a manager's": {
			level: tenant.LevelManage, user: "other", kinds: both, sees: true, decides: true,
		},
		"a manager's, of approvers": {level: tenant.LevelManage, named: true, kinds: both, sees: true},
		"an admin's": {
			level: tenant.LevelAdmin, closed: true, named: true, kinds: both, sees: true, decides: true,
		},
		"an admin's own": {
			level: tenant.LevelAdmin, self: new(bool), kinds: kinds{approval}, sees: true,
		},
		"another admin's": {
			level: tenant.LevelAdmin, user: "other", self: new(bool), kinds: both, sees: true,
			decides: true,
		},
		"a reader's": {level: tenant.LevelRead, kinds: kinds{question}, sees: true},
		"an outsider's": {
			level: tenant.LevelRun, user: "other", closed: true, kinds: kinds{approval},
		},
		"an approver's from outside": {
			level: tenant.LevelRun, user: "other", in: "approvers", closed: true, named: true,
			kinds: kinds{approval}, sees: true, decides: true, outside: true,
		},
		"a reading approver's": {
			level: tenant.LevelRead, user: "other", in: "approvers", closed: true, named: true,
			kinds: kinds{approval}, sees: true, outside: true,
		},
		"a question beside an approval": {
			level: tenant.LevelRun, user: "other", in: "approvers", closed: true, named: true, kinds: both,
			sees: true, outside: true,
		},
		"a question for approvers": {
			level: tenant.LevelRun, user: "other", in: "approvers", closed: true, named: true,
			kinds: kinds{question},
		},
		"a user who is an approver": {
			level: tenant.LevelRun, user: "other", in: "users", closed: true, kinds: kinds{question},
			sees: true, decides: true,
		},
		"a question in a chat of others": {
			level: tenant.LevelRun, user: "other", kinds: kinds{question}, older: true, sees: true,
		},
		"an approval in a chat of others": {
			level: tenant.LevelRun, kinds: kinds{approval}, older: true, sees: true, decides: true,
		},
		"the user's in a chat of its own": {
			level: tenant.LevelRun, own: true, kinds: both, sees: true, decides: true,
		},
		"a question in a colleague's chat":  {level: tenant.LevelRun, own: true, user: "other", kinds: kinds{question}},
		"an approval in a colleague's chat": {level: tenant.LevelRun, own: true, user: "other", kinds: kinds{approval}},
		"a manager's in a chat of a user": {
			level: tenant.LevelManage, own: true, user: "other", kinds: both, sees: true, decides: true,
		},
		"an approver's in a chat of another": {
			level: tenant.LevelRun, own: true, user: "other", in: "approvers", named: true, kinds: kinds{approval},
			sees: true, decides: true, outside: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			users, approvers := w.group(), w.group()
			for _, email := range []string{"1@example.com", "2@example.com"} { // the users who could decide
				role := string(tenant.Admin)
				_, err := w.Tenants.CreateUser(t.Context(), tenant.Platform(), w.who.Organization,
					tenant.UserEdit{Email: &email, Role: &role})
				require.NoError(t, err)
			}
			if c.older {
				open := w.agent
				w.agent = w.closed(func(s *catalog.AgentSpec) { s.GroupIDs = []string{users} })
				w.complete(w.post(intake.Message{Text: "secret", ChatID: "c"}).Run.ID())
				w.agent = open
			}
			w.agent = w.closed(func(s *catalog.AgentSpec) {
				if s.Approval.Self = c.self; c.closed {
					s.GroupIDs = []string{users}
				}
				if c.named {
					s.ApproverGroupIDs = []string{approvers}
				}
			})
			run := w.post(intake.Message{Text: "m", ChatID: "c"}).Run.ID()
			w.ask(run, c.kinds...)
			e, err := w.Run(t.Context(), w.who, run)
			require.NoError(t, err)
			p := w.who
			p.Level, p.Shared = c.level, !c.own
			if c.user != "" {
				p.User = c.user
			}
			p.Groups = map[string][]string{"users": {users}, "approvers": {approvers}}[c.in]
			if c.user == "" && c.in == "" {
				p.Groups = []string{users}
			}

			list, err := w.Waiting(t.Context(), p, []record.RunEntity{e, e}) // the second time from its cache
			require.NoError(t, err)
			_, outside, err := w.RunToDecide(t.Context(), p, run)
			if !c.sees {
				assert.Empty(t, list)
				assert.Equal(t, "insufficient_permission", code(err))
			} else {
				require.NoError(t, err)
				require.Len(t, list, 2)
				for _, one := range list {
					assert.Equal(t, []bool{c.outside, c.decides}, []bool{one.Outside, one.Decides})
				}
				assert.Equal(t, c.outside, outside)
			}
			if c.level == tenant.LevelRead {
				return // no API takes its decisions
			}
			var decisions []record.Decision
			for i, kind := range c.kinds {
				d := record.Decision{InterruptID: string(rune('i' + i)), Decision: "approve"}
				if kind == question {
					d.Decision, d.Message = "answer", "a"
				}
				decisions = append(decisions, d)
			}
			if _, err = w.Resume(t.Context(), p, run, "", decisions, nil, nil); c.decides {
				require.NoError(t, err)
			} else {
				assert.Equal(t, "insufficient_permission", code(err), "%v", err)
			}
			_, _, err = w.RunToDecide(t.Context(), p, run)
			assert.Equal(t, c.sees, err == nil, "who has decided may look how it goes on: %v", err)
		})
	}
}

// An answer for one run is not used for that of another owner: the runs have one agent and one version.
func TestWaitingAsksForEachOwner(t *testing.T) {
	w := newWorld(t)
	w.who.Level, w.who.Shared = tenant.LevelRun, false
	owner, colleague := w.who, w.who
	colleague.User = "colleague"
	var runs []record.RunEntity
	for _, who := range []tenant.Principal{owner, colleague} {
		w.who = who
		run := w.post(intake.Message{Text: "m"}).Run.ID()
		w.ask(run, lifecycle.Approval)
		e, err := w.Run(t.Context(), who, run)
		require.NoError(t, err)
		runs = append(runs, e)
	}
	for n, who := range []tenant.Principal{owner, colleague} {
		for _, order := range [][]record.RunEntity{{runs[0], runs[1]}, {runs[1], runs[0]}} {
			list, err := w.Waiting(t.Context(), who, order)
			require.NoError(t, err)
			require.Len(t, list, 1)
			assert.Equal(t, runs[n].Value.ID(), list[0].Run.Value.ID())
			assert.Equal(t, []bool{false, true}, []bool{list[0].Outside, list[0].Decides})
		}
	}
}
