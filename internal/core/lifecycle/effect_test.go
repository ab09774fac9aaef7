package lifecycle_test

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	. "agentplatform/internal/core/lifecycle"
)

// Each transition changes exactly the fields that are named here, and the time of the last change.
func TestEachTransitionChangesOnlyItsOwnFields(t *testing.T) {
	type change = func(*Run)
	work := Work{Attempt: 1, Active: 2 * time.Second, Usage: Usage{OutputTokens: 7}, Steps: 3, Until: t0.Add(time.Hour)}
	still := work
	still.Until = time.Time{}
	reported := func(r *Run) {
		r.ActiveMS, r.Usage, r.Steps, r.Lease.Until = 2000, work.Usage, 3, work.Until
	}
	waited := now.Sub(t0).Milliseconds()
	ended := func(s Status) func(*Run) {
		return func(r *Run) {
			r.Status, r.Lease, r.FinishedAt = s, Lease{}, now
			r.Due, r.Slots, r.Crashes = time.Time{}, Slots{}, 0
			r.Interrupts, r.ExpiresAt = nil, time.Time{}
			r.Transition++
			if r.Attempt == 0 { // it was never begun
				r.QueueMS = waited
			}
		}
	}
	removed := func(r *Run) { r.CancelRequested, r.CancelReason, r.Callback = true, ReasonRemoved, false }
	startBy, free := now.Add(time.Hour), Slots{"3", "4"}
	requeued := func(r *Run) {
		r.Status, r.Transition, r.Slots, r.QueuedAt, r.StartBy = Queued, 2, free, now, startBy
		r.Due, r.DecidedBy = now.Add(DispatchGrace), "me"
		r.Interrupts, r.ExpiresAt, r.PausedAt = nil, time.Time{}, time.Time{}
		r.Crashes = 0
	}
	paused := func(r *Run) { r.PausedAt, r.PausedAgentVersion, r.Crashes = t0, 4, 2 }
	lapsed := func(r *Run) { r.StartedAt, r.Lease.Until = t0, t0 }
	nothing := func(*Run) {}
	for name, c := range map[string]struct {
		from   Status
		before func(*Run)
		event  Event
		change []change
	}{
		"the first claim": {Queued, nothing, Claim{Holder: "w2", ProcessID: "b", Until: startBy},
			[]change{func(r *Run) {
				r.Status, r.Transition, r.Attempt, r.StartedAt, r.StartBy = Running, 2, 1, now, time.Time{}
				r.Lease, r.QueueMS = Lease{Holder: "w2", ProcessID: "b", Until: startBy}, waited
			}}},
		"the claim of a lost worker's run": {Running, lapsed, Claim{Holder: "w2", Until: startBy},
			[]change{func(r *Run) {
				r.Attempt, r.Crashes, r.Lease = 2, 1, Lease{Holder: "w2", Until: startBy}
			}}},
		"a beat": {Running, nothing, Renew{work}, []change{reported}},
		"a beat that keeps the lease": {
			Running, nothing, Renew{still},
			[]change{func(r *Run) { r.ActiveMS, r.Usage, r.Steps = 2000, work.Usage, 3 }},
		},
		"a step after crashes": {
			Running, func(r *Run) { r.Crashes = 3 }, Step{work},
			[]change{reported, func(r *Run) { r.Crashes = 0 }},
		},
		"a hand-over": {
			Running, nothing, Release{work},
			[]change{reported, func(r *Run) { r.Hops, r.Lease, r.Due = 1, Lease{}, now.Add(DispatchGrace) }},
		},
		"a crash": {
			Running, nothing, Crash{work},
			[]change{reported, func(r *Run) { r.Crashes, r.Lease, r.Due = 1, Lease{}, now.Add(DispatchGrace) }},
		},
		"completion": {Running, nothing, Complete{work}, []change{reported, ended(Completed)}},
		"failure": {
			Running, nothing, Fail{Work: work, Error: "broken"},
			[]change{reported, ended(Failed), func(r *Run) { r.Error = "broken" }},
		},
		"failure of a refused message": {
			Running, nothing, Fail{Work: work, Error: "no", Refused: true},
			[]change{reported, ended(Failed), func(r *Run) { r.Error, r.Refused = "no", true }},
		},
		"failure of a refused message after a cancel": {
			Running, func(r *Run) { r.CancelRequested = true }, Fail{Work: work, Error: "no", Refused: true},
			[]change{reported, ended(Cancelled)},
		},
		"the active limit": {
			Running, nothing, TimeOut{work},
			[]change{reported, ended(TimedOut), func(r *Run) {
				r.Error = "the run reached its active-execution limit of 1m0s"
			}},
		},
		"recovery of what was to be over": {
			Running, func(r *Run) { lapsed(r); r.Hops = MaxHops }, Recover{},
			[]change{ended(Failed), func(r *Run) { r.Error = "the run was released 500 times" }},
		},
		"the start deadline": {
			Queued, func(r *Run) { r.StartBy = now }, Unstartable{},
			[]change{ended(Failed), func(r *Run) { r.Error = "the run could not be started within 1m0s" }},
		},
		"a start deadline that is moved": {
			Queued, func(r *Run) { r.StartBy = now }, Postpone{Due: now.Add(DispatchGrace), StartBy: startBy},
			[]change{func(r *Run) { r.StartBy, r.Due = startBy, now.Add(DispatchGrace) }},
		},
		"a start deadline that is moved as far as it may be": {
			Queued, func(r *Run) { r.StartBy, r.QueuedAt = now, now.Add(time.Second-MaxQueued) },
			Postpone{Due: now.Add(DispatchGrace), StartBy: startBy},
			[]change{func(r *Run) { r.StartBy, r.Due = now.Add(time.Second), now.Add(time.Second) }},
		},
		"a pause": {Running, func(r *Run) { r.Crashes = 2 },
			Pause{work, []Pending{{ID: "i", Kind: Approval}}, startBy, 4},
			[]change{reported, func(r *Run) {
				r.Status, r.Transition, r.Lease, r.Crashes, r.Pause, r.PausedAt = AwaitingInput, 2, Lease{}, 0, 1, now
				r.Interrupts = []Pending{{ID: "i", Kind: Approval}}
				r.ExpiresAt, r.Due, r.PausedAgentVersion = startBy, startBy, 4
				r.Slots = Slots{PausedSlot(now, r.RunID), PausedSlot(now, r.RunID)}
			}}},
		"a resume": {
			AwaitingInput, paused, Resume{Decisions: []Decision{{"i1", Answer}}, By: "me", Slots: free,
				StartBy: startBy},
			[]change{requeued},
		},
		"an answer": {
			AwaitingInput, paused, AnswerMessage{By: "me", Slots: free, StartBy: startBy},
			[]change{requeued},
		},
		"an expiry": {
			AwaitingInput, func(r *Run) { r.ExpiresAt = now }, Expire{Pause: 1},
			[]change{ended(Cancelled), func(r *Run) { r.CancelReason = "nobody decided before the pause expired" }},
		},
		"a cancel under way": {
			Running, nothing, Cancel{Reason: "no"},
			[]change{func(r *Run) { r.CancelRequested, r.CancelReason = true, "no" }},
		},
		"a cancel at once": {
			Queued, nothing, Cancel{Reason: "no"},
			[]change{ended(Cancelled), func(r *Run) { r.CancelRequested, r.CancelReason = true, "no" }},
		},
		"a cancel asked again": {
			Running, func(r *Run) { lapsed(r); r.CancelRequested, r.CancelReason = true, "first" },
			Cancel{Reason: "second"},
			[]change{ended(Cancelled)},
		},
		"a park": {Queued, nothing, Park{"p"}, []change{func(r *Run) { r.Parked = []string{"p"} }}},
		"a later look": {
			Queued, nothing, Postpone{Due: now.Add(time.Second)},
			[]change{func(r *Run) { r.Due = now.Add(time.Second) }},
		},
		"a look that would be later than the start deadline": {
			Queued, nothing, Postpone{Due: startBy},
			[]change{func(r *Run) { r.Due = r.StartBy }},
		},
		"a start deadline that is later than the one asked for": {
			Queued, func(r *Run) { r.StartBy = startBy }, Postpone{Due: now.Add(time.Second), StartBy: now},
			[]change{func(r *Run) { r.Due = now.Add(time.Second) }},
		},
		"a later look at a run that has started": {
			Running, nothing, Postpone{Due: startBy, StartBy: startBy},
			[]change{func(r *Run) { r.Due = startBy }},
		},
		"a removal": {
			Queued, func(r *Run) { r.Parked = []string{"p"} }, Remove{},
			[]change{ended(Cancelled), removed, func(r *Run) { r.Deleted, r.Parked = true, nil }},
		},
		"a removal in its chat": {
			Queued, func(r *Run) { r.Parked = []string{"p"} }, Remove{KeepParked: true},
			[]change{ended(Cancelled), removed},
		},
		"a removal of a run with a worker": {
			Running, func(r *Run) { r.Parked = []string{"p"} }, Remove{},
			[]change{removed, func(r *Run) { r.Deleted, r.Slots = true, Slots{} }},
		},
		"the end of a removed run": {
			Running, func(r *Run) { r.Deleted, r.CancelRequested, r.Parked = true, true, []string{"p"} },
			Fail{Work: work},
			[]change{reported, ended(Cancelled), func(r *Run) { r.Parked = nil }},
		},
		"the last of the crashes": {Running, func(r *Run) { r.Crashes = MaxCrashes - 1 }, Crash{work},
			[]change{reported, ended(Failed), func(r *Run) {
				r.Error = "the agent's work failed inside the service 5 times without finishing a step"
			}}},
	} {
		r := sample(c.from)
		c.before(&r)
		want := r
		for _, change := range c.change {
			change(&want)
		}
		want.UpdatedAt = now
		o, err := Apply(r, c.event, now)
		require.NoError(t, err, name)
		assert.Equal(t, want, o.After, name)
	}
}

