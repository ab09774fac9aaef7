package tenant

import "sync"

// changes tells who holds on to a right, such as the reader of a stream, that rights may have changed in this process.
type changes struct {
	mu   sync.Mutex
	n    int64
	next chan struct{} // closed at the next change; nil: nobody waits
}

// Change says that rights may have changed. Whoever carries out a change says so before it is answered.
func (t *Tenants) Change() {
	t.changes.mu.Lock()
	defer t.changes.mu.Unlock()
	t.changes.n++
	if t.changes.next != nil {
		close(t.changes.next)
		t.changes.next = nil
	}
}

// Changes counts the changes, and waits for the next.
func (t *Tenants) Changes() (n int64, next <-chan struct{}) {
	t.changes.mu.Lock()
	defer t.changes.mu.Unlock()
	if t.changes.next == nil {
		t.changes.next = make(chan struct{})
	}
	return t.changes.n, t.changes.next
}
