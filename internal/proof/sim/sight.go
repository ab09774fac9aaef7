package sim

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"agentplatform/internal/core/lifecycle"
	"agentplatform/internal/org/catalog"
	"agentplatform/internal/org/tenant"
	"agentplatform/internal/run/intake"
	"agentplatform/internal/store/record"
	"agentplatform/internal/store/table"
)

// hasSight reports whether the visibility of chats in a seed's world changes between their users and the whole
// organization, while rights change.
func hasSight(seed uint64) bool { return seed/16%2 == 1 && seed/2%2 == 1 }

// visibility returns a visibility that the seed chooses.
func (w *world) visibility() catalog.Visibility {
	return []catalog.Visibility{catalog.SeesOwn, catalog.SeesAll}[w.work.IntN(2)]
}

// sight changes the visibility of chats: those of the organization, those of an agent, or all of them for a key of a
// user. That user may be a manager.
func (w *world) sight(ctx context.Context, d *deployment, organization, user, agent string) error {
	by, scope, p := tenant.Platform(), record.Of(organization), w.powers
	key := tenant.NewKey{Name: "k", UserID: user}
	switch w.work.IntN(5) {
	case 0, 1:
		visibility := w.visibility()
		_, err := d.tenants.EditOrganization(ctx, by, organization, 0, tenant.OrganizationEdit{Visibility: &visibility})
		return err
	case 2:
		narrow := w.visibility()
		admin := tenant.Principal{Organization: organization, Level: tenant.LevelAdmin}
		_, err := d.tenants.EditAgent(ctx, admin, agent, 0, true, true,
			func(s catalog.AgentSpec) (catalog.AgentSpec, error) {
				s.ChatVisibility = narrow
				return s, nil
			})
		return err
	case 3:
		role := string(tenant.Manager)
		if _, err := d.tenants.EditUser(ctx, by, scope, user, 0, tenant.UserEdit{Role: &role}); err != nil {
			return err
		}
		key.Level = tenant.LevelManage
	default:
		key.Level = []tenant.Level{tenant.LevelRead, tenant.LevelRun}[w.work.IntN(2)]
		key.Sees = w.visibility()
	}
	k, plain, err := d.tenants.CreateKey(ctx, by, scope, key)
	if err == nil {
		p.hand(user, newText(k.Value.ID, plain))
	}
	return err
}

// sees reports whether a user with a key of a rank sees the chats of an owner with agents. The organization and each of
// the agents may share them. Otherwise the user must own them, manage, or have a key that sees all.
func (r rights) sees(u catalog.User, k catalog.APIKey, rank int, n need) bool {
	if n.owner == "" || n.owner == u.ID || rank >= ranks["manager"] || k.Sees == catalog.SeesAll {
		return true
	}
	shared := r.shared
	for _, a := range n.agents {
		shared = shared && r.agents[a].ChatVisibility != catalog.SeesOwn
	}
	return shared
}

// nobody is an owner without a user. Only users who see all chats see its chats.
const nobody = "nobody"

// epochOf names a chat as long as it is not deleted.
func epochOf(organization, chat string, epoch int) string {
	return fmt.Sprint(organization, "/", chat, "/", epoch)
}

// owned records the owner of a new run: the user who has begun its chat. The run must have the same owner.
func (c *checker) owned(r record.Run) {
	at := epochOf(r.Organization, r.Chat, r.Epoch)
	if r.Turn == 1 {
		c.owners[at] = r.User
	}
	c.whose[r.ID()] = lifecycle.Whose{Agent: r.Agent, Owner: c.owners[at]}
	if r.Whose() != c.whose[r.ID()] {
		c.violated(22, "run %s is of %+v, and says %+v", r.ID(), c.whose[r.ID()], r.Whose())
	}
}

// listed checks the listings by user after a commit. Each run is in the listing of the user who has begun its chat, and
// in no other. It leaves the listing when it is removed.
func (c *checker) listed(ops []table.Op) {
	for _, op := range ops {
		kind, id, _ := strings.Cut(op.Item.Part, "/")
		switch {
		case kind == "runs-of":
			id = op.Item.Sort
		case kind != "run" || op.Item.Sort != "head":
			continue
		}
		var want []string
		if r, there := c.runs[id]; there {
			want = []string{r.Organization + "/" + c.whose[id].Owner}
		}
		if !slices.Equal(c.rows[id], want) {
			c.violated(39, "run %s is listed by user in %v, and not in %v", id, c.rows[id], want)
		}
	}
}

// chatNow has the owner of a chat, if it has one, and how many chats had been begun by then.
type chatNow struct {
	owner string
	begun int
}

