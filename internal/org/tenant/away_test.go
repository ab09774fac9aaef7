package tenant_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/core/lifecycle"
	"agentplatform/internal/org/catalog"
	"agentplatform/internal/org/tenant"
	"agentplatform/internal/platform/problem"
	"agentplatform/internal/proof/faulttable"
	"agentplatform/internal/store/record"
	"agentplatform/internal/store/table"
	"agentplatform/internal/store/table/memtable"
)

// patience is how many times a call of the store is attempted.
const patience = 8

// Any call of the store may fail for good. Then the operation returns an error and writes nothing. It does not return a
// refusal for lack of a right.
func TestFailedStoreCallIsReportedAndWritesNothing(t *testing.T) {
	for name, operation := range map[string]func(w *world, p tenant.Principal, key string) func(context.Context) error{
		"authenticate": func(w *world, p tenant.Principal, key string) func(context.Context) error {
			w.member(p.User)
			return func(ctx context.Context) error { _, err := w.Authenticate(ctx, key); return err }
		},
		"authenticate a run's token": func(w *world, p tenant.Principal, _ string) func(context.Context) error {
			token, _, err := w.RunToken(w.Context(), p, "a run", time.Hour)
			require.NoError(w, err)
			return func(ctx context.Context) error { _, err := w.Authenticate(ctx, token); return err }
		},
		"make a run's token": func(w *world, p tenant.Principal, _ string) func(context.Context) error {
			return func(ctx context.Context) error { _, _, err := w.RunToken(ctx, p, "a run", time.Hour); return err }
		},
		"still": func(w *world, p tenant.Principal, _ string) func(context.Context) error {
			agent := w.agent(func(*catalog.AgentSpec) {})
			return func(ctx context.Context) error {
				_, err := w.CheckRight(ctx, p, lifecycle.Whose{Agent: agent})
				return err
			}
		},
		"caps": func(w *world, p tenant.Principal, _ string) func(context.Context) error {
			return func(ctx context.Context) error { _, _, err := w.Caps(ctx, w.name, p.User); return err }
		},
		"limits": func(w *world, p tenant.Principal, _ string) func(context.Context) error {
			p.Groups = []string{w.group()}
			return func(ctx context.Context) error { _, err := w.Limits(ctx, p, catalog.Agent{}); return err }
		},
		"limits of embeddings": func(w *world, p tenant.Principal, _ string) func(context.Context) error {
			return func(ctx context.Context) error { _, err := w.EmbeddingLimits(ctx, w.name, p.User); return err }
		},
		"read a file": func(w *world, p tenant.Principal, _ string) func(context.Context) error {
			f := record.File{Agents: []string{w.agent(func(*catalog.AgentSpec) {})}}
			return func(ctx context.Context) error { return w.MayReadFile(ctx, p, f) }
		},
		"say what is reachable": func(w *world, p tenant.Principal, _ string) func(context.Context) error {
			agent := w.agent(func(*catalog.AgentSpec) {})
			return func(ctx context.Context) error {
				_, err := w.Reachable(ctx, p)(lifecycle.Whose{Agent: agent})
				return err
			}
		},
		"say what a sender reaches": func(w *world, p tenant.Principal, _ string) func(context.Context) error {
			agent, group := w.agent(func(*catalog.AgentSpec) {}), w.member(p.User)
			w.restrict(agent, group)
			return func(ctx context.Context) error {
				may, err := w.SenderMayReach(ctx, w.name, p.User, p.Key)(lifecycle.Whose{Agent: agent})
				assert.Equal(w, err == nil, may)
				return err
			}
		},
		"note an export": func(w *world, p tenant.Principal, _ string) func(context.Context) error {
			by := record.Author{Organization: w.name, UserID: p.User, APIKeyID: p.Key, Operation: "exportAgent"}
			return func(ctx context.Context) error { return w.NoteExport(record.By(ctx, by), p, "an agent") }
		},
		"approve": func(w *world, p tenant.Principal, _ string) func(context.Context) error {
			agent := w.agent(func(*catalog.AgentSpec) {})
			return func(ctx context.Context) error {
				return w.MayApprove(ctx, p, tenant.ApprovalRequest{Agent: agent, User: p.User, Began: 1})
			}
		},
		"run an agent": func(w *world, p tenant.Principal, _ string) func(context.Context) error {
			agent := w.agent(func(*catalog.AgentSpec) {})
			w.edit(agent, false)
			return func(ctx context.Context) error { _, err := w.Runnable(ctx, p, agent, 0); return err }
		},
		"publish an agent": func(w *world, p tenant.Principal, _ string) func(context.Context) error {
			agent := w.agent(func(*catalog.AgentSpec) {})
			return func(ctx context.Context) error { _, err := w.PublishAgent(ctx, p, agent, 0, 1); return err }
		},
		"make an agent": func(w *world, _ tenant.Principal, _ string) func(context.Context) error {
			g := []string{w.group()}
			s := w.spec(func(s *catalog.AgentSpec) {
				s.GroupIDs, s.ApproverGroupIDs, s.ToolkitIDs = g, g, []string{w.toolkit()}
			})
			return func(ctx context.Context) error { _, err := w.CreateAgent(ctx, w.name, s, true); return err }
		},
		"edit an agent": func(w *world, p tenant.Principal, _ string) func(context.Context) error {
			agent := w.agent(func(*catalog.AgentSpec) {})
			return func(ctx context.Context) error {
				_, err := w.EditAgent(ctx, p, agent, 0, true, true,
					func(s catalog.AgentSpec) (catalog.AgentSpec, error) {
						s.Name = "B"
						return s, nil
					})
				return err
			}
		},
		"remove an agent": func(w *world, _ tenant.Principal, _ string) func(context.Context) error {
			agent := w.agent(func(*catalog.AgentSpec) {})
			by := tenant.Principal{Organization: w.name, Level: tenant.LevelAdmin}
			return func(ctx context.Context) error { return w.RemoveAgent(ctx, by, agent) }
		},
		"make a user": func(w *world, _ tenant.Principal, _ string) func(context.Context) error {
			e := tenant.UserEdit{Email: to("new@example.com"), GroupIDs: &[]string{w.group()}}
			return func(ctx context.Context) error {
				_, err := w.CreateUser(ctx, tenant.Platform(), w.name, e)
				return err
			}
		},
		"edit a user": func(w *world, p tenant.Principal, _ string) func(context.Context) error {
			by := p
			by.Level = tenant.LevelAdmin
			w.earlier(p.User)
			e := tenant.UserEdit{Email: to("new@example.com"), Cap: to(2), GroupIDs: &[]string{w.group()}}
			return func(ctx context.Context) error {
				_, err := w.EditUser(ctx, by, w.home, p.User, 0, e)
				return err
			}
		},
		"remove a user": func(w *world, p tenant.Principal, _ string) func(context.Context) error {
			return func(ctx context.Context) error {
				_, err := w.RemoveUser(ctx, tenant.Platform(), w.home, p.User)
				return err
			}
		},
		"make an operator's key": func(w *world, p tenant.Principal, _ string) func(context.Context) error {
			w.earlier(p.User)
			k := tenant.NewKey{Name: "k", UserID: p.User, Level: tenant.LevelOperator}
			return func(ctx context.Context) error {
				_, _, err := w.CreateKey(ctx, tenant.Platform(), w.home, k)
				return err
			}
		},
		"revoke an operator's key": func(w *world, p tenant.Principal, _ string) func(context.Context) error {
			boss, _ := w.key(p.User, tenant.LevelOperator)
			w.earlier(p.User)
			return func(ctx context.Context) error { return w.RevokeKey(ctx, tenant.Platform(), w.home, boss.Key) }
		},
		"rotate a key": func(w *world, p tenant.Principal, _ string) func(context.Context) error {
			return func(ctx context.Context) error {
				_, _, err := w.RotateKey(ctx, tenant.Platform(), w.home, p.Key, 0)
				return err
			}
		},
		"make an organization": func(w *world, _ tenant.Principal, _ string) func(context.Context) error {
			return func(ctx context.Context) error {
				_, err := w.CreateOrganization(ctx, tenant.OrganizationEdit{Name: to("other")})
				return err
			}
		},
		"edit an organization": func(w *world, _ tenant.Principal, _ string) func(context.Context) error {
			return func(ctx context.Context) error {
				_, err := w.EditOrganization(ctx, tenant.Platform(), w.name, 0,
					tenant.OrganizationEdit{Name: to("other")})
				return err
			}
		},
		"rotate an organization's secret": func(w *world, _ tenant.Principal, _ string) func(context.Context) error {
			return func(ctx context.Context) error { _, _, err := w.RotateWebhookSecret(ctx, w.name, 0); return err }
		},
		"remove an organization": func(w *world, _ tenant.Principal, _ string) func(context.Context) error {
			return func(ctx context.Context) error { _, err := w.RemoveOrganization(ctx, w.name); return err }
		},
		"edit a group": func(w *world, _ tenant.Principal, _ string) func(context.Context) error {
			g := w.group()
			return func(ctx context.Context) error {
				_, err := w.EditGroup(ctx, w.home, g, 0, tenant.GroupEdit{Name: to("other")})
				return err
			}
		},
		"remove a group": func(w *world, _ tenant.Principal, _ string) func(context.Context) error {
			g := w.group()
			return func(ctx context.Context) error { _, err := w.RemoveGroup(ctx, w.home, g); return err }
		},
		"take a member": func(w *world, p tenant.Principal, _ string) func(context.Context) error {
			g := w.group()
			w.earlier(p.User)
			return func(ctx context.Context) error {
				_, err := w.SetMember(ctx, tenant.Platform(), w.home, g, p.User, true)
				return err
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			for fails, done := 0, false; !done; fails++ {
				require.Less(t, fails, 100)
				w := newWorld(t)
				p, key := w.person("a@example.com", tenant.Admin, tenant.LevelManage)
				do := operation(w, p, key)
				before := w.stored()
				calls, failed := 0, 0
				w.items.Before = func(c faulttable.Call) faulttable.Fault {
					if c.Commit && name == "authenticate" {
						return faulttable.None // writing that a key was used is best effort
					}
					if calls++; calls > fails && failed < patience {
						failed++
						return faulttable.Down
					}
					return faulttable.None
				}
				err := do(t.Context())
				w.items.Before = nil
				if done = failed == 0; done {
					require.NoError(t, err)
					require.Positive(t, fails)
					continue
				}
				problems, ok := problem.As(err)
				require.True(t, ok, "call %d: %v", fails, err)
				assert.Equal(t, problem.Unavailable, problems.Kind, "call %d: %v", fails, err)
				assert.Equal(t, before, w.stored(), "call %d", fails)
			}
		})
	}
}

