package a2aserver_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"agentplatform/internal/core/lifecycle"
)

// A client that has not received the reply to its answer sends the answer again, and receives the task's present state.
// Another answer comes too late.
func TestAnAnswerThatIsSentAgainFindsItsTask(t *testing.T) {
	approval := lifecycle.Approval
	for name, c := range map[string]struct {
		asks         []lifecycle.InterruptKind
		parts, other string
	}{
		"a text": {[]lifecycle.InterruptKind{lifecycle.Clarification}, `{"text":"Paris"}`, `{"text":"Rome"}`},
		"decisions": {
			[]lifecycle.InterruptKind{approval, approval},
			`{"data":{"decisions":[{"interrupt_id":"i","decision":"edit","arguments":{"b":1,"a":2.0}},
				{"interrupt_id":"j","decision":"reject","message":"no"}]}}`,
			`{"data":{"decisions":[{"interrupt_id":"i","decision":"approve"},
				{"interrupt_id":"j","decision":"approve"}]}}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			run := w.task("x")
			w.ask(run, c.asks...)
			answer := func(parts string) string {
				return `{"message":{"taskId":"` + run + `","parts":[` + parts + `]},"configuration":{"blocking":false}}`
			}
			again := func(state string) {
				t.Helper()
				a := w.result("message/send", answer(c.parts))
				assert.Equal(t, run, a["id"])
				assert.Equal(t, state, a["status"].(object)["state"])
				code, _ := w.refusal("message/send", answer(c.other))
				assert.InDelta(t, -32004, code, 0)
			}
			w.result("message/send", answer(c.parts))
			again("submitted")
			work := w.claim(run)
			again("working")
			if len(c.asks) == 2 { // a text might be for the next question, too
				w.pause(run, work, 2, approval)
				again("input-required")
				w.result("message/send", answer(
					`{"data":{"decisions":[{"interrupt_id":"k","decision":"approve"}]}}`))
				return
			}
			w.transition(run, change(lifecycle.Complete{Work: work}))
			again("completed")
		})
	}
}
