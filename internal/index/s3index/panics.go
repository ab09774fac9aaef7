package s3index

import (
	"errors"

	"agentplatform/internal/host"
)

// guarded is f for a goroutine of its own: its panic is its error, with which the caller panics (see again). It would
// end the process else, with all that the process does for others.
func guarded(f func() error) func() error {
	return func() (err error) {
		if died := host.Catch(func() { err = f() }); died != nil {
			return died
		}
		return err
	}
}

// again panics with the panic that an error is; it returns every other error.
func again(err error) error {
	var died *host.Panic
	if errors.As(err, &died) {
		died.Again()
	}
	return err
}
