package tenant

import "sync"

// changes tells who holds on to a right, such as the reader of a stream, that rights of an organization may have changed in
// this process.
type changes struct {
	mu sync.Mutex
	of map[string]*changed
}

type changed struct {
	n    int64
	next chan struct{} // closed at the next change; nil: nobody waits
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

// Change says that rights may have changed: those of the principal's organization, or of any, when it may reach all. Whoever
// carries out a change says so before it is answered.
func (t *Tenants) Change(p Principal) {
	t.changes.mu.Lock()
	defer t.changes.mu.Unlock()
	if !p.Level.Covers(LevelOperator) {
		t.changes.in(p.Organization.ID).ring()
		return
	}
	for _, c := range t.changes.of {
		c.ring()
	}
}

// Changes counts the changes of the principal's organization, and waits for the next.
func (t *Tenants) Changes(p Principal) (n int64, next <-chan struct{}) {
	t.changes.mu.Lock()
	defer t.changes.mu.Unlock()
	c := t.changes.in(p.Organization.ID)
	if c.next == nil {
		c.next = make(chan struct{})
	}
	return c.n, c.next
}
