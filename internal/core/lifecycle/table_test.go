package lifecycle_test

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	. "agentplatform/internal/core/lifecycle"
)

var update = flag.Bool("update", false, "rewrite golden files")

var t0 = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// sample is a run in a status, a minute after t0.
func sample(s Status) Run {
	r := Accept(RunSpec{
		RunID: "6955b900aaaaaaaaaaaaaaaa", Organization: "o", User: "u", APIKey: "k", Agent: "a", Chat: "c",
		LimitMS: 60_000, Callback: true,
	}, ChatPosition{Turn: 1, Slots: Slots{User: "0", Organization: "0"}}, t0, t0.Add(10*time.Minute))
	r.Status = s
	switch s {
	case Running:
		r.Attempt, r.Lease = 1, Lease{Holder: "w", Until: t0.Add(90 * time.Second)}
	case AwaitingInput:
		r.Attempt, r.Pause, r.ExpiresAt = 1, 1, t0.Add(72*time.Hour)
		r.Interrupts = []Pending{{ID: "i1", Kind: Clarification}}
		r.Slots = Slots{User: PausedSlot(t0, r.RunID), Organization: PausedSlot(t0, r.RunID)}
	}
	return r
}

var work = Work{Attempt: 1, Active: 2 * time.Second, Usage: Usage{ModelCalls: 1}, Until: t0.Add(5 * time.Minute)}

// happy has for each transition an event that succeeds in every status in which the table lets it begin.
func happy() map[string]func(r *Run) Event {
	lapsed := func(r *Run) {
		if r.Status == Running {
			r.Lease.Until = t0
		}
	}
	return map[string]func(r *Run) Event{
		"claim":     func(r *Run) Event { lapsed(r); return Claim{Holder: "w2", Until: t0.Add(2 * time.Minute)} },
		"beat":      func(*Run) Event { return Renew{work} },
		"step":      func(*Run) Event { return Step{work} },
		"hand_over": func(*Run) Event { return Release{work} },
		"crash":     func(*Run) Event { return Crash{work} },
		"pause": func(*Run) Event {
			return Pause{work, []Pending{{ID: "i1", Kind: Approval}}, t0.Add(72 * time.Hour), 1}
		},
		"complete": func(*Run) Event { return Complete{work} },
		"fail":     func(*Run) Event { return Fail{Work: work, Error: "broken"} },
		"time_out": func(*Run) Event { return TimeOut{work} },
		"recover":  func(r *Run) Event { lapsed(r); r.Crashes = 4; return Recover{} },
		"unstartable": func(r *Run) Event {
			r.StartBy = t0
			return Unstartable{}
		},
		"resume": func(*Run) Event {
			return Resume{Decisions: []Decision{{"i1", Answer}}, By: "me", Slots: Slots{"1", "1"},
				StartBy: t0.Add(time.Hour)}
		},
		"answer": func(*Run) Event {
			return AnswerMessage{By: "me", Slots: Slots{"1", "1"}, StartBy: t0.Add(time.Hour)}
		},
		"expire":   func(r *Run) Event { r.ExpiresAt = t0; return Expire{Pause: 1} },
		"cancel":   func(*Run) Event { return Cancel{Reason: "no"} },
		"park":     func(*Run) Event { return Park{ID: "p"} },
		"withdraw": func(r *Run) Event { r.Parked = []string{"p"}; return Withdraw{ID: "p"} },
		"postpone": func(*Run) Event { return Postpone{Due: t0.Add(time.Hour)} },
		"remove":   func(*Run) Event { return Remove{} },
	}
}

var now = t0.Add(time.Minute)

func TestEveryTransitionFromEveryStatusFollowsTheTable(t *testing.T) {
	events := happy()
	for _, m := range Transitions() {
		make, ok := events[m.Name]
		require.True(t, ok, "%s has no event here", m.Name)
		for _, s := range Statuses() {
			t.Run(m.Name+" from "+string(s), func(t *testing.T) {
				r := sample(s)
				e := make(&r)
				require.Equal(t, m.Name, NameOf(e))
				before := fmt.Sprintf("%+v", r)
				o, err := Apply(r, e, now)
				assert.Equal(t, before, fmt.Sprintf("%+v", r), "the run that went in is changed")
				if !slices.Contains(m.From, s) {
					require.ErrorIs(t, err, ErrRefused)
					if s.Terminal() {
						assert.True(t, RefusedFor(err, Ended))
					} else {
						assert.True(t, RefusedFor(err, WrongState))
					}
					return
				}
				require.NoError(t, err)
				assert.Contains(t, m.To, o.After.Status)
				consequences(t, o)
			})
		}
	}
}

