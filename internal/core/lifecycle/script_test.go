package lifecycle_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	. "agentplatform/internal/core/lifecycle"
)

// TestScripts runs the scripts in testdata. A line is a command; its result is below it, indented. Each file begins
// with the rule that it protects. `make golden` rewrites the results.
func TestScripts(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			text, err := os.ReadFile(file)
			require.NoError(t, err)
			var out strings.Builder
			p := player{t: t, now: t0}
			for line := range strings.Lines(string(text)) {
				line = strings.TrimRight(line, "\n")
				switch {
				case strings.HasPrefix(line, "    "): // the expected result
				case line == "" || strings.HasPrefix(line, "#"):
					fmt.Fprintln(&out, line)
				default:
					fmt.Fprintln(&out, line)
					fmt.Fprintf(&out, "    %s\n", p.play(strings.Fields(line)))
				}
			}
			golden(t, file, out.String())
		})
	}
}

type player struct {
	t   *testing.T
	now time.Time
	run Run
}

func (p *player) play(words []string) string {
	argument := func(i int) string {
		if i < len(words) {
			return words[i]
		}
		return ""
	}
	span := func(i int) time.Duration {
		d, err := time.ParseDuration(argument(i))
		require.NoError(p.t, err)
		return d
	}
	w := Work{Attempt: p.run.Attempt, Active: time.Duration(p.run.ActiveMS)*time.Millisecond + time.Second,
		Until: p.now.Add(30 * time.Second)}
	start := p.now.Add(10 * time.Minute)
	var e Event
	switch words[0] {
	case "accept":
		p.run = Accept(RunSpec{RunID: argument(1), Chat: "c", LimitMS: 60_000, Callback: true},
			ChatPosition{Turn: 1, Slots: Slots{"0", "0"}}, p.now, start)
		return p.state()
	case "wait":
		p.now = p.now.Add(span(1))
		return "it is " + p.now.Sub(t0).String()
	case "look":
		pending := Next(p.run, p.now, "")
		switch {
		case pending.Execute:
			return "a worker should execute it"
		case pending.Event != nil:
			return "it asks for: " + NameOf(pending.Event)
		case pending.Again.IsZero():
			return "nothing, ever"
		default:
			return "nothing before " + pending.Again.Sub(t0).String()
		}
	case "promote":
		return fmt.Sprintf("%+v", Outcome{Before: p.run, After: p.run}.Before.Parked)
	case "claim":
		e = Claim{Holder: argument(1), Until: p.now.Add(30 * time.Second)}
	case "beat":
		e = Renew{w}
	case "step":
		e = Step{w}
	case "hand_over":
		e = Release{w}
	case "crash":
		e = Crash{w}
	case "complete":
		e = Complete{w}
	case "fail":
		e = Fail{Work: w, Error: argument(1)}
	case "time_out":
		e = TimeOut{w}
	case "recover":
		e = Recover{}
	case "unstartable":
		e = Unstartable{}
	case "pause":
		pause := Pause{Work: w, ExpiresAt: p.now.Add(72 * time.Hour)}
		for _, id := range words[1:] {
			kind := Approval
			if strings.HasPrefix(id, "?") {
				kind = Clarification
			}
			pause.Interrupts = append(pause.Interrupts, Pending{ID: id, Kind: kind})
		}
		e = pause
	case "resume":
		resume := Resume{By: "somebody", Slots: Slots{"1", "1"}, StartBy: start}
		for _, word := range words[1:] {
			id, verb, _ := strings.Cut(word, "=")
			resume.Decisions = append(resume.Decisions, Decision{id, Verb(verb)})
		}
		e = resume
	case "answer":
		e = AnswerMessage{By: "somebody", Slots: Slots{"1", "1"}, StartBy: start}
	case "expire":
		n := 0
		_, _ = fmt.Sscan(argument(1), &n)
		e = Expire{Pause: n}
	case "cancel":
		e = Cancel{Reason: argument(1)}
	case "park":
		e = Park{argument(1)}
	case "withdraw":
		e = Withdraw{argument(1)}
	case "remove":
		e = Remove{}
	default:
		p.t.Fatalf("no such command: %v", words)
	}
	o, err := Apply(p.run, e, p.now)
	if err != nil {
		return "refused: " + err.Error()
	}
	p.run = o.After
	return p.state() + follows(o)
}

func (p *player) state() string {
	r := p.run
	s := fmt.Sprintf("%s, transition %d", r.Status, r.Transition)
	if r.Status == Running {
		s += fmt.Sprintf(", attempt %d by %q, crashes %d", r.Attempt, r.Lease.Holder, r.Crashes)
	}
	if len(r.Interrupts) > 0 {
		s += fmt.Sprintf(", pause %d waits for %v", r.Pause, r.PendingIDs())
	}
	if r.Error != "" {
		s += ", error: " + r.Error
	}
	if len(r.Parked) > 0 && r.Status.Active() {
		s += fmt.Sprintf(", parked %v", r.Parked)
	}
	return s
}

func follows(o Outcome) string {
	s := ""
	add := func(format string, args ...any) { s += "; " + fmt.Sprintf(format, args...) }
	if o.After.Status.Terminal() {
		add("charge %d ms, billed %v", o.After.ActiveMS, o.After.Billed())
	}
	if o.Announce {
		add("push %s #%d", o.After.Status, o.After.Transition)
	}
	if o.Promote != "" {
		add("%s goes on with %v parked", o.Promote, o.Inherit(Slots{}, "u").Parked)
	}
	if o.After.Status.Terminal() && o.Promote == "" {
		add("the chat is free")
	}
	if o.Wake {
		add("nudge")
	}
	if o.Arm {
		add("timer at %s", o.After.ExpiresAt.Sub(t0))
	}
	if o.Disarm {
		add("timer of pause %d off", o.After.Pause)
	}
	return s
}
