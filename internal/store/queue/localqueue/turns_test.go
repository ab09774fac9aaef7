package localqueue_test

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"agentplatform/events"
	"agentplatform/internal/platform/share"
	"agentplatform/internal/store/queue"
	"agentplatform/internal/store/queue/localqueue"
)

// model is the expected queue, written in another way. Only holders that may have a unit take part. The next one has
// waited longest since it came or was last served. Every choice reads every message.
type model struct {
	units    *share.Pool
	messages []queue.Message // in the order in which they came
	clock    int
	since    map[share.Holder]int // of an organization, without a user, and of a user
}

func (m *model) send(message queue.Message) {
	m.clock++
	for _, who := range []share.Holder{{Organization: message.Group}, holder(message)} {
		if !m.waits(who) {
			m.since[who] = m.clock
		}
	}
	m.messages = append(m.messages, message)
}

func (m *model) waits(who share.Holder) bool {
	return slices.ContainsFunc(m.messages, func(one queue.Message) bool {
		return one.Group == who.Organization && (who.User == "" || one.User == who.User)
	})
}

func holder(m queue.Message) share.Holder { return share.Holder{Organization: m.Group, User: m.User} }

// could reports whether a holder may have one more unit.
func (m *model) could(who share.Holder) bool {
	part := m.units.Part(who)
	if part.Take(1) != nil {
		return false
	}
	part.Give()
	return true
}

// next is the message that must be delivered, if one may.
func (m *model) next() (queue.Message, bool) {
	may := slices.DeleteFunc(slices.Clone(m.messages),
		func(one queue.Message) bool { return !m.could(holder(one)) })
	if len(may) == 0 {
		return queue.Message{}, false
	}
	return slices.MinFunc(may, func(a, b queue.Message) int { // the first of equal ones
		return cmp.Or(
			cmp.Compare(m.since[share.Holder{Organization: a.Group}], m.since[share.Holder{Organization: b.Group}]),
			cmp.Compare(m.since[holder(a)], m.since[holder(b)]))
	}), true
}

func (m *model) deliver(message queue.Message) {
	m.clock++
	m.since[share.Holder{Organization: message.Group}], m.since[holder(message)] = m.clock, m.clock
	m.messages = slices.DeleteFunc(m.messages, func(one queue.Message) bool { return one == message })
}

// After any sequence of sends, deliveries, responses and reservations the queue behaves like the model.
func TestTurnsAndSharesAreTheModels(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limits := rapid.SampledFrom([]share.Limits{
			{All: 5, Reserve: 1}, {All: 10, Reserve: 2}, {All: 12, Reserve: 3}, {All: 6, Organization: 2}, {All: 3},
		}).Draw(t, "limits")
		q, m := localqueue.Shared(limits), &model{units: share.New(limits), since: map[share.Holder]int{}}
		ended, cancel := context.WithCancel(context.Background())
		cancel()
		var busy []func() // functions that return the held units
		take := func(who share.Holder, end func()) {
			part := m.units.Part(who)
			if part.Take(1) != nil {
				t.Fatalf("%v was given what it may not have", who)
			}
			busy = append(busy, func() { end(); part.Give() })
		}
		for n := range rapid.IntRange(1, 150).Draw(t, "steps") {
			who := share.Holder{
				Organization: rapid.SampledFrom([]string{"a", "a", "a", "b", "c"}).Draw(t, "organization"),
				User:         rapid.SampledFrom([]string{"u", "u", "v", "w"}).Draw(t, "user"),
			}
			want, some := m.next()
			switch rapid.SampledFrom([]string{"send", "send", "receive", "receive", "end", "reserve"}).Draw(t, "step") {
			case "send":
				one := queue.Message{Wakeup: events.Wakeup{ID: fmt.Sprint(n)}, Group: who.Organization, User: who.User}
				if q.Send(ended, one) != nil {
					t.Fatal("not sent")
				}
				m.send(one)
			case "receive":
				d, err := q.Receive(ended)
				if some != (err == nil) || some && d.Message != want {
					t.Fatalf("received %v, %v instead of %v", d.Message, err, want)
				}
				if some {
					take(holder(want), func() { _ = q.Ack(ended, d) })
					m.deliver(want)
				}
			case "end":
				if len(busy) > 0 {
					i := rapid.IntRange(0, len(busy)-1).Draw(t, "which")
					busy[i]()
					busy = slices.Delete(busy, i, i+1)
				}
			case "reserve":
				free := q.Reserve(who.Organization, who.User)
				if may := !some && m.could(who); may != (free != nil) {
					t.Fatalf("a place for %v: %v, while %v waits: %v", who, free != nil, want, some)
				}
				if free != nil {
					take(who, free)
				}
			}
		}
	})
}