func TestReportOfAnEarlierAttemptIsRefusedAndChangesNothing(t *testing.T) {
	for _, crashes := range []int{0, MaxCrashes - 1} {
		for _, e := range []Event{
			Renew{work}, Step{work}, Release{work}, Crash{work}, Pause{Work: work}, Complete{work},
			Fail{Work: work, Error: "x"}, TimeOut{work},
		} {
			r := sample(Running)
			r.Attempt, r.Crashes = 2, crashes
			o, err := Apply(r, e, now)
			assert.True(t, RefusedFor(err, LeaseLost), NameOf(e))
			assert.Equal(t, Outcome{}, o, NameOf(e))
		}
	}
	assert.False(t, RefusedFor(errors.New("the store is away"), LeaseLost))
	assert.False(t, RefusedFor(nil, LeaseLost))
}

func TestRunWithoutAWorkerIsExecutedUntilALimitIsReached(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Run)
		ends   bool
	}{
		"one hand-over below the bound":         {func(r *Run) { r.Hops = MaxHops - 1 }, false},
		"the bound of hand-overs":               {func(r *Run) { r.Hops = MaxHops }, true},
		"a millisecond below its limit":         {func(r *Run) { r.LimitMS, r.ActiveMS = 1, 0 }, false},
		"its limit":                             {func(r *Run) { r.LimitMS, r.ActiveMS = 1, 1 }, true},
		"no limit":                              {func(r *Run) { r.LimitMS, r.ActiveMS = 0, 5 }, false},
		"handed over, a crash below the bound":  {func(r *Run) { r.Lease, r.Crashes = Lease{}, MaxCrashes-1 }, false},
		"a lapse that makes up the last crash":  {func(r *Run) { r.Crashes = MaxCrashes - 1 }, true},
		"a lapse that is the last but one":      {func(r *Run) { r.Crashes = MaxCrashes - 2 }, false},
		"a cancel that its worker did not hear": {func(r *Run) { r.CancelRequested = true }, true},
	} {
		r := sample(Running)
		r.Lease.Until = t0
		c.change(&r)
		pending := Next(r, now, "")
		assert.Equal(t, c.ends, pending.Event != nil, name)
		assert.Equal(t, !c.ends, pending.Execute, name)
		if !c.ends {
			assert.Equal(t, now.Add(DispatchGrace), pending.Again, name)
		}
	}
}