// chat returns the present owner of a chat.
func (c *checker) chat(organization, id string) chatNow {
	now := chatNow{begun: len(c.owners)}
	if e, err := c.store().Chat(context.Background(), record.Of(organization), id); err == nil {
		now.owner = c.owners[epochOf(organization, id, e.Value.Epoch)]
	}
	return now
}

// still returns the owner of a chat, if nobody can have begun it again since.
func (c *checker) still(was chatNow) (owner string, known bool) {
	return was.owner, len(c.owners) == was.begun
}

// toPost returns the rights with which a client may post a message to a chat.
func (c *client) toPost(m intake.Message, chat chatNow) need {
	n := need{level: tenant.LevelRun, agents: c.all(), owner: nobody}
	owner, known := c.checker.still(chat)
	switch {
	case m.ChatID == "":
		n.owner = ""
	case known && m.Key == "": // a key may lead to a chat that was deleted
		n.owner = owner
	}
	return n
}

// toWrite returns the rights with which a client may write into the chat of a run.
func (c *client) toWrite(run string) need {
	n := c.to(run)
	n.agents = c.all()
	return n
}

// attach returns references to the files that the client may read, for a message.
func (c *client) attach(ctx context.Context, d *deployment, ids []string) ([]record.FileRef, error) {
	if c.powers == nil {
		return d.files.Attach(ctx, c.who.Scope(), ids, func(record.File) error { return nil })
	}
	began, held := c.now, map[string][]lifecycle.Whose{}
	for _, id := range ids {
		for _, run := range sortedKeys(c.checker.heldBy[id]) {
			held[id] = append(held[id], c.checker.whose[run])
		}
	}
	p, t, err := c.as(ctx, d, tenant.LevelRun)
	if err != nil {
		return nil, err
	}
	return d.files.Attach(ctx, c.who.Scope(), ids, func(f record.File) error {
		err := d.tenants.MayReadFile(ctx, p, f)
		c.checkFile(d, t, began, f, held[f.ID], err)
		return err
	})
}

// checkFile checks the response to a client that reads a file. The file must be the client's own, or of a run that it
// sees. Where chats are for everybody, so is a file that no run has held.
func (c *client) checkFile(
	d *deployment, t text, began time.Time, f record.File, before []lifecycle.Whose, err error,
) {
	if d.remembers {
		began = began.Add(-remembered)
	}
	var after []lifecycle.Whose
	for _, run := range sortedKeys(c.checker.heldBy[f.ID]) {
		after = append(after, c.checker.whose[run])
	}
	if slices.Contains(after, lifecycle.Whose{}) || c.left[c.who.User] { // a parked message holds it
		return
	}
	reads := func(all []lifecycle.Whose) func(r rights, at time.Time) bool {
		return func(r rights, at time.Time) bool {
			own := f.UserID == r.users[r.keys[t.key].UserID].ID
			if own || len(all) == 0 && r.shared {
				return r.allow(t, need{level: tenant.LevelRun}, at)
			}
			return r.allow(t, need{level: tenant.LevelAdmin}, at) ||
				slices.ContainsFunc(all, func(of lifecycle.Whose) bool {
					return r.allow(t, need{level: tenant.LevelRun, agents: []string{of.Agent}, owner: of.Owner}, at)
				})
		}
	}
	if may, certain := c.powers.always(f.Organization, began, reads(after)); certain && !may && err == nil {
		c.checker.violated(22, "user %s reads file %s of %s, which %+v held", c.who.User, f.ID, f.UserID, after)
	}
	if may, certain := c.powers.always(f.Organization, began, reads(before)); certain && may && refused(err) &&
		len(before) == len(after) {
		c.checker.violated(22, "user %s may read file %s of %s, which %+v held: %v", c.who.User, f.ID, f.UserID, before,
			err)
	}
}

// checkShown checks that a run's sender may see the earlier turn that the model receives.
func (c *checker) checkShown(run record.Run, turn string) {
	p, of := c.world.powers, c.whose[turn]
	if p == nil {
		return
	}
	since := run.StartedAt.Add(-remembered - p.skew)
	may, certain := p.always(run.Organization, since, func(r rights, _ time.Time) bool {
		u, k := r.users[run.User], r.keys[run.APIKey]
		rank := ranks[k.Level]
		if u.Role != "admin" {
			rank = min(rank, ranks[u.Role])
		}
		return r.lets(u, k, rank, need{agents: []string{of.Agent}, owner: of.Owner})
	})
	if certain && !may {
		c.violated(22, "run %s of user %s is shown run %s of %+v", run.ID(), run.User, turn, of)
	}
}
