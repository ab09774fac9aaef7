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
	"agentplatform/internal/platform/share"
	"agentplatform/internal/proof/faulttable"
	"agentplatform/internal/store/record"
)

func bad(err error) bool { return problem.Is(err, "invalid_api_key") }

// A run token is valid for its own run, at the level that its key would have.
func TestRunTokenReachesItsOwnRunAlone(t *testing.T) {
	for level, may := range map[tenant.Level]bool{
		tenant.LevelRead: false, tenant.LevelRun: true, tenant.LevelManage: true,
	} {
		p := tenant.Principal{Level: level}
		assert.Equal(t, may, p.MayTouch("a run", tenant.LevelRun) == nil, level)
		assert.Equal(t, may, p.MayTouch("", tenant.LevelRun) == nil, level)
		p.Run = "a run"
		assert.NoError(t, p.MayTouch("a run", tenant.LevelRun), level)
		assert.True(t, forbidden(p.MayTouch("another", tenant.LevelRun)), level)
		assert.True(t, forbidden(p.MayTouch("", tenant.LevelRun)), level)
	}
	assert.False(t, tenant.Level("").Covers(""), "no level covers nothing")
	assert.True(t, tenant.LevelRead.Covers(tenant.LevelRead))
}

// An agent that names groups is for their members and admins, and so are its runs. A file is for its uploader and for
// those who reach one of the agents that held it. A file that a run has made has no uploader.
func TestGroupsDecideWhoReachesAnAgentAndItsFiles(t *testing.T) {
	w := newWorld(t)
	group := w.group()
	closed := w.agent(func(s *catalog.AgentSpec) { s.GroupIDs = []string{group} })
	open, gone := w.agent(func(*catalog.AgentSpec) {}), "0123456789abcdef01234567"
	outsider, _ := w.person("outsider@example.com", tenant.Manager, tenant.LevelManage)
	admin, _ := w.person("admin@example.com", tenant.Admin, tenant.LevelAdmin)
	member, _ := w.person("member@example.com", tenant.Member, tenant.LevelRun)
	_, err := w.SetMember(t.Context(), admin, w.home, group, member.User, true)
	require.NoError(t, err)
	member.Groups = []string{group}

	for name, c := range map[string]struct {
		who    tenant.Principal
		agents []lifecycle.Whose
		may    bool
	}{
		"an open one":             {outsider, []lifecycle.Whose{{Agent: open}}, true},
		"a closed one":            {outsider, []lifecycle.Whose{{Agent: closed}}, false},
		"a closed one after open": {outsider, []lifecycle.Whose{{Agent: open}, {Agent: closed}}, false},
		"the members'":            {member, []lifecycle.Whose{{Agent: open}, {Agent: closed}}, true},
		"an admin":                {admin, []lifecycle.Whose{{Agent: closed}, {Agent: gone}}, true},
		"one that is not there":   {member, []lifecycle.Whose{{Agent: gone}}, false},
		"none":                    {outsider, nil, true},
	} {
		err := w.CanAccess(t.Context(), c.who, c.agents...)
		assert.Equal(t, c.may, err == nil, "%s: %v", name, err)
	}
	for name, c := range map[string]struct {
		who  tenant.Principal
		file record.File
		may  bool
	}{
		"its sender": {
			outsider, record.File{UserID: outsider.User, Agents: []string{closed}}, true,
		},
		"whose run has made it": {
			outsider, record.File{UserID: outsider.User, Agents: []string{closed}, Made: true}, false,
		},
		"another, of a closed one": {
			outsider, record.File{UserID: admin.User, Agents: []string{closed}}, false,
		},
		"another, of one of them": {
			outsider, record.File{UserID: admin.User, Agents: []string{closed, gone, open}}, true,
		},
		"a member":                      {member, record.File{UserID: admin.User, Agents: []string{closed}}, true},
		"of an agent that is not there": {member, record.File{UserID: admin.User, Agents: []string{gone}}, false},
		"of none":                       {outsider, record.File{UserID: admin.User}, true},
	} {
		err := w.MayReadFile(t.Context(), c.who, c.file)
		assert.Equal(t, c.may, err == nil, "%s: %v", name, err)
	}
	for name, c := range map[string]struct {
		who tenant.Principal
		may bool
	}{"outsider": {outsider, false}, "member": {member, true}, "admin": {admin, true}} {
		_, err := w.Agent(t.Context(), c.who, closed)
		assert.Equal(t, c.may, err == nil, name)
		_, err = w.Runnable(t.Context(), c.who, closed, 0)
		assert.Equal(t, c.may, err == nil, name)
		_, err = w.PublishAgent(t.Context(), c.who, closed, 0, 1)
		assert.Equal(t, c.may, err == nil, name)
		_, err = w.EditAgent(t.Context(), c.who, closed, 0, true, true,
			func(s catalog.AgentSpec) (catalog.AgentSpec, error) { return s, nil })
		assert.Equal(t, c.may, err == nil, name)
	}
	assert.True(t, forbidden(w.RemoveAgent(t.Context(), outsider, closed)))
	require.NoError(t, w.RemoveAgent(t.Context(), member, closed))
	assert.Error(t, w.CanAccess(t.Context(), outsider, lifecycle.Whose{Agent: closed}), "it is as closed as it was")
	assert.NoError(t, w.CanAccess(t.Context(), member, lifecycle.Whose{Agent: closed}))
}