func TestStatusPredicatesFitEachStatus(t *testing.T) {
	type meaning struct{ active, counts, rests, terminal bool }
	want := map[Status]meaning{
		Queued:        {active: true, counts: true},
		Running:       {active: true, counts: true},
		AwaitingInput: {active: true, rests: true},
		Completed:     {rests: true, terminal: true},
		Failed:        {rests: true, terminal: true},
		Cancelled:     {rests: true, terminal: true},
		TimedOut:      {rests: true, terminal: true},
	}
	got := map[Status]meaning{}
	for _, s := range Statuses() {
		got[s] = meaning{s.Active(), s.Counts(), s.EndedOrWaiting(), s.Terminal()}
	}
	assert.Equal(t, want, got)
	r := sample(Queued)
	r.Interrupts = []Pending{{ID: "i", Kind: Clarification}}
	assert.False(t, r.Answerable(), "only a paused run is answered by a message")
	r.Status = AwaitingInput
	assert.True(t, r.Answerable())
	r.Interrupts[0].Call = true
	assert.False(t, r.Answerable(), "no message is the output of a call")
}

func TestQueuedRunIsDueAfterTheDispatchGraceOrAtItsStartDeadline(t *testing.T) {
	for _, c := range []struct{ patience, due time.Duration }{
		{DispatchGrace - time.Second, DispatchGrace - time.Second}, {DispatchGrace, DispatchGrace},
		{time.Hour, DispatchGrace},
	} {
		assert.Equal(t, now.Add(c.due), Accept(RunSpec{}, ChatPosition{}, now, now.Add(c.patience)).Due)
	}
}