// consequences checks the rules that hold after any transition.
func consequences(t *testing.T, o Outcome) {
	t.Helper()
	b, a := o.Before, o.After
	assert.Equal(t, a.Status.Terminal(), a.Due.IsZero())
	assert.Equal(t, a.Status.Terminal() && len(a.Parked) > 0, o.Promote != "")
	entered := a.Transition != b.Transition
	assert.Equal(t, entered, a.Status != b.Status)
	assert.Equal(t, a.Status == Completed, a.Billed())
	if a.Status.Terminal() {
		assert.Equal(t, Slots{}, a.Slots)
	}
	assert.False(t, o.Announce && !entered)
	assert.Equal(t, a.Status == AwaitingInput && entered, o.Arm)
	assert.Equal(t, b.Status == AwaitingInput && entered && now.Before(b.ExpiresAt), o.Disarm)
	assert.Equal(t, a.Status != AwaitingInput, len(a.Interrupts) == 0)
	assert.Equal(t, now, a.UpdatedAt)
}

// The table that clients see (specification, States and transitions), row by row: from, transition, to.
func TestTableHasTheSpecificationsRows(t *testing.T) {
	for _, row := range []struct {
		from Status
		move string
		to   Status
	}{
		{Queued, "claim", Running}, {Queued, "unstartable", Failed}, {Running, "complete", Completed},
		{Running, "fail", Failed},
		{Running, "pause", AwaitingInput}, {AwaitingInput, "resume", Queued}, {AwaitingInput, "answer", Queued},
		{AwaitingInput, "expire", Cancelled},
		{Queued, "cancel", Cancelled}, {AwaitingInput, "cancel", Cancelled}, {Running, "cancel", Running},
		{Running, "time_out", TimedOut},
	} {
		r := sample(row.from)
		o, err := Apply(r, happy()[row.move](&r), now)
		require.NoError(t, err, row)
		assert.Equal(t, row.to, o.After.Status, row)
	}
	assert.Equal(t, Queued, sample(Queued).Status)
}

func TestRunWithARequestedCancelAlwaysEndsCancelled(t *testing.T) {
	for _, e := range []Event{Complete{work}, Fail{Work: work, Error: "x"}, TimeOut{work}, Crash{work},
		Pause{work, []Pending{{ID: "i", Kind: Approval}}, now, 1}} {
		o, err := Apply(sample(Running), Cancel{Reason: "stop"}, now)
		require.NoError(t, err)
		assert.Equal(t, Running, o.After.Status)
		o, err = Apply(o.After, e, now)
		require.NoError(t, err)
		assert.Equal(t, Cancelled, o.After.Status, NameOf(e))
		assert.False(t, o.After.Billed())
		assert.Equal(t, int64(2000), o.After.ActiveMS, "what was used is recorded")
	}
}

func TestCancelOfARunWithALapsedLeaseSettlesIt(t *testing.T) {
	r := sample(Running)
	r.Lease.Until = t0
	o, err := Apply(r, Cancel{}, now)
	require.NoError(t, err)
	assert.Equal(t, Cancelled, o.After.Status)
	assert.Empty(t, o.Promote)
}

