package worker_test

import (
	"context"
	"encoding/json"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/ai/model"
	"agentplatform/internal/core/lifecycle"
	"agentplatform/internal/org/catalog"
	"agentplatform/internal/org/tenant"
	"agentplatform/internal/run/intake"
	"agentplatform/internal/store/record"
)

const secret = "what only the group may know"

// circle is a chat with an agent for a group, a member of the group, and a user outside the group.
type circle struct {
	*stage

	group, closed      string
	insider, outsider  tenant.Principal
	received           string // all texts that the model got in the last conversation
	tenants            *tenant.Tenants
	insiders, outsides string // their API keys
}

func newCircle(t *testing.T) *circle {
	c := &circle{stage: newStage(t, polling)}
	c.tenants = c.intake.Tenants
	c.converse = func(_ context.Context, r model.Request, _ func(string)) (model.Reply, error) {
		b, err := json.Marshal(r.Messages)
		c.received = string(b)
		return model.Reply{Text: "yes", Finish: "stop"}, err
	}
	name := "g"
	g, err := c.tenants.CreateGroup(t.Context(), c.who.Organization, tenant.GroupEdit{Name: &name})
	require.NoError(t, err)
	c.group = g.Value.ID
	spec := c.tenants.DefaultSpec(c.who.Organization)
	spec.Name, spec.GroupIDs = "closed", []string{c.group}
	a, err := c.tenants.CreateAgent(t.Context(), c.who.Organization, spec, true)
	require.NoError(t, err)
	c.closed = a.Value.ID
	c.insiders, c.outsides = c.colleague(
		"in@example.com",
		tenant.LevelRun,
	), c.colleague(
		"out@example.com",
		tenant.LevelRun,
	)
	c.insider, c.outsider = c.as(c.insiders), c.as(c.outsides)
	c.join(true)
	c.insider = c.as(c.insiders)
	return c
}

// colleague makes another user and returns the text of its API key.
func (c *circle) colleague(email string, level tenant.Level) string {
	c.Helper()
	role := string(tenant.Member)
	if level == tenant.LevelAdmin {
		role = string(tenant.Admin)
	}
	u, err := c.tenants.CreateUser(
		c.Context(),
		tenant.Platform(),
		c.who.Organization,
		tenant.UserEdit{Email: &email, Role: &role},
	)
	require.NoError(c, err)
	_, text, err := c.tenants.CreateKey(
		c.Context(),
		tenant.Platform(),
		c.who.Scope(),
		tenant.NewKey{Name: "k", UserID: u.Value.ID, Level: level},
	)
	require.NoError(c, err)
	return text
}

func (c *circle) as(key string) tenant.Principal {
	c.Helper()
	p, err := c.tenants.Authenticate(c.Context(), key)
	require.NoError(c, err)
	return p
}

// join adds the insider to the group, or removes it.
func (c *circle) join(in bool) {
	c.Helper()
	_, err := c.tenants.SetMember(c.Context(), tenant.Platform(), c.who.Scope(), c.group, c.insider.User, in)
	require.NoError(c, err)
}

// restrict limits an agent to some groups.
func (c *circle) restrict(agent string, groups ...string) {
	c.Helper()
	_, err := c.tenants.EditAgent(
		c.Context(),
		c.who,
		agent,
		0,
		true,
		true,
		func(s catalog.AgentSpec) (catalog.AgentSpec, error) {
			s.GroupIDs = groups
			return s, nil
		},
	)
	require.NoError(c, err)
}

// send posts a message to an agent in the chat, which is parked if the chat is busy; it returns the id of its run.
func (c *circle) send(who tenant.Principal, agent, text string) string {
	c.Helper()
	posted, err := c.intake.Post(
		c.Context(),
		who,
		intake.Message{AgentID: agent, Text: text, ChatID: "lk", Enqueue: true},
	)
	require.NoError(c, err)
	if posted.Parked != nil {
		return posted.Parked.ParkedID
	}
	return posted.Run.RunID
}