// A right lasts as long as everything that it depends on, and reports when it will expire.
func TestRightEndsWithWhatItDependsOn(t *testing.T) {
	const hour = time.Hour
	for name, c := range map[string]struct {
		end  func(w *world, p tenant.Principal) error
		ends time.Duration // the reported expiry; 0: never
		then bool          // whether it ends there
	}{
		"for ever": {end: func(*world, tenant.Principal) error { return nil }},
		"to the key's end": {end: func(w *world, p tenant.Principal) error {
			_, err := w.EditKey(w.Context(), tenant.Platform(), w.home, p.Key, 0,
				tenant.KeyEdit{ExpiresAt: to(w.clock.Now().Add(hour))})
			return err
		}, ends: hour, then: true},
		"to the overlap's end, which is before the key's": {end: func(w *world, p tenant.Principal) error {
			_, err := w.EditKey(w.Context(), tenant.Platform(), w.home, p.Key, 0,
				tenant.KeyEdit{ExpiresAt: to(w.clock.Now().Add(3 * hour))})
			require.NoError(w, err)
			_, _, err = w.RotateKey(w.Context(), tenant.Platform(), w.home, p.Key, hour)
			return err
		}, ends: hour, then: true},
		"to the key's end, which is before the overlap's": {end: func(w *world, p tenant.Principal) error {
			_, err := w.EditKey(w.Context(), tenant.Platform(), w.home, p.Key, 0,
				tenant.KeyEdit{ExpiresAt: to(w.clock.Now().Add(hour))})
			require.NoError(w, err)
			_, _, err = w.RotateKey(w.Context(), tenant.Platform(), w.home, p.Key, 3*hour)
			return err
		}, ends: hour, then: true},
		"not beyond a rotation": {end: func(w *world, p tenant.Principal) error {
			_, _, err := w.RotateKey(w.Context(), tenant.Platform(), w.home, p.Key, 0)
			return err
		}, then: true},
		"not beyond two": {end: func(w *world, p tenant.Principal) error {
			_, _, err := w.RotateKey(w.Context(), tenant.Platform(), w.home, p.Key, 9*hour)
			require.NoError(w, err)
			_, _, err = w.RotateKey(w.Context(), tenant.Platform(), w.home, p.Key, 0)
			return err
		}, then: true},
		"to the overlap's end, whatever rotations follow": {end: func(w *world, p tenant.Principal) error {
			for _, overlap := range []time.Duration{9 * hour, hour, 20 * hour} {
				if _, _, err := w.RotateKey(w.Context(), tenant.Platform(), w.home, p.Key, overlap); err != nil {
					return err
				}
			}
			return nil
		}, ends: 9 * hour, then: true},
		"to the key's revocation": {end: func(w *world, p tenant.Principal) error {
			return w.RevokeKey(w.Context(), tenant.Platform(), w.home, p.Key)
		}, then: true},
		"to its user's removal": {end: func(w *world, p tenant.Principal) error {
			_, err := w.RemoveUser(w.Context(), tenant.Platform(), w.home, p.User)
			return err
		}, then: true},
		"to its organization's": {end: func(w *world, _ tenant.Principal) error {
			_, err := w.RemoveOrganization(w.Context(), w.name)
			return err
		}, then: true},
		"an end taken back": {end: func(w *world, p tenant.Principal) error {
			_, err := w.EditKey(w.Context(), tenant.Platform(), w.home, p.Key, 0,
				tenant.KeyEdit{ExpiresAt: to(w.clock.Now().Add(hour))})
			require.NoError(w, err)
			_, err = w.EditKey(w.Context(), tenant.Platform(), w.home, p.Key, 0,
				tenant.KeyEdit{ExpiresAt: new(time.Time)})
			return err
		}},
	} {
		w := newWorld(t)
		agent := w.agent(func(*catalog.AgentSpec) {})
		p, text := w.person("a@example.com", tenant.Manager, tenant.LevelManage)
		began := w.clock.Now()
		require.NoError(t, c.end(w, p), name)
		ends, err := w.CheckRight(t.Context(), p, lifecycle.Whose{Agent: agent})
		if c.ends == 0 {
			assert.True(t, ends.IsZero(), name)
		} else {
			assert.WithinDuration(t, began.Add(c.ends), ends, 5*time.Second, name)
			assert.NoError(t, err, name)
			_, err = w.Authenticate(t.Context(), text)
			assert.NoError(t, err, name)
			w.clock.later = c.ends + 10*time.Second
		}
		_, still := w.CheckRight(t.Context(), p, lifecycle.Whose{Agent: agent})
		_, again := w.Authenticate(t.Context(), text)
		assert.Equal(t, c.then, bad(still), "%s: %v", name, still)
		assert.Equal(t, c.then, bad(again), "%s: %v", name, again)
		assert.Equal(t, !c.then, again == nil, "%s: %v", name, again)
	}
}