func TestImpossibleTransitionsAreRefusedWithTheirReason(t *testing.T) {
	with := func(s Status, change func(*Run)) Run {
		r := sample(s)
		change(&r)
		return r
	}
	other := work
	other.Attempt = 2
	two := func(r *Run) { r.Interrupts = []Pending{{ID: "i1", Kind: Approval}, {ID: "i2", Kind: Clarification}} }
	for name, c := range map[string]struct {
		run    Run
		event  Event
		reason Reason
	}{
		"claim of a living worker's run": {sample(Running), Claim{Holder: "w2"}, LeaseHeld},
		"claim after the start deadline": {with(Queued, func(r *Run) { r.StartBy = t0 }), Claim{Holder: "w"},
			TooEarly},
		"claim of a run that must end": {with(Running, func(r *Run) {
			r.Lease.Until, r.CancelRequested = t0, true
		}), Claim{Holder: "w2"}, Ended},
		"report of an earlier attempt": {with(Running, func(r *Run) { r.Attempt = 2 }), Complete{work},
			LeaseLost},
		"report of a later attempt": {sample(Running), Complete{other}, LeaseLost},
		"report after a hand-over": {with(Running, func(r *Run) { r.Lease = Lease{} }), Step{work},
			LeaseLost},
		"recover a living run": {sample(Running), Recover{}, LeaseHeld},
		"recover a run that may go on": {with(Running, func(r *Run) { r.Lease.Until = t0 }), Recover{},
			TooEarly},
		"unstartable before the deadline": {sample(Queued), Unstartable{}, TooEarly},
		"expire before its time":          {sample(AwaitingInput), Expire{Pause: 1}, TooEarly},
		"expire an earlier pause": {with(AwaitingInput, func(r *Run) { r.Pause, r.ExpiresAt = 2, t0 }),
			Expire{Pause: 1}, StalePause},
		"resume with nothing": {sample(AwaitingInput), Resume{}, Mismatch},
		"resume with a part": {with(AwaitingInput, two),
			Resume{Decisions: []Decision{{"i1", Approve}}}, Mismatch},
		"resume with one twice": {with(AwaitingInput, two),
			Resume{Decisions: []Decision{{"i1", Approve}, {"i1", Approve}}}, Mismatch},
		"resume with too many": {sample(AwaitingInput),
			Resume{Decisions: []Decision{{"i1", Answer}, {"i2", Answer}}}, Mismatch},
		"resume with another's": {sample(AwaitingInput), Resume{Decisions: []Decision{{"x", Answer}}},
			Mismatch},
		"approve a question": {sample(AwaitingInput),
			Resume{Decisions: []Decision{{"i1", Approve}}}, WrongKind},
		"answer an approval": {with(AwaitingInput, two),
			Resume{Decisions: []Decision{{"i1", Answer}, {"i2", Answer}}}, WrongKind},
		"a message for two interrupts": {with(AwaitingInput, two), AnswerMessage{}, NotAnswerable},
		"a message for an approval": {with(AwaitingInput, func(r *Run) {
			r.Interrupts[0].Kind = Approval
		}), AnswerMessage{}, NotAnswerable},
		"cancel twice": {with(Running, func(r *Run) { r.CancelRequested = true }), Cancel{},
			AlreadyFlagged},
		"a sixth parked message": {with(Queued, func(r *Run) {
			r.Parked = []string{"1", "2", "3", "4", "5"}
		}), Park{"6"}, ParkedFull},
		"withdraw what is not parked":          {sample(Queued), Withdraw{"x"}, NotParked},
		"resume of a queued run":               {sample(Queued), Resume{}, WrongState},
		"resume of a run that has ended":       {sample(Completed), Resume{}, Ended},
		"a worker of a run that was cancelled": {sample(Cancelled), Complete{work}, Ended},
	} {
		_, err := Apply(c.run, c.event, now)
		require.ErrorIs(t, err, ErrRefused, name)
		assert.True(t, RefusedFor(err, c.reason), "%s: %v", name, err)
	}
}

// Hazards of docs/hazards.md that concern the core only.
func TestHazard05StaleExpiryTimer(t *testing.T) {
	r := sample(AwaitingInput)
	r.Pause, r.ExpiresAt = 2, now.Add(71*time.Hour)
	_, err := Apply(r, Expire{Pause: 1}, now)
	assert.True(t, RefusedFor(err, StalePause))
	assert.Nil(t, Next(r, now, "").Event, "and a nudge finds nothing to do")
}

func TestHazard10LateDeliveries(t *testing.T) {
	for _, s := range []Status{Completed, Failed, Cancelled, TimedOut, AwaitingInput} {
		pending := Next(sample(s), now, "")
		assert.False(t, pending.Execute, s)
		assert.Nil(t, pending.Event, s)
	}
	r := sample(AwaitingInput)
	o, err := Apply(r, AnswerMessage{StartBy: now.Add(10 * time.Minute)}, t0.Add(20*time.Minute))
	require.NoError(t, err)
	assert.Equal(t, now.Add(10*time.Minute), o.After.StartBy, "a resumed run gets a fresh start deadline")
}

func TestHazard11CancelWithADeadWorker(t *testing.T) {
	r := sample(Running)
	r.CancelRequested, r.Lease.Until = true, t0
	pending := Next(r, now, "")
	require.False(t, pending.Execute, "it is not executed again")
	o, err := Apply(r, pending.Event, now)
	require.NoError(t, err)
	assert.Equal(t, Cancelled, o.After.Status)
}

func TestHazard12ActiveTime(t *testing.T) {
	r := sample(Running)
	report := func(active time.Duration) {
		w := work
		w.Active = active
		o, err := Apply(r, Renew{w}, now)
		require.NoError(t, err)
		r = o.After
	}
	report(3 * time.Second)
	report(3 * time.Second) // the same report again
	report(2 * time.Second) // an older one, late
	assert.Equal(t, int64(3000), r.ActiveMS)
	r.ActiveMS, r.Lease.Until = r.LimitMS, t0
	o, err := Apply(r, Next(r, now, "").Event, now)
	require.NoError(t, err)
	assert.Equal(t, TimedOut, o.After.Status, "the same clock drives the time limit after a crash")
}

