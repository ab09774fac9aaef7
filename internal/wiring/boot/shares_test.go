package boot

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/events"
	"agentplatform/internal/platform/host"
	"agentplatform/internal/platform/setting"
	"agentplatform/internal/platform/share"
	"agentplatform/internal/store/queue"
	"agentplatform/internal/store/queue/localqueue"
)

// Blobs leave the floor free, and growing rows half of it. An organization that uses its half of either does not stop
// another.
func TestBlobsAndRowsLeaveAFloorOfTheDisk(t *testing.T) {
	const mib = 1 << 20
	for size, floor := range map[int64]int64{100 * mib: 64 * mib, 16 << 30: 1 << 30, 1 << 40: 2 << 30} {
		free := size
		blobs, rows := disks(size, func() int64 { return free })
		fill := func(d *share.Disk, organization string) {
			for d.Take(share.With(t.Context(), share.Holder{Organization: organization}), mib) {
				free -= mib
			}
		}
		fill(blobs, "a")
		assert.Equal(t, floor+(size-floor)/2, free, "half of what is above the floor")
		for range 50 {
			fill(blobs, rand.Text())
		}
		assert.InDelta(t, floor, free, mib)
		fill(rows, "a")
		assert.InDelta(t, floor*3/4, free, mib, "half of the floor, and of that half")
		fill(rows, "b")
		assert.InDelta(t, floor*5/8, free, mib)
		for range 50 {
			fill(rows, rand.Text())
		}
		assert.InDelta(t, floor/2, free, mib)
	}
}

// An organization of many users requests more than a queue shares out. Another one gets its first unit, and so does one
// next to two of them.
func TestOneOrganizationLeavesSomethingToOthers(t *testing.T) {
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for name, limits := range map[string]share.Limits{
		"workers": workers(16), "senders": senders(), "ingesters": ingesters(1),
		"more ingesters": ingesters(4), "jobs": jobs(),
	} {
		t.Run(name, func(t *testing.T) {
			q := localqueue.Shared(limits)
			send := func(organization string, n int) {
				require.NoError(t, q.Send(t.Context(), queue.Message{
					Wakeup: events.Wakeup{ID: fmt.Sprint(n)}, Group: organization, User: fmt.Sprint(n % 50),
				}))
			}
			take := func() (n int) {
				for {
					if _, err := q.Receive(ended); err != nil {
						return n
					}
					n++
				}
			}
			for n := range 500 {
				send("a", n)
			}
			assert.GreaterOrEqual(t, int64(take()), min(limits.All-limits.Reserve, max(limits.Organization, 1)))
			send("b", 0)
			assert.Equal(t, 1, take())
			if name != "jobs" {
				send("c", 0)
				assert.Equal(t, 1, take())
			}
		})
	}
}

// Many refusals because of a full disk are one error in the log, and another one after a while.
func TestAFullDiskIsLoggedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		l := &Local{log: slog.New(slog.NewTextHandler(&log, nil)), Settings: setting.Settings{DataDir: t.TempDir()}}
		note := l.noteFull(host.System())
		for want := range 3 {
			for range 100 {
				note(errors.New("no room"))
			}
			assert.Equal(t, want+1, strings.Count(log.String(), "level=ERROR"))
			time.Sleep(fullEvery) // of the test's clock
		}
		assert.Contains(t, log.String(), "left_bytes=")
	})
}
