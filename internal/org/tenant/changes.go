package tenant

import "sync"

// changes notifies those who hold a right for longer, such as readers of a stream, that rights of an organization may
// have changed in this process.
type changes struct {
	mu sync.Mutex
	of map[string]*changed
}

type changed struct {
	n    int64
	next chan struct{} // closed at the next change; nil while nobody waits
}

func (c *changes) in(organization string) *changed {
	if c.of == nil {
		c.of = map[string]*changed{}
	}
	if c.of[organization] == nil {
		c.of[organization] = &changed{}
	}
	return c.of[organization]
}

func (c *changed) ring() {
	c.n++
	if c.next != nil {
		close(c.next)
		c.next = nil
	}
}

// Change says that rights may have changed: those of the principal's organization, or of all organizations when the
// principal is an operator. It is called after each change, before the request is answered.
func (t *Tenants) Change(p Principal) {
	organization := p.Organization
	if p.Level.Covers(LevelOperator) {
		organization = ""
	}
	t.changes.mu.Lock()
	defer t.changes.mu.Unlock()
	if organization != "" {
		t.changes.in(organization).ring()
		return
	}
	for _, c := range t.changes.of {
		c.ring()
	}
}

// Changes returns how many changes the principal's organization has seen in this process, and a channel that is closed
// at the next one.
func (t *Tenants) Changes(p Principal) (n int64, next <-chan struct{}) {
	t.changes.mu.Lock()
	defer t.changes.mu.Unlock()
	c := t.changes.in(p.Organization)
	if c.next == nil {
		c.next = make(chan struct{})
	}
	return c.n, c.next
}