// A run token expires by itself, within an hour at most, or with its key.
func TestRunTokenExpiresWithinAnHourOrWithItsKey(t *testing.T) {
	for life, want := range map[time.Duration]time.Duration{
		time.Minute: time.Minute, 3 * time.Hour: tenant.MaxRunToken,
	} {
		w := newWorld(t)
		agent := w.agent(func(*catalog.AgentSpec) {})
		p, _ := w.person("a@example.com", tenant.Admin, tenant.LevelRun)
		token, end, err := w.RunToken(t.Context(), p, "a run", life)
		require.NoError(t, err)
		assert.WithinDuration(t, w.clock.Now().Add(want), end, 5*time.Second)
		holder, err := w.Authenticate(t.Context(), token)
		require.NoError(t, err)
		ends, err := w.CheckRight(t.Context(), holder, lifecycle.Whose{Agent: agent})
		require.NoError(t, err)
		assert.Equal(t, end, ends.UTC())
		w.clock.later = want + 10*time.Second
		_, err = w.CheckRight(t.Context(), holder, lifecycle.Whose{Agent: agent})
		assert.True(t, bad(err))
		_, err = w.Authenticate(t.Context(), token)
		assert.True(t, bad(err))
	}
	w := newWorld(t)
	for _, text := range []string{"rt_", "ap_", "rt_" + "0123456789", "nothing"} {
		_, err := w.Authenticate(t.Context(), text)
		assert.True(t, bad(err), text)
	}
	_, err := w.Authenticate(t.Context(), "")
	assert.True(t, problem.Is(err, "missing_api_key"))
}

// Caps and rates are the first that is set of the user's, the organization's and the deployment's, but never above a
// ceiling.
func TestLimitsAreTheFirstSetBelowTheCeiling(t *testing.T) {
	w := newWorld(t)
	for name, c := range map[string]struct {
		o                   catalog.Organization
		user                int
		ofUser, ofAll       int
		perMinute, burst    int
		ceiling, ceilingAll int
	}{
		"the deployment's": {catalog.Organization{}, 0, 5, 50, 100, 10, 5, 50},
		"the organization's": {
			catalog.Organization{UserCap: 1, Cap: 2, RateLimit: 3, RateBurst: 4}, 0, 1, 2, 3, 4, 5, 50,
		},
		"the user's": {catalog.Organization{UserCap: 1}, 7, 7, 50, 100, 10, 5, 50},
		"under ceilings": {
			catalog.Organization{Ceilings: catalog.Limits{UserCap: 1, Cap: 2, RateLimit: 3, RateBurst: 4}},
			7, 1, 2, 3, 4, 1, 2,
		},
		"below ceilings": {
			catalog.Organization{Cap: 2, Ceilings: catalog.Limits{UserCap: 6, Cap: 3}}, 0, 5, 2, 100, 10, 6, 3,
		},
	} {
		ofUser, ofAll := w.CapsOf(c.o, catalog.User{Cap: c.user})
		perMinute, burst := w.Rate(c.o)
		most := w.Ceilings(c.o)
		assert.Equal(t, []int{c.ofUser, c.ofAll, c.perMinute, c.burst, c.ceiling, c.ceilingAll},
			[]int{ofUser, ofAll, perMinute, burst, most.UserCap, most.Cap}, name)
	}
	person, _ := w.person("a@example.com", tenant.Admin, tenant.LevelAdmin)
	_, err := w.EditUser(t.Context(), tenant.Platform(), w.home, person.User, 0, tenant.UserEdit{Cap: to(2)})
	require.NoError(t, err)
	ofUser, ofAll, err := w.Caps(t.Context(), w.name, person.User)
	require.NoError(t, err)
	assert.Equal(t, []int{2, 50}, []int{ofUser, ofAll})
	ofUser, ofAll, err = w.Caps(t.Context(), record.NoOrganization, "somebody who has gone")
	require.NoError(t, err)
	assert.Equal(t, []int{5, record.Uncapped}, []int{ofUser, ofAll})

	_, err = w.EditUser(t.Context(), person, w.home, person.User, 0, tenant.UserEdit{Cap: to(5)})
	require.NoError(t, err, "up to the ceiling")
	_, err = w.EditUser(t.Context(), person, w.home, person.User, 0, tenant.UserEdit{Cap: to(6)})
	assert.Equal(t, "body.concurrency_cap", about(t, err))
	_, err = w.EditUser(t.Context(), tenant.Platform(), w.home, person.User, 0, tenant.UserEdit{Cap: to(6)})
	require.NoError(t, err, "operators set what they like")
	_, err = w.EditUser(t.Context(), person, w.home, person.User, 0, tenant.UserEdit{Cap: to(6)})
	require.NoError(t, err, "what is said back is no change")
	_, err = w.EditOrganization(t.Context(), tenant.Platform(), w.name, 0,
		tenant.OrganizationEdit{Ceilings: tenant.LimitsEdit{UserCap: to(1)}})
	require.NoError(t, err)
	_, err = w.EditUser(t.Context(), person, w.home, person.User, 0, tenant.UserEdit{Cap: to(2)})
	assert.Equal(t, "body.concurrency_cap", about(t, err), "the lowest ceiling is one")
	assert.Equal(t, time.Minute, w.ActiveLimit(catalog.Agent{}))
	assert.Equal(t, 3*time.Second,
		w.ActiveLimit(catalog.Agent{Spec: catalog.AgentSpec{Limits: catalog.AgentLimits{MaxActiveSeconds: to(3)}}}))
}