// A user has many documents for one base waiting. One for another base, one of a colleague and one of another
// organization come next.
func TestBasesOfAUserTakeTurns(t *testing.T) {
	q := localqueue.New()
	send := func(id, group, user, base string) {
		require.NoError(t, q.Send(t.Context(), queue.OfDocument(id, group, user, base)))
	}
	for n := range 1000 {
		send(fmt.Sprint("hog-", n), "a", "u", "full")
	}
	send("sibling", "a", "u", "other")
	send("colleague", "a", "v", "full")
	send("neighbour", "b", "u", "theirs")
	for _, want := range []string{"hog-0", "neighbour", "colleague", "sibling", "hog-1", "hog-2"} {
		d, err := q.Receive(t.Context())
		require.NoError(t, err)
		assert.Equal(t, want, d.Wakeup.ID)
	}
}

// An organization that sends without an end leaves places for the messages of others.
func TestAFullQueueHasPlacesForOthers(t *testing.T) {
	q := localqueue.New()
	fill := func(group string) (n int) {
		for user := 0; ; user++ {
			before := n
			for q.Send(t.Context(), queue.Message{
				Wakeup: events.Wakeup{ID: fmt.Sprint(n)}, Group: group, User: fmt.Sprint(user),
			}) == nil {
				n++
			}
			if n == before {
				return n
			}
		}
	}
	assert.Equal(t, 50_000, fill("a"))
	assert.Equal(t, 37_500, fill("b"), "the rest but for half of the reserve")
	assert.Equal(t, 6_250, fill("c"))
	d, err := q.Receive(t.Context())
	require.NoError(t, err)
	assert.Equal(t, "a", d.Group)
	assert.NoError(t, q.Send(t.Context(), queue.Message{Wakeup: events.Wakeup{ID: "late"}, Group: "a", User: "0"}))
}

// One organization has all units and many messages waiting. A returned unit goes to the next in turn: another
// organization first, then a colleague.
func TestUnitsThatComeFreeGoRound(t *testing.T) {
	q := localqueue.Shared(share.Limits{All: 2})
	send := func(id, group, user string) {
		require.NoError(t, q.Send(t.Context(), queue.Message{Wakeup: events.Wakeup{ID: id}, Group: group, User: user}))
	}
	for n := range 10 {
		send(fmt.Sprint("hog-", n), "a", "hog")
	}
	var held []queue.Delivery
	take := func() string {
		d, err := q.Receive(t.Context())
		require.NoError(t, err)
		held = append(held, d)
		return d.Wakeup.ID
	}
	assert.Equal(t, "hog-0", take())
	assert.Equal(t, "hog-1", take())
	send("colleague", "a", "colleague")
	send("other", "b", "u")
	for _, want := range []string{"hog-2", "other", "colleague", "hog-3"} {
		require.NoError(t, q.Ack(t.Context(), held[0]))
		held = held[1:]
		assert.Equal(t, want, take())
	}
}

// BenchmarkMessage measures a message that is sent, delivered and answered, while others wait.
func BenchmarkMessage(b *testing.B) {
	for users, take := range map[int]int{0: 0, 1: 256, 10_000: 288} { // many users take of the reserve, too
		b.Run(fmt.Sprint("users that wait=", users), func(b *testing.B) {
			q := localqueue.Shared(share.Limits{All: 320, Reserve: 64})
			defer q.Close()
			for n := range min(users, 1) * 99_999 {
				_ = q.Send(b.Context(), queue.Message{Wakeup: events.Wakeup{ID: fmt.Sprint(n)}, Group: "hog",
					User: fmt.Sprint(n % users)})
			}
			for range take {
				_, _ = q.Receive(b.Context())
			}
			m := queue.Message{Wakeup: events.Wakeup{Kind: events.WakeupRun, ID: "m"}, Group: "other", User: "u"}
			for b.Loop() {
				_ = q.Send(b.Context(), m)
				d, err := q.Receive(b.Context())
				if err != nil || d.Group != "other" {
					b.Fatal(d, err)
				}
				_ = q.Ack(b.Context(), d)
			}
		})
	}
}

