package record

// Reader is what resources are read from: a [Store], which reads strongly, or a [Known].
type Reader interface {
	reads() *Store
	remembers() *memo // nil if what is decoded is the reader's own
}

func (s *Store) reads() *Store    { return s }
func (s *Store) remembers() *memo { return nil }

// Known reads what every request reads of keys, users, organizations, agents and toolkits. The values that it returns
// are shared by all who read them: they must not be changed in place, also not by an append to one of their slices.
// Nothing is written through it.
//
// They are as old as what the store's table returns: strongly read, or some seconds old where that table caches.
// Nothing that decides about a run is read through one that does.
type Known struct{ store *Store }

// Known returns the reads of the store whose values are shared.
func (s *Store) Known() Known { return Known{s} }

func (k Known) reads() *Store    { return k.store }
func (k Known) remembers() *memo { return k.store.memo }