// stored returns the versions of all items.
func (w *world) stored() map[table.Key]int64 {
	items := map[table.Key]int64{}
	w.items.Inner.(*memtable.Table).All(func(i *table.Item) { items[i.Key] = i.Version })
	return items
}

func (w *world) agent(change func(s *catalog.AgentSpec)) string {
	a, err := w.CreateAgent(w.Context(), w.name, w.spec(change), true)
	require.NoError(w, err)
	return a.Value.ID
}

// edit makes an agent's next version.
func (w *world) edit(agent string, publish bool) {
	by := tenant.Principal{Organization: w.name, Level: tenant.LevelAdmin}
	_, err := w.EditAgent(w.Context(), by, agent, 0, true, publish,
		func(s catalog.AgentSpec) (catalog.AgentSpec, error) {
			s.Description += "."
			return s, nil
		})
	require.NoError(w, err)
}

func (w *world) group() string {
	g, err := w.CreateGroup(w.Context(), w.name, tenant.GroupEdit{Name: to("group")})
	require.NoError(w, err)
	return g.Value.ID
}

// member makes a user the only member of a new group.
func (w *world) member(user string) (group string) {
	group = w.group()
	_, err := w.SetMember(w.Context(), tenant.Platform(), w.home, group, user, true)
	require.NoError(w, err)
	return group
}

func (w *world) toolkit() string {
	k := catalog.Toolkit{ID: w.clock.NewID(), Organization: w.name}
	_, err := record.Create(w.Context(), w.store, k, k.ID)
	require.NoError(w, err)
	return k.ID
}

// earlier turns a user into one of a store in which operator keys were not counted.
func (w *world) earlier(user string) {
	u, err := record.Resource[catalog.User](w.Context(), w.store, w.home, user)
	require.NoError(w, err)
	u.Value.OperatorKeys = nil
	tx := w.store.Begin("earlier")
	record.PutResource(tx, u)
	require.NoError(w, tx.Commit(w.Context()))
}
