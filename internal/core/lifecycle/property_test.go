package lifecycle_test

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	. "agentplatform/internal/core/lifecycle"
)

// dumb is a second implementation of the core, as simple as possible: the state of a run in a few fields, and the
// effect of each event in plain ifs. It models only the status, not the consequences.
type dumb struct {
	status    Status
	held      bool // a live worker
	attempt   int
	pause     int
	questions int
	approvals int
	parked    int
	flagged   bool
	crashes   int
	gone      bool // the worker has reported its own crash
}

func (d *dumb) end(s Status) string {
	d.status, d.held, d.questions, d.approvals = s, false, 0, 0
	return "ok"
}

func (d *dumb) do(event string, arg int) string {
	if d.status.Terminal() {
		return "refused"
	}
	mine := d.status == Running && d.held && arg == d.attempt
	switch event {
	case "claim":
		if d.status == Queued || d.status == Running && !d.held && !d.flagged && (d.gone || d.crashes+1 < MaxCrashes) {
			if d.status == Running && !d.gone {
				d.crashes++
			}
			d.status, d.held, d.gone = Running, true, false
			d.attempt++
			return "ok"
		}
	case "lapse":
		d.held = false
		return "ok"
	case "step":
		if mine {
			d.crashes = 0
			return "ok"
		}
	case "crash":
		if !mine {
			return "refused"
		}
		d.held = false
		d.crashes++
		switch {
		case d.flagged:
			return d.end(Cancelled)
		case d.crashes == MaxCrashes:
			return d.end(Failed)
		}
		d.gone = true
		return "ok"
	case "complete", "fail":
		if mine && d.flagged {
			return d.end(Cancelled)
		}
		if mine && event == "complete" {
			return d.end(Completed)
		}
		if mine {
			return d.end(Failed)
		}
	case "ask", "approval":
		if mine && d.flagged {
			return d.end(Cancelled)
		}
		if mine {
			d.status, d.held, d.crashes = AwaitingInput, false, 0
			d.pause++
			if event == "ask" {
				d.questions = 1
			} else {
				d.approvals = 1
			}
			return "ok"
		}
	case "answer":
		if d.status == AwaitingInput && d.questions == 1 && d.approvals == 0 {
			d.status, d.questions = Queued, 0
			return "ok"
		}
	case "approve":
		if d.status == AwaitingInput && d.approvals == 1 {
			d.status, d.approvals = Queued, 0
			return "ok"
		}
	case "expire":
		if d.status == AwaitingInput && arg == d.pause {
			return d.end(Cancelled)
		}
	case "cancel":
		if d.flagged && d.held {
			return "refused"
		}
		d.flagged = true
		if d.status != Running || !d.held {
			return d.end(Cancelled)
		}
		return "ok"
	case "park":
		if d.parked < MaxParked {
			d.parked++
			return "ok"
		}
	}
	return "refused"
}

func TestCoreAgreesWithASimpleSecondImplementation(t *testing.T) {
	names := []string{"claim", "lapse", "step", "crash", "complete", "fail", "ask", "approval", "answer", "approve",
		"expire", "cancel", "park"}
	rapid.Check(t, func(rt *rapid.T) {
		r, d := sample(Queued), dumb{status: Queued}
		at := now
		r.StartBy = at.AddDate(10, 0, 0)
		far := at.AddDate(10, 0, 0)
		for n := range rapid.IntRange(1, 40).Draw(rt, "length") {
			name := rapid.SampledFrom(names).Draw(rt, "event")
			arg := d.attempt
			if name == "expire" {
				arg = d.pause
			}
			if rapid.IntRange(0, 9).Draw(rt, "stale") == 0 {
				arg--
			}
			w := Work{Attempt: arg, Until: far}
			var e Event
			switch name {
			case "claim":
				e = Claim{Holder: "w", Until: far}
			case "lapse":
				if r.Status == Running && r.Lease.Holder != "" {
					r.Lease.Until = at
				}
			case "step":
				e = Step{w}
			case "crash":
				e = Crash{w}
			case "complete":
				e = Complete{w}
			case "fail":
				e = Fail{Work: w, Error: "x"}
			case "ask":
				e = Pause{Work: w, Interrupts: []Pending{{ID: "q", Kind: Clarification}}, ExpiresAt: at}
			case "approval":
				e = Pause{Work: w, Interrupts: []Pending{{ID: "a", Kind: Approval}}, ExpiresAt: at, AgentVersion: 1}
			case "answer":
				e = AnswerMessage{StartBy: far}
			case "approve":
				e = Resume{Decisions: []Decision{{"a", Approve}}, StartBy: far}
			case "expire":
				e = Expire{Pause: arg}
			case "cancel":
				e = Cancel{}
			case "park":
				e = Park{fmt.Sprint(n)}
			}
			// The store refuses a report of a worker whose lease has lapsed (version check); the core accepts it.
			if !d.held && d.status == Running && (name == "step" || name == "crash" || name == "complete" ||
				name == "fail" || name == "ask" || name == "approval") {
				continue
			}
			want := d.do(name, arg)
			if e == nil {
				continue
			}
			o, err := Apply(r, e, at)
			if (err == nil) != (want == "ok") {
				rt.Fatalf("%s(%d) on %s: %v, and the dumb one says %s (%+v)", name, arg, r.Status, err, want, d)
			}
			if err == nil {
				r = o.After
			}
			if r.Status != d.status || len(r.Parked) != d.parked || r.Pause != d.pause {
				rt.Fatalf("after %s: %s with %d parked, and the dumb one says %+v", name, r.Status, len(r.Parked), d)
			}
			if r.Status.Active() && r.Due.IsZero() {
				rt.Fatalf("after %s nobody will look at the %s run again", name, r.Status)
			}
		}
	})
}
