package explore_test

import (
	"flag"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/proof/sim/explore"
)

var states = flag.Int("states", 150, "how many states of a world, with a set of faults, are visited at most")

// worlds returns small deployments, each with a conflict between its clients.
func worlds() []explore.World {
	hello := func(chat string) explore.Script { return func(c *explore.Client) { c.Post(chat, "hello", false) } }
	parks := func(chat string) explore.Script { return func(c *explore.Client) { c.Post(chat, "hello", true) } }
	asks := func(chat string) explore.Script {
		return func(c *explore.Client) { c.Post(chat, "/ask Which?", false) }
	}
	cancels := func(chat string) explore.Script { return func(c *explore.Client) { c.Cancel(chat) } }
	resumes := func(chat string) explore.Script { return func(c *explore.Client) { c.Resume(chat) } }
	list := []explore.World{
		{Name: "a chat in demand", UserCap: 2, Clients: []explore.Script{hello("a"), parks("a"), cancels("a")}},
		{Name: "a message is taken back", UserCap: 2, TakesBack: true, Clients: []explore.Script{
			hello("a"), func(c *explore.Client) { c.Post("a", "hello", true); c.Withdraw() }, cancels("a"),
		}},
		{Name: "a chat is deleted", UserCap: 2, TakesBack: true, Deletes: true, Clients: []explore.Script{
			hello("a"), func(c *explore.Client) { c.Post("a", "hello", true); c.Withdraw() },
			func(c *explore.Client) { c.Delete("a") },
		}},
		{Name: "twice at once", UserCap: 2, SharesKeys: true, Clients: []explore.Script{
			func(c *explore.Client) { c.PostAs("k", "a", "hello") },
			func(c *explore.Client) { c.PostAs("k", "a", "hello") }, hello("b"),
		}},
		{Name: "a question", UserCap: 2, Clients: []explore.Script{asks("a"), resumes("a"), resumes("a")}},
		{Name: "a question is called off", UserCap: 2,
			Clients: []explore.Script{asks("a"), resumes("a"), cancels("a")}},
		{Name: "a message answers", UserCap: 2, Clients: []explore.Script{asks("a"), parks("a"), hello("b")}},
		{Name: "one slot and two chats", UserCap: 1, FollowsUp: true,
			Clients: []explore.Script{hello("a"), hello("b"), func(c *explore.Client) { c.Followup("a", "and?") }}},
	}
	for i := range list {
		list[i].Workers = 2
	}
	return list
}

// faults returns the sets of faults, in the order of exploration: each alone, then some and all together.
func faults() (list []explore.Faults) {
	alone := []explore.Faults{
		{Lost: 1}, {Doubled: 1}, {Unanswered: 1}, {ClientsCrash: true}, {WorkersCrash: 2}, {Lapses: 1}, {Expires: 1},
	}
	all := explore.Faults{Lost: 1, Doubled: 1, Unanswered: 1, ClientsCrash: true, WorkersCrash: 2, Lapses: 1,
		Expires: 1}
	return append(append([]explore.Faults{{}}, alone...), explore.Faults{Lost: 1, WorkersCrash: 1, Lapses: 1}, all)
}

func TestEveryStateOfASmallWorld(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make test runs it")
	}
	for _, w := range worlds() {
		t.Run(w.Name, func(t *testing.T) {
			t.Parallel() // an exploration has one goroutine
			for _, w.Faults = range faults() {
				began := time.Now()
				r, err := explore.Explore(w, *states)
				require.NoError(t, err)
				if !assert.Empty(t, r.Violation, "%+v", w.Faults) {
					return
				}
				t.Logf("%+v: %d states, %d tables, %d ends, depth %d, complete: %t, %s", w.Faults, r.States, r.Distinct,
					r.Ends, r.Depth, r.Complete, time.Since(began).Round(time.Millisecond))
			}
		})
	}
}
