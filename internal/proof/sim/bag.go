package sim

import (
	"time"

	"agentplatform/internal/store/queue"
)

// bag is the queue. Messages arrive late, twice, out of order, or not at all.
type bag struct {
	world    *world
	messages []message
}

type message struct {
	queue.Message
	due time.Time
}

func (b *bag) put(m queue.Message, after time.Duration) {
	b.messages = append(b.messages, message{m, b.world.now.Add(after)})
}

func (b *bag) ready() bool {
	for _, m := range b.messages {
		if !m.due.After(b.world.now) {
			return true
		}
	}
	return false
}

func (b *bag) take() (queue.Message, bool) {
	var due []int
	for i, m := range b.messages {
		if !m.due.After(b.world.now) {
			due = append(due, i)
		}
	}
	if len(due) == 0 {
		return queue.Message{}, false
	}
	i := due[b.world.pick.IntN(len(due))]
	m := b.messages[i].Message
	b.messages = append(b.messages[:i], b.messages[i+1:]...)
	return m, true
}
