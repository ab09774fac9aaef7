//go:build integration

package proof_test

import (
	"flag"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/record"
)

var update = flag.Bool("update", false, "rewrite the table in infra/README.md")

func TestTheCostOfARunIsWithinItsLimit(t *testing.T) {
	meter := newMeter()
	b := open(t, meter.into)
	b.run("message", "warm up") // fills the caches
	meter.take()
	var rows []row
	// The most expensive of several: a timestamp that ends with a zero is written shorter, which can make an item fit
	// into one unit less.
	add := func(name string, begin func() string) (dearest bill) {
		for range 4 {
			id := begin()
			got := meter.take()
			b.ended(id)
			meter.take()
			if got.Units > dearest.Units {
				dearest = got
			}
		}
		rows = append(rows, row{name, dearest})
		return dearest
	}
	plain := add("a plain run", func() string { return b.run("message", "hello") })
	assert.LessOrEqual(t, plain.Writes+plain.Sends+plain.Timers, 4, "writing or sending calls of a plain run")
	assert.LessOrEqual(t, plain.Reads, 4, "reads of a plain run")
	assert.LessOrEqual(t, plain.Units, 24, "write units of a plain run")

	add("the next message of its chat", func() string {
		first := b.run("message", "hello", "chat_id", "c")
		b.ended(first)
		meter.take()
		return b.run("message", "hello", "chat_id", "c")
	})
	keys := 0
	add("with an idempotency key", func() string {
		keys++
		return b.run("message", "hello", "idempotency_key", fmt.Sprint("k", keys))
	})

	pushed := add("with a webhook", func() string {
		id := b.run("message", "hello", "callback_url", b.hook)
		e, err := b.Store.Run(t.Context(), record.System(), id)
		require.NoError(t, err)
		again, err := b.sender.Handle(t.Context(), fmt.Sprintf("%s/%d", id, e.Value.Transition))
		require.NoError(t, err)
		require.Zero(t, again)
		return id
	})
	assert.LessOrEqual(t, pushed.Writes+pushed.Sends+pushed.Timers, plain.Writes+plain.Sends+plain.Timers+3,
		"a webhook adds a send, a claim and a record")

	paused := add("with a pause and its answer", func() string {
		id := b.run("message", "/ask Which?")
		e, err := b.Store.Run(t.Context(), record.System(), id)
		require.NoError(t, err)
		require.Equal(t, "awaiting_input", string(e.Value.Status))
		body := fmt.Sprintf(`{"decisions":[{"interrupt_id":%q,"decision":"answer","message":"this"}]}`,
			e.Value.Interrupts[0].ID)
		b.post("/runs/"+id+"/resume", "application/json", strings.NewReader(body), http.StatusOK)
		require.NoError(t, b.worker.Handle(t.Context(), id))
		return id
	})
	assert.LessOrEqual(t, paused.Writes+paused.Sends+paused.Timers, plain.Writes+plain.Sends+plain.Timers+6,
		"pause, start timer, resume, send, stop timer, claim")

	listed(t, rows)
}

type row struct {
	name string
	bill
}

// Prices in US dollars per million, us-east-1, on demand, November 2026: a write unit, a read unit (a consistent
// read of up to 4 KB), an SQS request (the poller's receive and delete are two more for each message), a state
// transition (a wait that ends early has two), a Lambda request.
const (
	priceUnit, priceRead, priceRequest, priceTransition, priceInvoke = 0.625, 0.125, 0.40, 25.0, 0.20
)

// listed compares the table in infra/README.md with the counts.
func listed(t *testing.T, rows []row) {
	var s strings.Builder
	s.WriteString("\n| run | writes | sends | timer calls | reads | write units | USD a million " +
		"|\n|---|---|---|---|---|---|---|\n")
	for _, r := range rows {
		dollars := float64(r.Units)*priceUnit + float64(r.Reads)*priceRead + float64(3*r.Sends)*priceRequest +
			float64(r.Sends+1)*priceInvoke
		if r.Timers > 0 {
			dollars += 2 * priceTransition
		}
		fmt.Fprintf(&s, "| %s | %d | %d | %d | %d | %d | %.2f |\n", r.name, r.Writes, r.Sends, r.Timers, r.Reads,
			r.Units, dollars)
	}
	const file, begin, end = "../../../infra/README.md", "<!-- cost:begin, rewritten by make " +
		"cost -->\n", "\n<!-- cost:end -->"
	readme, err := os.ReadFile(file)
	require.NoError(t, err)
	before, rest, ok := strings.Cut(string(readme), begin)
	require.True(t, ok)
	there, after, ok := strings.Cut(rest, end)
	require.True(t, ok)
	if *update {
		require.NoError(t, os.WriteFile(file, []byte(before+begin+s.String()+end+after), 0o600))
		return
	}
	assert.Equal(t, s.String(), there, "run make cost if this is meant")
}
