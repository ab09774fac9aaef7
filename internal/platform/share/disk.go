package share

import (
	"context"
	"sync"
)

// Disk divides what is left of a disk, which others use as well. An organization may store bytes while at least as
// much stays left as it has stored then. So it takes at most half of what the others leave.
//
// What an organization has stored counts since the process began, without what was deleted of it. Where a reserve is
// set, bytes count only while less than that is left. Disk is safe for concurrent use.
type Disk struct {
	left    func() int64 // in bytes
	reserve int64        // 0: all of it

	mu   sync.Mutex
	held map[string]int64 // by organization
}

// NewDisk makes a disk of which nothing is held.
func NewDisk(left func() int64, reserve int64) *Disk {
	return &Disk{left: left, reserve: reserve, held: map[string]int64{}}
}

// Take says whether the holder of the context may store n bytes more. If so, they count.
func (d *Disk) Take(ctx context.Context, n int64) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	left, of := d.left(), Of(ctx).Organization
	if d.reserve > 0 && left > d.reserve {
		clear(d.held)
		return true
	}
	if d.held[of]+2*n > left {
		return false
	}
	d.held[of] += n
	return true
}

// Give says that n bytes of the holder of the context were deleted. Those that were stored earlier do not count.
func (d *Disk) Give(ctx context.Context, n int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	of := Of(ctx).Organization
	if d.held[of] = max(0, d.held[of]-n); d.held[of] == 0 {
		delete(d.held, of)
	}
}