// Operators set ceilings. An admin sets limits below them, and may send back the ceilings that it has read.
func TestOnlyOperatorsSetCeilings(t *testing.T) {
	admin, operator := tenant.Principal{Level: tenant.LevelAdmin}, tenant.Platform()
	type edit = tenant.OrganizationEdit
	type limits = tenant.LimitsEdit
	for name, c := range map[string]struct {
		by   tenant.Principal
		edit edit
		ok   bool
		want catalog.Limits // the ceilings in force
	}{
		"a ceiling by an operator": {
			operator, edit{Ceilings: tenant.LimitsEdit{UserCap: to(3)}}, true, catalog.Limits{UserCap: 3},
		},
		"a ceiling by an admin": {
			admin, edit{Ceilings: tenant.LimitsEdit{UserCap: to(3)}}, false, catalog.Limits{},
		},
		"the shown ceiling by an admin": {
			admin, edit{Ceilings: tenant.LimitsEdit{UserCap: to(5)}}, true, catalog.Limits{},
		},
		"up to the deployment's setting": {admin, edit{LimitsEdit: limits{Cap: to(50)}}, true, catalog.Limits{}},
		"above the deployment's setting": {admin, edit{LimitsEdit: limits{Cap: to(51)}}, false, catalog.Limits{}},
		"above it by an operator":        {operator, edit{LimitsEdit: limits{Cap: to(51)}}, true, catalog.Limits{}},
		"above the lowest of ceilings": {
			operator, edit{LimitsEdit: limits{Cap: to(2)}, Ceilings: limits{Cap: to(1)}}, false, catalog.Limits{},
		},
		"above its own ceiling by himself": {
			operator, edit{LimitsEdit: limits{Cap: to(51)}, Ceilings: limits{Cap: to(50)}}, false, catalog.Limits{},
		},
	} {
		w := newWorld(t)
		o, err := w.EditOrganization(t.Context(), c.by, w.name, 0, c.edit)
		assert.Equal(t, c.ok, err == nil, "%s: %v", name, err)
		if c.ok {
			assert.Equal(t, c.want, o.Value.Ceilings, name)
			if c.edit.Cap != nil {
				assert.Equal(t, *c.edit.Cap, o.Value.Cap, name)
			}
		}
	}
}

