package record_test

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/org/catalog"
	"agentplatform/internal/store/record"
	"agentplatform/internal/store/table"
)

// entries returns the audit log of an organization.
func (e *estate) entries(organization string) (entries []record.AuditEntry) {
	e.Helper()
	page, err := record.Resources[record.AuditEntry](e.Context(), e.Store, record.Of(organization), "", 99)
	require.NoError(e, err)
	for _, row := range page.Rows {
		entries = append(entries, row.Value)
	}
	return entries
}

// wanted is the expected entry of the estate's author, by write id.
func (e *estate) wanted(move, kind, subject string) record.AuditEntry {
	return record.AuditEntry{
		ID: move, Organization: e.organization, At: e.now, Operation: "doIt", UserID: e.user, APIKeyID: e.key,
		Kind: kind, Subject: subject,
	}
}

// A commit that changes an audited resource has one entry, in its author's name, for any other writes. Conditions
// alone, and other resources, have none. The platform's own work has no author.
func TestChangesOfAuditedResourcesHaveOneEntry(t *testing.T) {
	const id = "text"
	e := newEstate(t)
	removal, err := opOf(e.Store, "m", func(tx *record.Tx) {
		record.DeleteResource(tx, record.Fresh(catalog.Group{ID: id, Organization: "o"}))
	})
	require.NoError(t, err)
	removal.If = table.Always()
	check := table.Check(table.Key{Part: "user/x", Sort: "head"}, table.Absent())
	agent, kit := catalog.Agent{ID: id, Organization: "o"}, catalog.Toolkit{ID: id, Organization: "o"}
	user, key := catalog.User{ID: id, Organization: "o"}, catalog.APIKey{ID: id, Organization: "o"}
	group, file := catalog.Group{ID: id, Organization: "o"}, record.File{ID: id, Organization: "o"}
	version, err := opOf(e.Store, "m",
		func(tx *record.Tx) { record.PutVersion(tx, catalog.Agent{ID: "x", Organization: "o"}, 0) })
	require.NoError(t, err)
	for name, c := range map[string]struct {
		kind string // "": no entry
		ops  []table.Op
	}{
		"an agent":         {"agent", []table.Op{estatePut(t, agent)}},
		"a toolkit":        {"toolkit", []table.Op{estatePut(t, kit)}},
		"a user":           {"user", []table.Op{estatePut(t, user)}},
		"a key":            {"api_key", []table.Op{estatePut(t, key)}},
		"a group":          {"group", []table.Op{estatePut(t, group)}},
		"a group, removed": {"group", []table.Op{removal}},
		"a file":           {"", []table.Op{estatePut(t, file)}},
		"an address":       {"", []table.Op{estatePut(t, catalog.Email{Organization: "o"})}},
		"a version":        {"", []table.Op{version}},
		"a look":           {"", []table.Op{check}},
		"a group, behind what does not count": {"group", []table.Op{
			version, check, estatePut(t, file), estatePut(t, group), estatePut(t, user),
		}},
	} {
		for _, authored := range []bool{true, false} {
			e := newEstate(t)
			ctx := t.Context()
			var want []record.AuditEntry
			if authored {
				ctx = e.by(ctx)
				if c.kind != "" {
					entry := e.wanted("m", c.kind, id)
					entry.Organization = "o" // the owner of the resource
					want = []record.AuditEntry{entry}
				}
			}
			require.NoError(t, commitOps(ctx, e.Store, "m", c.ops...), name)
			assert.Equal(t, want, e.entries("o"), name)
			assert.Empty(t, e.entries(e.organization), name)
		}
	}
	e = newEstate(t)
	require.NoError(t, commitOps(e.by(t.Context()), e.Store, "m", estatePut(t, catalog.Organization{ID: id})))
	assert.Equal(t, []record.AuditEntry{e.wanted("m", "organization", id)}, e.entries(e.organization), "its maker's")
}

func estatePut[T record.Resourceful](t *testing.T, v T) table.Op {
	op, err := opOf(newEstate(t).Store, "m", func(tx *record.Tx) { record.PutResource(tx, record.Fresh(v)) })
	require.NoError(t, err)
	return op
}

// An entry names the members that an edit changes, those of an agent's spec too, but not the time of the change.
func TestAuditEntryNamesChangedMembers(t *testing.T) {
	e := newEstate(t)
	ctx := e.by(t.Context())
	n := int64(3)
	_, err := record.Change(ctx, e.Store, e.scope(), e.agent, 0, func(a *catalog.Agent, _ *record.Tx) error {
		a.Version, a.UpdatedAt = 3, e.now
		a.Spec.Name, a.Spec.Budget = "new", &record.Budget{Period: "day", MaxRuns: &n}
		a.Spec.OutputSchema = json.RawMessage("{}")
		return nil
	})
	require.NoError(t, err)
	entries := e.entries(e.organization)
	require.Len(t, entries, 1)
	assert.Equal(t, []string{"budget", "name", "output_schema", "version"}, entries[0].Changed)

	edit := func(u catalog.User) {
		_, err := record.Change(ctx, e.Store, e.scope(), e.user, 0, func(v *catalog.User, _ *record.Tx) error {
			u.ID, u.Organization, u.UpdatedAt = v.ID, v.Organization, v.UpdatedAt.AddDate(1, 0, 0)
			*v = u
			return nil
		})
		require.NoError(t, err)
	}
	edit(catalog.User{Name: "u", Cap: 3})
	assert.Equal(t, []string{"concurrency_cap"}, e.entries(e.organization)[0].Changed, "what was not there")
	edit(catalog.User{Name: "u"})
	assert.Equal(t, []string{"concurrency_cap"}, e.entries(e.organization)[0].Changed, "what is no longer there")
	edit(catalog.User{Name: "u"})
	assert.Empty(t, e.entries(e.organization)[0].Changed)
}

// The entry of a decision has the decisions, and their author as the client names it. The entry of an operation belongs
// to the thing's owner. The platform's own operations have no entries.
func TestDecisionsAndOperationsHaveEntries(t *testing.T) {
	e := newEstate(t)
	done := record.Decisions{By: "Ann", List: []record.Decision{
		{InterruptID: "i", Decision: "approve"}, {InterruptID: "j", Decision: "reject"},
	}}
	do := func(ctx context.Context) {
		require.NoError(t,
			committed(ctx, e.Store, "decided", func(tx *record.Tx) { tx.AuditDecisions(ctx, e.runOf(e.run), done) }))
		require.NoError(t,
			committed(ctx, e.Store, "done", func(tx *record.Tx) { tx.AuditDeed(ctx, "another", "run", "r") }))
		require.NoError(t, e.NoteDeed(ctx, "a third", "agent", "a"))
	}
	do(t.Context())
	for _, organization := range []string{e.organization, "another", "a third"} {
		assert.Empty(t, e.entries(organization))
	}
	do(e.by(t.Context()))
	decided := e.wanted("decided", "run", e.run)
	decided.DecidedBy, decided.RequestedBy = "Ann", decided.UserID
	decided.Decisions = []record.AuditDecision{
		{InterruptID: "i", Decision: "approve"}, {InterruptID: "j", Decision: "reject"},
	}
	assert.Equal(t, []record.AuditEntry{decided}, e.entries(e.organization))
	deed := e.wanted("done", "run", "r")
	deed.Organization = "another"
	assert.Equal(t, []record.AuditEntry{deed}, e.entries("another"))
	noted := e.entries("a third")
	require.Len(t, noted, 1)
	deed = e.wanted(noted[0].ID, "agent", "a")
	deed.Organization = "a third"
	assert.Equal(t, deed, noted[0])
}
