//go:build !linux

package hangup

import "errors"

// New fails: here a connection that nobody reads would take a goroutine that does.
func New() (Watcher, error) { return nil, errors.ErrUnsupported }
