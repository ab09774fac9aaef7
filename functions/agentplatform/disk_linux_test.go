package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// onSmallDisk runs a test in another process, with a file system of this size in bytes for the program's data.
func onSmallDisk(t *testing.T, size string, test func(p *program)) {
	const there = "ON_A_SMALL_DISK"
	if os.Getenv(there) == "" {
		again := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v", "-test.timeout=4m")
		again.Env = append(os.Environ(), there+"=yes")
		again.SysProcAttr = &syscall.SysProcAttr{
			Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
			UidMappings: []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}},
			GidMappings: []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}},
		}
		out, err := again.CombinedOutput()
		if strings.Contains(string(out), "--- SKIP") || err != nil && len(out) == 0 {
			t.Skip("needs a name space with a file system of its own: ", err)
		}
		t.Log(string(out))
		require.NoError(t, err)
		return
	}
	p := built(t)
	if err := syscall.Mount("tmpfs", p.dir, "tmpfs", 0, "size="+size); err != nil {
		t.Skip("a file system cannot be mounted: ", err)
	}
	t.Cleanup(func() { assert.NoError(t, syscall.Unmount(p.dir, 0)) })
	p.start()
	t.Cleanup(func() { p.stop() })
	test(p)
}

// send sends a file of size bytes.
func (p *program) send(size int) (status int, answer map[string]any) {
	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	part, _ := w.CreateFormFile("file", "a.bin")
	_, _ = io.WriteString(part, strings.Repeat("x", size))
	_ = w.Close()
	status, answer, err := p.call(p.t.Context(), "POST", "/files", w.FormDataContentType(), &b)
	assert.NoError(p.t, err)
	return status, answer
}

// One organization fills its share of the disk, with 20 files of 19 MiB in parallel. Others continue during that and
// after it: with large messages, which need bytes, and small ones. Deleted bytes become free again, and a crash changes
// nothing.
func TestAFullDiskStopsOnlyWhoFillsIt(t *testing.T) {
	onSmallDisk(t, "400m", func(p *program) {
		hog, hogs := p.organization(100)
		other, agent := p.organization(100)
		chats := func(who *program, agent, text string) {
			status, run, err := who.post(context.Background(), "agent_id", agent, "message", text)
			assert.NoError(t, err)
			assert.Equal(t, []any{200, "stop"}, []any{status, run["finish_reason"]}, "%.200v", run)
		}
		var refused atomic.Int64
		var kept sync.Map
		var all sync.WaitGroup
		for range 20 {
			all.Go(func() {
				status, answer := hog.send(19 << 20)
				if status == http.StatusCreated {
					kept.Store(answer["file_id"], true)
					return
				}
				refused.Add(1)
				assert.Equal(t, []any{507, "insufficient_storage"}, []any{status, answer["code"]})
			})
		}
		large := strings.Repeat("large ", 33_000)
		for range 20 {
			chats(other, agent, large)
			chats(other, agent, "small")
		}
		all.Wait()
		status := http.StatusCreated
		for n := 0; status == http.StatusCreated && n < 400; n++ {
			status, _ = hog.send(1 << 20) // the rest of its share: its size depends on the order of refusals
		}
		assert.Equal(t, 507, status)
		status, _ = hog.send(19 << 20)
		assert.Equal(t, 507, status)
		assert.GreaterOrEqual(t, refused.Load(), int64(8))
		left, err := filepath.Glob(filepath.Join(p.dir, "blobs", "tmp", "*"))
		require.NoError(t, err)
		assert.Empty(t, left, "of what was refused nothing is left")
		chats(hog, hogs, "small") // needs no blob
		for range 40 {
			chats(other, agent, large)
		}
		status, _ = other.send(10 << 20)
		assert.Equal(t, 201, status)
		p.kill()
		p.start()
		other.url, hog.url = p.url, p.url
		chats(other, agent, large)
		kept.Range(func(id, _ any) bool {
			status, _, _ := hog.call(t.Context(), "DELETE", fmt.Sprint("/files/", id), "", nil)
			return assert.Equal(t, 204, status)
		})
		status, _ = hog.send(19 << 20)
		assert.Equal(t, 201, status, "what is deleted comes back")
	})
}

// Another program fills the disk. Requests that need bytes get 507, nothing is lost, and all of it works again when
// there is space.
func TestADiskThatOthersFill(t *testing.T) {
	onSmallDisk(t, "200m", func(p *program) {
		who, agent := p.organization(100)
		fill := filepath.Join(p.dir, "other")
		f, err := os.Create(fill)
		require.NoError(t, err)
		_, err = io.Copy(f, zeros{})
		require.ErrorIs(t, err, syscall.ENOSPC)
		require.NoError(t, f.Close())
		status, answer := who.send(100_000)
		assert.Equal(t, []any{507, "insufficient_storage"}, []any{status, answer["code"]})
		status, answer, err = who.post(t.Context(), "agent_id", agent, "message", "small")
		require.NoError(t, err)
		assert.Equal(t, []any{507, "insufficient_storage"}, []any{status, answer["code"]})
		require.NoError(t, os.Remove(fill))
		status, _, err = who.post(t.Context(), "agent_id", agent, "message", strings.Repeat("large ", 33_000))
		require.NoError(t, err)
		assert.Equal(t, 200, status)
		status, _ = who.send(100_000)
		assert.Equal(t, 201, status)
	})
}

type zeros struct{}

func (zeros) Read(b []byte) (int, error) { return len(b), nil }
