package share

import "slices"

// Line holds those who wait. Each has a path of names: the organization, the user, and further levels. All paths of a
// line have the same length. At each level of a path the names take turns. The zero Line is empty. It is not safe for
// concurrent use.
type Line[T any] struct {
	by      map[string]*Line[T]
	turn    []string // the names of by
	waiting []T      // at the end of a path
	found   int      // the place in turn that First has found
}

// Push adds an element at the end of its path's line.
func (l *Line[T]) Push(one T, path ...string) {
	l = l.at(path)
	l.waiting = append(l.waiting, one)
}

// Return adds an element before the others with the same path.
func (l *Line[T]) Return(one T, path ...string) {
	l = l.at(path)
	l.waiting = slices.Insert(l.waiting, 0, one)
}

// at is the end of a path.
func (l *Line[T]) at(path []string) *Line[T] {
	for _, name := range path {
		if l.by == nil {
			l.by = map[string]*Line[T]{}
		}
		if l.by[name] == nil {
			l.by[name] = &Line[T]{}
			l.turn = append(l.turn, name)
		}
		l = l.by[name]
	}
	return l
}

// First finds the next path in turn for which may is true at each of its levels. It returns false if there is none.
// [Line.Pop] removes the first element of that path.
func (l *Line[T]) First(may func(path []string) bool) bool { return l.first(nil, may) }

func (l *Line[T]) first(path []string, may func(path []string) bool) bool {
	for i, name := range l.turn {
		if below := slices.Concat(path, []string{name}); may(below) && l.by[name].first(below, may) {
			l.found = i
			return true
		}
	}
	return len(l.waiting) > 0
}

// Pop removes the element that First has found. Names on its path come last, if more of their elements wait.
func (l *Line[T]) Pop() (one T) {
	if len(l.turn) == 0 {
		var none T
		one, l.waiting[0] = l.waiting[0], none
		l.waiting = l.waiting[1:]
		return one
	}
	name := l.turn[l.found]
	below := l.by[name]
	one = below.Pop()
	l.turn = slices.Delete(l.turn, l.found, l.found+1)
	if below.empty() {
		delete(l.by, name)
	} else {
		l.turn = append(l.turn, name)
	}
	return one
}

// Yield puts the names of a path after the other waiting names.
func (l *Line[T]) Yield(path ...string) {
	for _, name := range path {
		at := slices.Index(l.turn, name)
		if at < 0 {
			return
		}
		l.turn = append(slices.Delete(l.turn, at, at+1), name)
		l = l.by[name]
	}
}

// Remove removes the elements at a path for which meant is true. It returns false if there is none.
func (l *Line[T]) Remove(meant func(T) bool, path ...string) bool {
	if len(path) == 0 {
		before := len(l.waiting)
		l.waiting = slices.DeleteFunc(l.waiting, meant)
		return len(l.waiting) < before
	}
	below := l.by[path[0]]
	if below == nil || !below.Remove(meant, path[1:]...) {
		return false
	}
	if below.empty() {
		delete(l.by, path[0])
		l.turn = slices.DeleteFunc(l.turn, func(name string) bool { return name == path[0] })
	}
	return true
}

// Len is how many wait.
func (l *Line[T]) Len() int {
	n := len(l.waiting)
	for _, below := range l.by {
		n += below.Len()
	}
	return n
}

func (l *Line[T]) empty() bool { return len(l.turn)+len(l.waiting) == 0 }
