package record

// Reader is what resources are read from: a [Store], which reads strongly, or a [Known].
type Reader interface {
	reads() *Store
}

func (s *Store) reads() *Store { return s }

// Known reads what every request reads of keys, users, organizations, agents and toolkits. Nothing is written through
// it. Its values are as old as what the store's table returns: strongly read, or some seconds old where that table
// caches. Of what decides about a run, only what never changes is read through one that does.
type Known struct{ store *Store }

// Known returns the reads of the store, for what may be some seconds old.
func (s *Store) Known() Known { return Known{s} }

func (k Known) reads() *Store { return k.store }
