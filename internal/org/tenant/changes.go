package tenant

import "sync"

// changes notifies the holders of longer rights, such as readers of a stream. They learn that rights of an organization
// may have changed in this process.
type changes struct {
	mu sync.Mutex
	of map[string]*changed
}

type changed struct {
	n     int64
	calls map[*func()]struct{} // at each change
}

func (c *changes) in(organization string) *changed {
	if c.of == nil {
		c.of = map[string]*changed{}
	}
	if c.of[organization] == nil {
		c.of[organization] = &changed{calls: map[*func()]struct{}{}}
	}
	return c.of[organization]
}

func (c *changed) ring() {
	c.n++
	for call := range c.calls {
		(*call)()
	}
}

// Change reports that rights may have changed: those of the principal's organization, or of all organizations when the
// principal is an operator. It is called after each change, before the response is sent.
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

// Changes returns how many changes the principal's organization has seen in this process.
func (t *Tenants) Changes(p Principal) int64 {
	t.changes.mu.Lock()
	defer t.changes.mu.Unlock()
	return t.changes.in(p.Organization).n
}

// OnChange calls f at each change of the principal's organization, until stop is called. f must not wait.
func (t *Tenants) OnChange(p Principal, f func()) (stop func()) {
	t.changes.mu.Lock()
	defer t.changes.mu.Unlock()
	c := t.changes.in(p.Organization)
	c.calls[&f] = struct{}{}
	return func() {
		t.changes.mu.Lock()
		defer t.changes.mu.Unlock()
		delete(c.calls, &f)
	}
}
