package record

import "context"

// Reader is what resources are read from: a [Store], which reads strongly, or a [Known].
type Reader interface {
	reads() *Store
	remembers() *memo // nil if what is decoded is the reader's own
}

func (s *Store) reads() *Store    { return s }
func (s *Store) remembers() *memo { return nil }

// Known reads what every request reads of keys, users, organizations, agents and toolkits. It may be some seconds old
// where the store's table caches, and it is shared by those who read it: nobody changes it in place. Nothing is written
// through it, and nothing that decides about a run is read through it.
type Known struct{ store *Store }

// Known returns the reads of a store that are of what nobody changes. They are as old as those of its table.
func (s *Store) Known() Known { return Known{s} }

func (k Known) reads() *Store    { return k.store }
func (k Known) remembers() *memo { return k.store.memo }

// RunToken is [Store.RunToken] as of some seconds ago, with the same errors.
func (k Known) RunToken(ctx context.Context, hash string) (RunToken, error) {
	return k.store.RunToken(ctx, hash)
}
