package share

import (
	"context"
	"sync"
)

// Disk divides the free part of a disk, which other programs use as well. An organization may store bytes while at
// least as many stay free as it then has. So it takes at most half of the part that other organizations leave.
//
// An organization has the bytes that it has stored since the process began, minus deleted ones. With a reserve, bytes
// count only while less than the reserve is free. Disk is safe for concurrent use.
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

// Take reports whether the holder of the context may store n more bytes. If so, they count.
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

// Give takes n deleted bytes of the holder of the context off its count, which ends at zero.
func (d *Disk) Give(ctx context.Context, n int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	of := Of(ctx).Organization
	if d.held[of] = max(0, d.held[of]-n); d.held[of] == 0 {
		delete(d.held, of)
	}
}