func TestChatRecordsItsTurnLastRunAndParticipants(t *testing.T) {
	c := Chat{Epoch: 2}
	assert.Equal(t, ChatPosition{Epoch: 2, Turn: 1}, c.Next())
	for turn, agent := range []string{"a", "b", "a"} {
		r := Accept(RunSpec{RunID: agent, Agent: agent}, c.Next(), now, now)
		before := c
		c = c.Begin(r, now)
		assert.Equal(t, Chat{Epoch: 2, ActiveRun: agent, LastRun: agent, Turn: turn + 1, UpdatedAt: now,
			Agents: c.Agents}, c)
		assert.LessOrEqual(t, len(before.Agents), turn)
		c = c.Release(now.Add(time.Minute))
		assert.Equal(t, Chat{Epoch: 2, LastRun: agent, Turn: turn + 1, UpdatedAt: now.Add(time.Minute),
			Agents: c.Agents}, c)
	}
	assert.Equal(t, []string{"a", "b"}, c.Agents)
	assert.Equal(t, ChatPosition{Epoch: 2, Turn: 4, Previous: "a"}, c.Next())

	old := Chat{Turn: 1}.Begin(Accept(RunSpec{Agent: "b"}, ChatPosition{Turn: 2}, now, now), now)
	assert.Empty(t, old.Agents, "who took part earlier was not noted, so a part of them is not either")
}

// The time in the queue is the sum over the pauses of a run. A clock that was set back does not reduce it.
func TestTheTimeInTheQueueAddsUp(t *testing.T) {
	r := sample(Queued)
	then := func(e Event, at time.Time) {
		o, err := Apply(r, e, at)
		require.NoError(t, err, NameOf(e))
		r = o.After
	}
	at := r.QueuedAt.Add(3 * time.Second)
	then(Claim{Holder: "w", Until: at.Add(time.Hour)}, at)
	assert.Equal(t, int64(3000), r.QueueMS)
	then(Pause{Work{Attempt: r.Attempt}, []Pending{{ID: "i", Kind: Approval}}, at.Add(time.Hour), 1}, at)
	at = at.Add(10 * time.Second)
	then(Resume{Decisions: []Decision{{"i", Approve}}, StartBy: at.Add(time.Hour)}, at)
	assert.Equal(t, int64(3000), r.QueueMS, "a pause is no queue")
	at = at.Add(2 * time.Second)
	then(Claim{Holder: "w", Until: at.Add(time.Hour)}, at)
	assert.Equal(t, int64(5000), r.QueueMS)

	r = sample(Queued)
	then(Cancel{}, r.QueuedAt.Add(-time.Minute))
	assert.Zero(t, r.QueueMS)
}
