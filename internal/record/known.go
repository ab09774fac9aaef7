package record

import "context"

// Reader is what resources are read from: a [Store], which reads strongly, or a [Known].
type Reader interface {
	reads() *Store
}

func (s *Store) reads() *Store { return s }

// Known reads what may be some seconds old: what every request reads of keys, users, organizations, agents and
// toolkits. It writes nothing, and nothing that decides about a run is read through it.
type Known struct{ store *Store }

// Known returns the reads of a store whose table may answer for a while from what it read before.
func (s *Store) Known() Known { return Known{s} }

func (k Known) reads() *Store { return k.store }

// RunToken is [Store.RunToken] as of some seconds ago, with the same errors.
func (k Known) RunToken(ctx context.Context, hash string) (RunToken, error) {
	return k.store.RunToken(ctx, hash)
}
