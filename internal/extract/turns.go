package extract

import (
	"context"
	"time"
)

const maxWait = time.Minute // for a turn

// turns lets few in at once.
type turns chan struct{}

// take waits for a place, and returns what gives it back.
func (t turns) take(ctx context.Context) (leave func(), err error) {
	wait, stop := context.WithTimeout(ctx, maxWait)
	defer stop()
	select {
	case t <- struct{}{}:
		return func() { <-t }, nil
	case <-wait.Done():
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	return nil, Fault("too many files are being read")
}
