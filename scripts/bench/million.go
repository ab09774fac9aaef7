package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

var runs = flag.Int("runs", 0, "measure a store that has so many runs, and nothing else")

// fill completes many runs: how fast each tenth of them is, what the process takes, and how soon it serves again after
// it was killed.
func (s *server) fill(binary, data string) error {
	tenth := max(1, *runs/10)
	for done := 0; done < *runs; done += tenth {
		before, began := s.processor(), time.Now()
		if err := complete(tenth, s); err != nil {
			return err
		}
		row(fmt.Sprintf("runs up to %d", done+tenth),
			"%.0f/s, %.2f ms of processor each, %.1f MB resident, %.1f MB its own",
			float64(tenth)/time.Since(began).Seconds(), 1e3*(s.processor()-before).Seconds()/float64(tenth),
			float64(s.resident())/1e6, float64(s.own())/1e6)
	}
	<-time.After(30 * time.Second)
	row("memory after half a minute of rest", "%.1f MB resident, %.1f MB its own", float64(s.resident())/1e6,
		float64(s.own())/1e6)
	row("the store", "%.1f MB on disk", float64(sizeOf(data))/1e6)
	if err := complete(1000, s); err != nil { // something that was not tidied up
		return err
	}
	if err := s.command.Process.Signal(syscall.SIGKILL); err != nil {
		return err
	}
	_ = s.command.Wait()
	again, err := start(binary, data)
	if err != nil {
		return err
	}
	*s = *again
	row("start to serving, after kill -9", "%s", s.served.Round(time.Millisecond))
	return s.single("a run after it, of one client")
}

// complete has clients complete so many runs, of organizations in turn.
func complete(n int, of ...*server) error {
	var next atomic.Int64
	var failed atomic.Pointer[error]
	var wg sync.WaitGroup
	for range *clients {
		wg.Go(func() {
			for failed.Load() == nil {
				i := int(next.Add(1))
				if i > n {
					return
				}
				response, err := of[i%len(of)].post(context.Background(), "message", "hello there", "wait", "true")
				if err == nil {
					_, _ = io.Copy(io.Discard, response.Body)
					_ = response.Body.Close()
					if response.StatusCode != http.StatusOK {
						err = fmt.Errorf("a message was answered with %s", response.Status)
					}
				}
				if err != nil {
					failed.Store(&err)
				}
			}
		})
	}
	wg.Wait()
	if e := failed.Load(); e != nil {
		return *e
	}
	return nil
}

// sizeOf is the size of all files below a folder.
func sizeOf(folder string) (size int64) {
	_ = filepath.WalkDir(folder, func(_ string, e os.DirEntry, err error) error {
		if err != nil {
			return nil //nolint:nilerr // files come and go
		}
		if info, err := e.Info(); err == nil && info.Mode().IsRegular() {
			size += info.Size()
		}
		return nil
	})
	return size
}