func TestHazard22PauseWhoseTimerWasNeverArmed(t *testing.T) {
	r := sample(AwaitingInput)
	assert.Equal(t, r.ExpiresAt, Next(r, now, "").Again)
	pending := Next(r, r.ExpiresAt, "")
	o, err := Apply(r, pending.Event, r.ExpiresAt)
	require.NoError(t, err)
	assert.Equal(t, Cancelled, o.After.Status)
}

func TestJournalledStepResetsTheCountOfCrashes(t *testing.T) {
	r := sample(Running)
	for n := 1; n < MaxCrashes; n++ {
		r.Lease.Until = t0
		o, err := Apply(r, Claim{Holder: "w", Until: now.Add(time.Second)}, now)
		require.NoError(t, err)
		r = o.After
		assert.Equal(t, n, r.Crashes)
	}
	progress := r
	r.Lease.Until = t0
	pending := Next(r, now, "")
	require.NotNil(t, pending.Event)
	o, err := Apply(r, pending.Event, now)
	require.NoError(t, err)
	assert.Equal(t, Failed, o.After.Status)

	w := work
	w.Attempt = progress.Attempt
	o, err = Apply(progress, Step{w}, now)
	require.NoError(t, err)
	assert.Zero(t, o.After.Crashes)
	o, err = Apply(o.After, Release{w}, now)
	require.NoError(t, err)
	o, err = Apply(o.After, Claim{Holder: "x", Until: now.Add(time.Second)}, now)
	require.NoError(t, err)
	assert.Zero(t, o.After.Crashes, "a hand-over is no crash")
}

func TestPromotedRunInheritsTheChatAndTheOtherParkedMessages(t *testing.T) {
	r := sample(Running)
	r.Parked = []string{"p1", "p2", "p3"}
	o, err := Apply(r, Fail{Work: work, Error: "x"}, now)
	require.NoError(t, err)
	assert.Equal(t, "p1", o.Promote)
	assert.True(t, o.Wake)
	p := o.Inherit(Slots{"0", "0"}, "u")
	assert.Equal(t, ChatPosition{User: "u", Turn: 2, Previous: r.RunID, Parked: []string{"p2", "p3"},
		Slots: Slots{"0", "0"}}, p)
}

func TestLeaseOfAnotherProcessIsVoidWhereOnlyOneProcessLives(t *testing.T) {
	l := Lease{Holder: "w", ProcessID: "one", Until: now.Add(time.Hour)}
	assert.False(t, l.Lapsed(now, "one"))
	assert.True(t, l.Lapsed(now, "two"))
	assert.False(t, l.Lapsed(now, ""))
}

// The state diagram is generated from the table, so that it cannot be out of date.
func TestDiagramFollowsTheTable(t *testing.T) {
	var b strings.Builder
	b.WriteString("# The states of a run\n\nDrawn from the transition table by `make golden`; do not edit.\n\n")
	b.WriteString("```mermaid\nstateDiagram-v2\n    [*] --> queued: accept\n")
	for _, m := range Transitions() {
		for _, from := range m.From {
			for _, to := range m.To {
				r := sample(from)
				if from == to && len(m.To) > 1 || from != to && len(m.From) > 1 && !reaches(r, m.Name, to) {
					continue
				}
				fmt.Fprintf(&b, "    %s --> %s: %s\n", from, to, m.Name)
			}
		}
	}
	for _, s := range Statuses() {
		if s.Terminal() {
			fmt.Fprintf(&b, "    %s --> [*]\n", s)
		}
	}
	b.WriteString("```\n\n| transition | from | to | when |\n|---|---|---|---|\n")
	join := func(list []Status) string {
		var s []string
		for _, x := range list {
			s = append(s, string(x))
		}
		return strings.Join(s, ", ")
	}
	for _, m := range Transitions() {
		fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", m.Name, join(m.From), join(m.To), m.When)
	}
	golden(t, "STATES.md", b.String())
}

// reaches reports whether the transition's event in happy leads from the run to the status.
func reaches(r Run, move string, to Status) bool {
	o, err := Apply(r, happy()[move](&r), now)
	return err == nil && o.After.Status == to
}

func golden(t *testing.T, file, got string) {
	t.Helper()
	if *update {
		require.NoError(t, os.WriteFile(file, []byte(got), 0o600))
	}
	want, err := os.ReadFile(file)
	require.NoError(t, err)
	assert.Equal(t, string(want), got, "run make golden if this is meant")
}