// New runs use the published version, or the requested one, with the budget of the agent as it is now.
func TestRunsUseThePublishedOrRequestedVersion(t *testing.T) {
	w := newWorld(t)
	p, _ := w.person("a@example.com", tenant.Manager, tenant.LevelManage)
	agent := w.agent(func(s *catalog.AgentSpec) { s.Budget = &record.Budget{Period: "day", MaxRuns: to(int64(1))} })
	runs := func(version int) catalog.Agent {
		a, err := w.Runnable(t.Context(), p, agent, version)
		require.NoError(t, err)
		return a
	}
	assert.Equal(t, 1, runs(0).Version)
	w.edit(agent, false)
	assert.Equal(t, 1, runs(0).Version, "a draft")
	assert.Equal(t, 2, runs(2).Version)
	w.edit(agent, true)
	assert.Equal(t, 3, runs(0).Version)
	published, err := w.PublishAgent(t.Context(), p, agent, 0, 2)
	require.NoError(t, err)
	assert.Equal(t, []int{3, 2}, []int{published.Value.Version, published.Value.Published})
	assert.Equal(t, 2, runs(0).Version)
	assert.Equal(t, "..", runs(3).Spec.Description)
	assert.Equal(t, ".", runs(2).Spec.Description)
	_, err = w.EditAgent(t.Context(), p, agent, 0, true, true, func(s catalog.AgentSpec) (catalog.AgentSpec, error) {
		s.Budget = nil
		return s, nil
	})
	require.NoError(t, err)
	assert.Nil(t, runs(1).Spec.Budget)
	assert.Equal(t, 1, runs(1).Version)
	_, err = w.Runnable(t.Context(), p, agent, 9)
	assert.Equal(t, "agent_version", about(t, err))
	_, err = w.PublishAgent(t.Context(), p, agent, 0, 9)
	assert.Equal(t, "body.version", about(t, err))
	_, err = w.Runnable(t.Context(), p, "0123456789abcdef01234567", 0)
	assert.True(t, problem.Is(err, "not_found"))
	_, err = w.EditAgent(t.Context(), p, agent, 0, true, true, func(s catalog.AgentSpec) (catalog.AgentSpec, error) {
		s.Name = ""
		return s, nil
	})
	assert.Equal(t, "body.name", about(t, err))
}

// An e-mail address is unique in an organization, in any letter case, until its user has another one or is deleted.
func TestEmailAddressIsUniqueInItsOrganization(t *testing.T) {
	w := newWorld(t)
	ctx, operator := t.Context(), tenant.Platform()
	a, _ := w.person("a@example.com", tenant.Admin, tenant.LevelAdmin)
	taken := func(email string) bool {
		u, err := w.CreateUser(ctx, operator, w.name, tenant.UserEdit{Email: &email})
		if err == nil {
			_, err = w.RemoveUser(ctx, operator, w.home, u.Value.ID)
			require.NoError(t, err)
			return false
		}
		require.True(t, problem.Is(err, "conflict"), "%v", err)
		return true
	}
	edit := func(email string) error {
		u, err := w.EditUser(ctx, operator, w.home, a.User, 0, tenant.UserEdit{Email: &email})
		if err == nil {
			assert.Equal(t, email, u.Value.Email)
		}
		return err
	}
	assert.True(t, taken("A@example.com"))
	assert.False(t, taken("b@example.com"))
	require.NoError(t, edit("A@Example.com"), "one's own")
	assert.True(t, taken("a@example.com"))
	require.NoError(t, edit("b@example.com"))
	assert.False(t, taken("a@example.com"))
	assert.True(t, taken("b@example.com"))
	w.person("c@example.com", tenant.Member, tenant.LevelRun)
	assert.True(t, problem.Is(edit("c@example.com"), "conflict"))
	assert.True(t, taken("b@example.com"), "nothing has changed")
	_, err := w.RemoveUser(ctx, operator, w.home, a.User)
	require.NoError(t, err)
	assert.False(t, taken("b@example.com"))
	for range 2 {
		_, err := w.CreateUser(ctx, operator, record.NoOrganization, tenant.UserEdit{Email: to("x@example.com")})
		assert.NoError(t, err, "those who belong to none have theirs as they like")
	}
	other, err := w.CreateOrganization(ctx, tenant.OrganizationEdit{Name: to("other")})
	require.NoError(t, err)
	_, err = w.CreateUser(ctx, operator, other.Value.ID, tenant.UserEdit{Email: to("c@example.com")})
	assert.NoError(t, err, "another organization's user may have it too")
}

func TestWebhookSecretIsSealedAndItsRotationOverlaps(t *testing.T) {
	w := newWorld(t)
	read := func() catalog.Organization {
		o, err := w.ReadOrganization(t.Context(), w.name)
		require.NoError(t, err)
		return o.Value
	}
	rotate := func(overlap time.Duration) (secret string, until time.Time) {
		secret, until, err := w.RotateWebhookSecret(t.Context(), w.name, overlap)
		require.NoError(t, err)
		assert.Equal(t, "sealed for "+w.name+": "+secret, read().Secret)
		assert.Greater(t, len(secret), 40)
		return secret, until
	}
	first, until := rotate(time.Hour)
	assert.True(t, until.IsZero(), "there was none before")
	assert.Empty(t, read().PreviousSecret)
	_, until = rotate(time.Hour)
	assert.WithinDuration(t, w.clock.Now().Add(time.Hour), until, 5*time.Second)
	assert.Equal(t, "sealed for "+w.name+": "+first, read().PreviousSecret)
	assert.Equal(t, until, read().PreviousUntil)
	_, until = rotate(0)
	assert.True(t, until.IsZero())
	assert.Empty(t, read().PreviousSecret)
	rotate(time.Hour)
	_, err := w.EditOrganization(t.Context(), tenant.Platform(), w.name, 0, tenant.OrganizationEdit{Secret: to("mine")})
	require.NoError(t, err)
	assert.Equal(t, "sealed for "+w.name+": mine", read().Secret)
	assert.Empty(t, read().PreviousSecret)
	assert.True(t, read().PreviousUntil.IsZero())
	_, err = w.EditOrganization(t.Context(), tenant.Platform(), w.name, 0, tenant.OrganizationEdit{Secret: to("")})
	require.NoError(t, err)
	assert.Empty(t, read().Secret)
}

