// Package short tells how a tree is measured: with a bell, which looks at nobody.
package short

import "errors"

// ErrGone is an error, not a function.
var ErrGone = errors.New("gone")

// Bell has one method that says which errors it returns and one that does not.
type Bell interface {
	// Ring rings.
	Ring() error
	Listen() error // fails with ErrGone
}

type hidden struct{}

// Close is of a type that is not exported.
func (hidden) Close() error { return ErrGone }

// Open makes a hidden one.
func Open() (hidden, error) {
	newBell := hidden{}
	return newBell, nil
}

// Remove returns [ErrGone] where there is nothing.
func Remove() error { return ErrGone }

func wide() string {
	return "this line is a hundred and twenty-one columns wide, because its tab counts for four, as it shousssssssssssss"
}