// For any order of messages and changes of rights, the model gets only turns that the sender may access when the run
// begins.
func TestModelIsShownOnlyTurnsThatTheSenderMayReach(t *testing.T) {
	for name, one := range map[string]struct {
		send  func(c *circle) string
		shown bool
	}{
		"parked behind a parked message": {send: func(c *circle) string {
			c.send(c.outsider, c.agent, "hello")
			c.send(c.insider, c.closed, secret)
			return c.send(c.outsider, c.agent, "what did they say?")
		}},
		"a followup behind a parked message": {send: func(c *circle) string {
			run := c.send(c.outsider, c.agent, "hello")
			c.send(c.insider, c.closed, secret)
			posted, err := c.intake.Followup(c.Context(), c.outsider, run, "what did they say?", "")
			require.NoError(c, err)
			return posted.Parked.ParkedID
		}},
		"its sender left the group": {send: func(c *circle) string {
			c.send(c.insider, c.closed, secret)
			c.drive()
			run := c.send(c.insider, c.agent, "again")
			c.join(false)
			return run
		}},
		"its sender left the group and continues with that agent": {send: func(c *circle) string {
			c.send(c.insider, c.closed, secret)
			run := c.send(c.insider, c.closed, "again")
			c.join(false)
			return run
		}},
		"the agent was closed": {send: func(c *circle) string {
			c.restrict(c.closed)
			c.send(c.outsider, c.closed, secret)
			c.drive()
			run := c.send(c.outsider, c.agent, "again")
			c.restrict(c.closed, c.group)
			return run
		}},
		"the agent was deleted": {send: func(c *circle) string {
			c.send(c.outsider, c.agent, "hello")
			c.send(c.insider, c.closed, secret)
			run := c.send(c.outsider, c.agent, "again")
			for range 2 { // its two predecessors
				c.handle(c.Context(), <-c.wakeups.sent)
			}
			require.NoError(c, c.tenants.RemoveAgent(c.Context(), c.who, c.closed))
			return run
		}},
		"the group was deleted": {send: func(c *circle) string {
			c.send(c.insider, c.closed, secret)
			c.drive()
			run := c.send(c.insider, c.agent, "again")
			_, err := c.tenants.RemoveGroup(c.Context(), c.who.Scope(), c.group)
			require.NoError(c, err)
			return run
		}},
		"an admin has become a member": {send: func(c *circle) string {
			admin := c.as(c.colleague("admin@example.com", tenant.LevelAdmin))
			c.send(c.insider, c.closed, secret)
			run := c.send(admin, c.agent, "again")
			role := string(tenant.Member)
			_, err := c.tenants.EditUser(c.Context(), tenant.Platform(), c.who.Scope(), admin.User, 0,
				tenant.UserEdit{Role: &role})
			require.NoError(c, err)
			return run
		}},
		"a sender that may reach it": {shown: true, send: func(c *circle) string {
			c.send(c.outsider, c.agent, "hello")
			c.send(c.insider, c.closed, secret)
			return c.send(c.insider, c.agent, "again")
		}},
		"an admin": {shown: true, send: func(c *circle) string {
			c.send(c.insider, c.closed, secret)
			return c.send(c.as(c.colleague("admin@example.com", tenant.LevelAdmin)), c.agent, "again")
		}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCircle(t)
				run := one.send(c)
				c.drive()
				require.Equal(t, lifecycle.Completed, c.run(run).Status)
				require.NotEmpty(t, c.received)
				if one.shown {
					assert.Contains(t, c.received, secret)
				} else {
					assert.NotContains(t, c.received, secret)
				}
			})
		})
	}
}

// A pause may last for days. Afterwards the model gets the turns that the sender may then access.
func TestResumedRunIsShownWhatTheSenderMayReachByThen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCircle(t)
		c.send(c.insider, c.closed, secret)
		c.drive()
		converse := c.converse
		c.converse = func(ctx context.Context, r model.Request, emit func(string)) (model.Reply, error) {
			reply, err := converse(ctx, r, emit)
			if r.Messages[len(r.Messages)-1].Role == model.User {
				reply = model.Reply{
					Finish: "tool_calls",
					Calls:  []model.Call{{ID: "1", Name: model.AskUser, Arguments: []byte(`{"question":"Which?"}`)}},
				}
			}
			return reply, err
		}
		run := c.send(c.insider, c.agent, "again")
		c.drive()
		require.Equal(t, lifecycle.AwaitingInput, c.run(run).Status)
		require.Contains(t, c.received, secret)
		c.join(false)
		admin := c.as(c.insiders) // a user who has left may not answer in that chat
		admin.Level = tenant.LevelAdmin
		_, err := c.intake.Resume(c.Context(), admin, run, "", []record.Decision{
			{InterruptID: c.run(run).Interrupts[0].ID, Decision: string(lifecycle.Answer), Message: "that one"},
		}, nil, nil)
		require.NoError(t, err)
		c.drive()
		require.Contains(t, c.received, "that one")
		assert.NotContains(t, c.received, secret)
	})
}