// A removed thing cannot be reached from then on, and a job is stored that deletes its belongings.
func TestRemovalHidesImmediatelyAndStoresAJob(t *testing.T) {
	by := func(w *world) context.Context {
		return record.By(w.Context(), record.Author{Organization: w.name, Operation: "doIt"})
	}
	for kind, remove := range map[record.JobKind]func(
		w *world, p tenant.Principal, group string,
	) (job, subject string, err error){
		record.RemoveUser: func(w *world, p tenant.Principal, _ string) (string, string, error) {
			job, err := w.RemoveUser(by(w), tenant.Platform(), w.home, p.User)
			return job, p.User, err
		},
		record.RemoveGroup: func(w *world, _ tenant.Principal, group string) (string, string, error) {
			job, err := w.RemoveGroup(by(w), w.home, group)
			return job, group, err
		},
		record.RemoveOrganization: func(w *world, _ tenant.Principal, _ string) (string, string, error) {
			job, err := w.RemoveOrganization(by(w), w.name)
			return job, w.name, err
		},
	} {
		w := newWorld(t)
		group := w.group()
		p, _ := w.person("a@example.com", tenant.Admin, tenant.LevelAdmin)
		*w.store = *w.store.WithDisk(share.NewDisk(func() int64 { return 0 }, 0), nil) // it needs no room
		id, subject, err := remove(w, p, group)
		require.NoError(t, err, kind)
		assert.NotEmpty(t, id, kind)
		job, found, err := w.store.Job(t.Context(), id)
		require.NoError(t, err, kind)
		require.True(t, found, kind)
		assert.Equal(t, []string{id, w.name, string(kind), subject},
			[]string{job.Value.ID, job.Value.Organization, string(job.Value.Kind), job.Value.Subject})
		_, _, err = remove(w, p, group)
		assert.True(t, problem.Is(err, "not_found"), "%s: %v", kind, err)
		if kind == record.RemoveOrganization {
			_, err = w.ReadOrganization(t.Context(), w.name)
			assert.True(t, problem.Is(err, "not_found"))
			_, err = w.EditOrganization(t.Context(), tenant.Platform(), w.name, 0,
				tenant.OrganizationEdit{Name: to("again")})
			assert.True(t, problem.Is(err, "not_found"))
		}
	}
}

func TestMembersAreAddedAndRemoved(t *testing.T) {
	w := newWorld(t)
	p, _ := w.person("a@example.com", tenant.Member, tenant.LevelRun)
	var groups []string
	for range 21 {
		groups = append(groups, w.group())
	}
	set := func(group string, member bool) ([]string, error) {
		u, err := w.SetMember(t.Context(), tenant.Platform(), w.home, group, p.User, member)
		return u.Value.GroupIDs, err
	}
	for n, g := range groups[:20] {
		for range 2 { // adding twice is the same as once
			in, err := set(g, true)
			require.NoError(t, err)
			assert.Equal(t, groups[:n+1], append(in[:0:0], in...))
		}
	}
	_, err := set(groups[20], true)
	assert.Equal(t, "body.user_id", about(t, err))
	_, err = set(groups[20], false)
	assert.True(t, problem.Is(err, "not_found"))
	in, err := set(groups[0], false)
	require.NoError(t, err)
	assert.Equal(t, groups[1:20], in)
	_, err = set("0123456789abcdef01234567", true)
	assert.True(t, problem.Is(err, "not_found"))

	other, _ := w.person("b@example.com", tenant.Manager, tenant.LevelManage)
	_, err = w.SetMember(t.Context(), other, w.home, groups[0], p.User, true)
	assert.True(t, forbidden(err))
}

