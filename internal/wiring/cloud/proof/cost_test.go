//go:build integration

package proof_test

import (
	"flag"
	"fmt"
	"math"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/store/record"
)

var update = flag.Bool("update", false, "rewrite the tables of infra/README.md and docs/capacity.md")

func TestTheCostOfARunIsWithinItsLimit(t *testing.T) {
	meter := newMeter()
	b := open(t, meter.into)
	b.run("message", "warm up") // fills the caches
	meter.take()
	var rows []row
	// The writes are those of the most expensive of several runs: a timestamp that ends with a zero is written shorter,
	// which can make an item one unit smaller. The reads are those of the cheapest: the worker polls a run once a
	// second, which is more polls on a slow machine.
	add := func(name string, begin func() string) (dearest bill) {
		reads, units := math.MaxInt, math.Inf(1)
		for range 4 {
			id := begin()
			got := meter.take()
			b.ended(id)
			meter.take()
			reads, units = min(reads, got.ReadCalls), min(units, got.ReadUnits)
			if got.Units > dearest.Units {
				dearest = got
			}
		}
		dearest.ReadCalls, dearest.ReadUnits = reads, units
		rows = append(rows, row{name, dearest})
		return dearest
	}
	plain := add("a plain run", func() string { return b.run("message", "hello") })
	assert.LessOrEqual(t, plain.Writes+plain.Sends+plain.Timers, 4, "writing or sending calls of a plain run")
	assert.LessOrEqual(t, plain.ReadCalls, 4, "reads of a plain run")
	assert.LessOrEqual(t, plain.Units, 27, "write units of a plain run")

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

	add("with a call of a tool", func() string { return b.run("message", "/tool echo {}") })
	b = open(t, meter.into)
	b.fiveBudgets()
	require.Len(t, b.ended(b.run("message", "warm up")).Counting.Budgets, 5)
	meter.take()
	budgets := add("with five token budgets", func() string { return b.run("message", "hello") })
	assert.Equal(t, plain.Writes, budgets.Writes, "its tokens are counted by the commit that ends it")
	add("with five token budgets and a call of a tool", func() string { return b.run("message", "/tool echo {}") })

	listed(t, rows)
}

type row struct {
	name string
	bill
}

// Prices in US dollars per million, us-east-1, on demand, November 2026:
//
//   - a write unit
//   - a read unit: a consistent read of up to 4 KB; half of one that may lag
//   - an SQS request; the poller's receive and delete are two more for each message
//   - a state transition; a wait that ends early has two
//   - a Lambda request
const (
	priceUnit, priceRead, priceRequest, priceTransition, priceInvoke = 0.625, 0.125, 0.40, 25.0, 0.20
	// S3: an object put, and read. S3 Vectors: a GB put (in dollars, not per million), a query (without the data that
	// it reads of a large index), any other call.
	priceObject, priceGet, priceVectors, priceQuery, priceIndex = 5.0, 0.40, 0.20, 2.50, 55.0
)

// listed compares the table of runs in infra/README.md with the counts.
func listed(t *testing.T, rows []row) {
	var s strings.Builder
	s.WriteString("\n| run | writes | sends | timer calls | reads | read units | write units | USD a million " +
		"|\n|---|---|---|---|---|---|---|---|\n")
	for _, r := range rows {
		fmt.Fprintf(&s, "| %s | %d | %d | %d | %d | %.1f | %d | %.2f |\n", r.name, r.Writes, r.Sends, r.Timers,
			r.ReadCalls, r.ReadUnits, r.Units, r.dollars())
	}
	matches(t, "cost", s.String())
}

// dollars is the price of a million.
func (b bill) dollars() float64 {
	d := float64(b.Units)*priceUnit + b.ReadUnits*priceRead + float64(3*b.Sends)*priceRequest +
		float64(b.Sends+1)*priceInvoke
	if b.Timers > 0 {
		d += 2 * priceTransition
	}
	return d + float64(b.ObjectsPut)*priceObject + float64(b.ObjectsRead)*priceGet +
		float64(b.VectorBytes)/(1<<30)*priceVectors*1e6 + float64(b.VectorQueries)*priceQuery +
		float64(b.VectorCalls)*priceIndex
}

// matches compares a table between its marks in infra/README.md with the expected one, or rewrites it.
func matches(t *testing.T, name, table string) {
	t.Helper()
	there := between(t, "../../../../infra/README.md", name, "make cost", table)
	assert.Equal(t, table, there, "run make cost if this is meant")
}

// between is the text between the marks of a name in a page, which a command rewrites. With -update it is replaced by a
// table.
func between(t *testing.T, page, name, command, table string) string {
	t.Helper()
	begin, end := "<!-- "+name+":begin, rewritten by "+command+" -->\n", "\n<!-- "+name+":end -->"
	whole, err := os.ReadFile(page)
	require.NoError(t, err)
	before, rest, ok := strings.Cut(string(whole), begin)
	require.True(t, ok, "%s has no mark %s", page, begin)
	there, after, ok := strings.Cut(rest, end)
	require.True(t, ok, "%s has no mark %s", page, end)
	if !*update {
		return there
	}
	require.NoError(t, os.WriteFile(page, []byte(before+begin+table+end+after), 0o600))
	return table
}

// The cost of a document until search finds it, and of a search.
func TestTheCostOfKnowledgeIsListed(t *testing.T) {
	meter := newMeter()
	b := open(t, meter.into, "LEASE=5m") // a slow machine renews no lease
	base, _ := b.post("/knowledge-bases", "application/json", strings.NewReader(`{"name":"b"}`),
		http.StatusCreated)["knowledge_base_id"].(string)
	b.document(base, "the first makes the index")
	meter.take()
	var rows []row
	const page = 400 // words
	for _, pages := range []int{1, 100} {
		b.document(base, prose(pages*page))
		rows = append(rows, row{fmt.Sprintf("a document of %d words, until it is found", pages*page), meter.take()})
	}
	search := func() bill {
		b.post("/search", "application/json", strings.NewReader(`{"query":"word17 and word300"}`), http.StatusOK)
		return meter.take()
	}
	rows = append(rows, row{"a search, the first of a process, or after five minutes", search()},
		row{"a search", search()})
	assert.LessOrEqual(t, rows[len(rows)-1].VectorQueries, 3, "by vectors, and by words")

	var s strings.Builder
	s.WriteString("\n| what | writes | reads | read units | sends | write units | objects put | objects read " +
		"| KB of vectors put | queries of the index | its other calls | USD a million " +
		"|\n|---|---|---|---|---|---|---|---|---|---|---|---|\n")
	for _, r := range rows {
		fmt.Fprintf(&s, "| %s | %d | %d | %.1f | %d | %d | %d | %d | %d | %d | %d | %.0f |\n", r.name, r.Writes,
			r.ReadCalls, r.ReadUnits, r.Sends, r.Units, r.ObjectsPut, r.ObjectsRead, r.VectorBytes/1000,
			r.VectorQueries, r.VectorCalls, r.dollars())
	}
	matches(t, "knowledge", s.String())
}

// prose is a text of this number of words, with a vocabulary of 500.
func prose(words int) string {
	var b strings.Builder
	for i := range words {
		fmt.Fprintf(&b, "word%d ", i*7919%500)
		if i%12 == 11 {
			b.WriteString("end.\n\n")
		}
	}
	return b.String()
}
