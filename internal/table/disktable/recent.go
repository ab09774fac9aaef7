package disktable

import (
	"slices"
	"strings"

	"github.com/cockroachdb/pebble/v2"
)

// recent tells partitions that are new without looking into the engine. Most have ids in their names, which are in the
// order of their creation: so a name above all names of its kind is new, where the kind is what stands before the first
// slash. As ids of things that are created together are written in any order, it knows the last names of each kind, and
// from where on it knows them. It belongs to the committing goroutine.
type recent struct {
	kinds map[string]*lastNames
}

// lastNames are all partitions of a kind whose names are above one.
type lastNames struct {
	above string
	names map[string]struct{}
}

// Limits of what is kept; the kinds are few, and none of a client's making.
const (
	maxKinds = 64
	maxNames = 4096
)

// isNew says that a partition has nothing; false where that is not known.
func (r *recent) isNew(engine pebble.Reader, part string) bool {
	kind, _, named := strings.Cut(part, "/")
	if !named {
		return false
	}
	last := r.kinds[kind]
	if last == nil {
		name, err := lastName(engine, kind)
		if err != nil {
			return false
		}
		if r.kinds == nil || len(r.kinds) == maxKinds {
			r.kinds = map[string]*lastNames{}
		}
		last = &lastNames{above: name, names: map[string]struct{}{}}
		r.kinds[kind] = last
	}
	_, there := last.names[part]
	return !there && part > last.above
}

// wrote notes that a partition has been written to, if its kind has been asked for.
func (r *recent) wrote(part string) {
	kind, _, named := strings.Cut(part, "/")
	last := r.kinds[kind]
	if !named || last == nil || part <= last.above {
		return
	}
	last.names[part] = struct{}{}
	if len(last.names) <= maxNames {
		return
	}
	sorted := make([]string, 0, len(last.names))
	for name := range last.names {
		sorted = append(sorted, name)
	}
	slices.Sort(sorted)
	gone := sorted[:len(sorted)/2]
	last.above = gone[len(gone)-1]
	for _, name := range gone {
		delete(last.names, name)
	}
}

// lastName is the last partition of a kind, empty for none.
func lastName(engine pebble.Reader, kind string) (string, error) {
	it, err := engine.NewIter(&pebble.IterOptions{
		LowerBound: append([]byte{itemPrefix}, kind+"/"...),
		UpperBound: append([]byte{itemPrefix}, kind+"0"...), // the character after the slash
	})
	if err != nil {
		return "", err
	}
	defer func() { _ = it.Close() }()
	if !it.Last() {
		return "", it.Error()
	}
	k, valid := splitItemKey(it.Key())
	if !valid {
		return "", errCorrupt
	}
	return k.Part, nil
}