// Budgets add up: organization, user, key, agent and the user's groups; a deleted group has none.
func TestBudgetsOfAllOwnersHold(t *testing.T) {
	w := newWorld(t)
	budget := func(n int64) *record.Budget { return &record.Budget{Period: "day", MaxRuns: &n} }
	group := w.group()
	_, err := w.EditGroup(t.Context(), w.home, group, 0,
		tenant.GroupEdit{Budget: tenant.BudgetEdit(`{"period":"day","max_runs":5}`)})
	require.NoError(t, err)
	p := tenant.Principal{
		Organization: w.name, User: "u", Key: "k", Groups: []string{"0123456789abcdef01234567", w.group(), group},
	}.Of(tenant.Account{
		Organization: catalog.Organization{Budget: budget(1)}, User: catalog.User{Budget: budget(2)},
		Key: catalog.APIKey{Budget: budget(3)},
	})
	limits, err := w.Limits(t.Context(), p, catalog.Agent{ID: "a", Spec: catalog.AgentSpec{Budget: budget(4)}})
	require.NoError(t, err)
	assert.Equal(t, []record.Limit{
		{Kind: "organization", ID: w.name, Budget: *budget(1)}, {Kind: "user", ID: "u", Budget: *budget(2)},
		{Kind: "api_key", ID: "k", Budget: *budget(3)}, {Kind: "agent", ID: "a", Budget: *budget(4)},
		{Kind: "group", ID: group, Budget: *budget(5)},
	}, limits)
}

// An edit of a key or user changes the fields that it names, and the time of the change.
func TestEditChangesOnlyNamedFields(t *testing.T) {
	w := newWorld(t)
	p, _ := w.person("a@example.com", tenant.Member, tenant.LevelRun)
	name, role, group := "new", "manager", w.group()
	w.clock.later = time.Hour
	k, err := w.EditKey(t.Context(), tenant.Platform(), w.home, p.Key, 0, tenant.KeyEdit{Name: &name})
	require.NoError(t, err)
	want := p.Account().Key
	want.Name, want.UpdatedAt = name, k.Value.UpdatedAt
	assert.Equal(t, want, k.Value)
	assert.WithinDuration(t, w.clock.Now(), k.Value.UpdatedAt, 5*time.Second)
	u, err := w.EditUser(t.Context(), tenant.Platform(), w.home, p.User, 0,
		tenant.UserEdit{Name: &name, Role: &role, GroupIDs: &[]string{group}})
	require.NoError(t, err)
	user := p.Account().User
	user.Name, user.Role, user.GroupIDs, user.UpdatedAt = name, role, []string{group}, u.Value.UpdatedAt
	assert.Equal(t, user, u.Value)
	assert.WithinDuration(t, w.clock.Now(), u.Value.UpdatedAt, 5*time.Second)
	o, err := w.EditOrganization(t.Context(), tenant.Platform(), w.name, 0,
		tenant.OrganizationEdit{Name: &name, RetentionDays: to(7), LimitsEdit: tenant.LimitsEdit{RateLimit: to(9)}})
	require.NoError(t, err)
	assert.Equal(t, []any{name, 7, 9}, []any{o.Value.Name, o.Value.RetentionDays, o.Value.RateLimit})
	assert.WithinDuration(t, w.clock.Now(), o.Value.UpdatedAt, 5*time.Second)
	g, err := w.EditGroup(t.Context(), w.home, group, 0, tenant.GroupEdit{Name: &name, Description: to("of it")})
	require.NoError(t, err)
	assert.WithinDuration(t, w.clock.Now(), g.Value.UpdatedAt, 5*time.Second)
	for member, err := range map[string]error{
		"body.budget": second(w.EditKey(t.Context(), tenant.Platform(), w.home, p.Key, 0,
			tenant.KeyEdit{Budget: tenant.BudgetEdit(`{"period":"day"}`)})),
		"body.budget.period": second(w.EditGroup(t.Context(), w.home, group, 0,
			tenant.GroupEdit{Budget: tenant.BudgetEdit(`{}`)})),
		"body.budget.max_runs": second(w.EditOrganization(t.Context(), tenant.Platform(), w.name, 0,
			tenant.OrganizationEdit{
				Budget: tenant.BudgetEdit(`{"period":"day","max_runs":0}`),
			})),
		"body.name": second(w.CreateGroup(t.Context(), w.name, tenant.GroupEdit{Name: to("")})),
	} {
		assert.Equal(t, member, about(t, err))
	}
	assert.Equal(t, []string{name, "of it"}, []string{g.Value.Name, g.Value.Description})
}

