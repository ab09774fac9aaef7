package record

// Reader is a source of resources: a [Store], which reads strongly, or a [CachedReader].
type Reader interface {
	reads() *Store
}

func (s *Store) reads() *Store { return s }

// CachedReader is a cached reader of keys, users, organizations, agents and toolkits, which every request reads.
// Nothing is written through it. Its values are as old as those of the store's table: strongly read, or some seconds
// old if that table caches. A decision about a run reads through a cached table only values that never change.
type CachedReader struct{ store *Store }

// Cached returns the store's cached reader, whose values may be some seconds old.
func (s *Store) Cached() CachedReader { return CachedReader{s} }

func (k CachedReader) reads() *Store { return k.store }