// Sleeping workers are woken, one for each message that may be delivered. That holds when messages come together, and
// when a unit comes back for one of them.
func TestEachMessageWakesAWorker(t *testing.T) { synctest.Test(t, eachMessageWakesAWorker) }

func eachMessageWakesAWorker(t *testing.T) {
	q := localqueue.Shared(share.Limits{All: 3})
	received := make(chan queue.Delivery, 6)
	for range 6 {
		go func() {
			if d, err := q.Receive(t.Context()); err == nil {
				received <- d
			}
		}()
	}
	synctest.Wait() // all workers sleep
	for n := range 6 {
		m := queue.Message{Wakeup: events.Wakeup{ID: fmt.Sprint(n)}, Group: fmt.Sprint(n % 2)}
		require.NoError(t, q.Send(t.Context(), m))
	}
	for want := 3; want <= 6; want++ {
		synctest.Wait()
		require.Len(t, received, 3, "%d deliveries", want)
		if want < 6 {
			require.NoError(t, q.Ack(t.Context(), <-received))
		}
	}
}

// A message at work must give way if one of another base, user or group would have its unit. If it is returned without
// a delay, it comes before the others of its base, and after the waiting one.
func TestAMessageAtWorkGivesWay(t *testing.T) {
	q := localqueue.Shared(share.Limits{All: 3, Organization: 2})
	send := func(id, group, user, base string) {
		require.NoError(t, q.Send(t.Context(), queue.OfDocument(id, group, user, base)))
	}
	take := func() queue.Delivery {
		d, err := q.Receive(t.Context())
		require.NoError(t, err)
		return d
	}
	for _, id := range []string{"1", "2", "3", "4"} {
		send(id, "a", "u", "import")
	}
	first, second := take(), take()
	assert.False(t, q.Waits(first.Message), "of its own base others wait")
	send("elsewhere", "b", "u", "base")
	other := take()
	send("6", "b", "u", "second")
	assert.False(t, q.Waits(queue.OfDocument("3", "a", "u", "import")), "it waits itself")
	assert.True(t, q.Waits(other.Message), "another base of the same user")
	assert.True(t, q.Waits(first.Message), "another organization, for which there is no unit")
	send("5", "a", "u", "small")
	require.NoError(t, q.Retry(t.Context(), first, queue.Now))
	assert.False(t, q.Waits(first.Message), "it is not at work")
	assert.Equal(t, "6", take().Wakeup.ID)
	require.NoError(t, q.Ack(t.Context(), other))
	require.NoError(t, q.Ack(t.Context(), second))
	var order []string
	for range 4 {
		d := take()
		order = append(order, d.Wakeup.ID)
		require.NoError(t, q.Ack(t.Context(), d))
	}
	assert.Equal(t, []string{"5", "1", "3", "4"}, order)
}

// A message gives way only if the waiting one may have its unit.
func TestAMessageAtWorkGivesWayToNobodyWhoGainsNothing(t *testing.T) {
	q := localqueue.Shared(share.Limits{All: 3, Organization: 2})
	var held []queue.Delivery
	for _, m := range []queue.Message{
		queue.OfDocument("1", "a", "u", "x"), queue.OfDocument("2", "a", "u", "x"),
		queue.OfDocument("3", "b", "u", "y"),
	} {
		require.NoError(t, q.Send(t.Context(), m))
		d, err := q.Receive(t.Context())
		require.NoError(t, err)
		held = append(held, d)
	}
	require.NoError(t, q.Send(t.Context(), queue.OfDocument("4", "a", "u", "z")))
	assert.True(t, q.Waits(held[0].Message))
	assert.False(t, q.Waits(held[2].Message), "the organization of the one that waits has all that it may have")
}