// An unchanged model is not checked again, nor is one with skipCheck. Deleted groups that were named before may stay.
func TestEditKeepsUncheckedWhatTheAgentHad(t *testing.T) {
	w := newWorld(t)
	p, _ := w.person("a@example.com", tenant.Manager, tenant.LevelManage)
	group := w.group()
	model := func(name string) func(s *catalog.AgentSpec) {
		return func(s *catalog.AgentSpec) { s.Model.Name, s.ApproverGroupIDs = name, []string{group} }
	}
	assert.Equal(t, "body.model.name", about(t, w.CheckAgent(t.Context(), w.name, w.spec(model("none")), false)))
	assert.NoError(t, w.CheckAgent(t.Context(), w.name, w.spec(model("one")), false))
	agent := w.agent(model("none"))
	_, err := w.RemoveGroup(t.Context(), w.home, group)
	require.NoError(t, err)
	edit := func(change func(s *catalog.AgentSpec)) error {
		_, err := w.EditAgent(t.Context(), p, agent, 0, false, true, func(
			s catalog.AgentSpec,
		) (catalog.AgentSpec, error) {
			change(&s)
			return s, nil
		})
		return err
	}
	e, err := record.Resource[catalog.Group](t.Context(), w.store, w.home, group)
	assert.Error(t, err, "%v", e)
	assert.NoError(t, edit(func(s *catalog.AgentSpec) { s.Description = "edited" }))
	assert.Equal(t, "body.model.name", about(t, edit(func(s *catalog.AgentSpec) { s.Model.Provider = "other" })))
	assert.NoError(t, edit(func(s *catalog.AgentSpec) { s.Model.Name = "two" }))
	assert.Equal(t, "body.model.name", about(t, edit(func(s *catalog.AgentSpec) { s.Model.Name = "none" })))
	assert.ErrorIs(t, edit(func(s *catalog.AgentSpec) { s.Model.Name = "none" }), errNoModel)
	_, err = w.EditAgent(t.Context(), p, agent, 0, false, true,
		func(s catalog.AgentSpec) (catalog.AgentSpec, error) { return s, errNoModel })
	assert.ErrorIs(t, err, errNoModel)

	require.NoError(t, w.RemoveAgent(t.Context(), p, agent))
	_, err = record.Resource[catalog.RemovedAgent](t.Context(), w.store, w.home, agent)
	assert.NoError(t, err, "its versions are known to be there")
}

// A waiter for changes of rights is notified of those in its own organization. It is notified of those by operators,
// too, who may change any.
func TestChangeNotifiesItsOrganizationOrAll(t *testing.T) {
	w := newWorld(t)
	in := func(organization string, level tenant.Level) tenant.Principal {
		return tenant.Principal{Organization: organization, Level: level}
	}
	listen := func(organization string, level tenant.Level) *int {
		calls := 0
		t.Cleanup(w.OnChange(in(organization, level), func() { calls++ }))
		return &calls
	}
	for _, c := range []struct {
		by         tenant.Principal
		ours, hers bool
	}{
		{in("ours", tenant.LevelAdmin), true, false}, {in("hers", tenant.LevelRead), false, true},
		{in("third", tenant.LevelAdmin), false, false}, {in("third", tenant.LevelOperator), true, true},
	} {
		before := w.Changes(in("ours", tenant.LevelRun))
		ours, same := listen("ours", tenant.LevelRun), listen("ours", tenant.LevelRead)
		hers := listen("hers", tenant.LevelRun)
		none := 0
		w.OnChange(in("ours", tenant.LevelRun), func() { none++ })()
		w.Change(c.by)
		w.Change(c.by)
		assert.Equal(t, []bool{c.ours, c.ours, c.hers}, []bool{*ours == 2, *same == 2, *hers == 2}, c.by)
		after := w.Changes(in("ours", tenant.LevelRun))
		assert.Equal(t, c.ours, after == before+2, c.by)
		assert.Zero(t, none, c.by)
	}
}

// A new deployment has an operator key, an agent that can run, and the daily retention job.
func TestBootstrapCreatesAWorkingDeployment(t *testing.T) {
	w := newWorld(t)
	first, err := w.Bootstrap(t.Context())
	require.NoError(t, err)
	p, err := w.Authenticate(t.Context(), first.Key)
	require.NoError(t, err)
	assert.Equal(t, tenant.LevelOperator, p.Level)
	assert.Equal(t, first.Organization.ID, p.Organization)
	assert.Equal(t, []string{"local", "Demo"}, []string{p.Account().Organization.Name, first.Agent.Spec.Name})
	assert.NotEmpty(t, first.Agent.Spec.Description)
	_, err = w.Runnable(t.Context(), p, first.Agent.ID, 1)
	assert.NoError(t, err)
	job, found, err := w.store.Job(t.Context(), record.DerivedID("retention", p.Organization))
	require.NoError(t, err)
	require.True(t, found)
	assert.WithinDuration(t, w.clock.Now().Add(24*time.Hour), job.Value.Due, 5*time.Second)
	for fails := range 5 { // the first commits
		w := newWorld(t)
		calls := 0
		w.items.Before = func(c faulttable.Call) faulttable.Fault {
			if c.Commit {
				if calls++; calls > fails {
					return faulttable.Down
				}
			}
			return faulttable.None
		}
		_, err := w.Bootstrap(t.Context())
		assert.Equal(t, fails < 4, err != nil, fails)
	}
}
