package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// timings runs the everyday commands on a tree and says how many seconds they took, by the clock and of the processors.
// `make check` runs in the tree, twice, and the second run counts; the others run in a fresh clone of its last commit
// (what is not committed is not measured) with an empty build cache.
func timings(dir string, coldModules bool) ([]row, error) {
	scratch, err := os.MkdirTemp("", "measure")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(scratch) }()
	var rows []row
	for _, m := range []struct {
		what    string
		measure func() (string, error)
	}{
		{"make check, warm", func() (string, error) { return check(dir) }},
		{"make test, fresh clone, empty build cache", func() (string, error) {
			c, err := fresh(dir, filepath.Join(scratch, "test"), coldModules)
			if err != nil {
				return "", err
			}
			return c.finish("test")
		}},
		{"make run, fresh clone, empty build cache, to the first answer", func() (string, error) {
			c, err := fresh(dir, filepath.Join(scratch, "run"), coldModules)
			if err != nil {
				return "", err
			}
			return c.untilItAnswers()
		}},
	} {
		value, err := m.measure()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", m.what, err)
		}
		rows = append(rows, row{m.what, value})
	}
	return rows, nil
}

// check runs `make check` twice, where there is one.
func check(dir string) (string, error) {
	c := clone{dir: dir}
	if there := exec.Command("make", "-C", dir, "-n", "check").Run() == nil; !there {
		return "there is none", nil
	}
	if _, err := c.finish("check"); err != nil {
		return "", err
	}
	return c.finish("check")
}

// clone is a tree with the environment that its commands get.
type clone struct {
	dir     string
	environ []string // besides this process's
}

// fresh clones a tree into the folder `to`, with caches of its own. The error is git's.
func fresh(dir, to string, coldModules bool) (clone, error) {
	c := clone{dir: filepath.Join(to, "tree"), environ: []string{"GOCACHE=" + filepath.Join(to, "cache")}}
	if coldModules {
		// Without modcacherw the cache could not be removed again.
		c.environ = append(c.environ, "GOMODCACHE="+filepath.Join(to, "modules"), "GOFLAGS=-modcacherw")
	}
	out, err := exec.Command("git", "clone", "--quiet", "--shared", dir, c.dir).CombinedOutput()
	if err != nil {
		return c, fmt.Errorf("git clone: %w: %s", err, out)
	}
	return c, nil
}

func (c clone) command(target string) *exec.Cmd {
	command := exec.Command("make", "-C", c.dir, target)
	command.Env = slices.Concat(slices.DeleteFunc(os.Environ(), func(v string) bool {
		return strings.HasPrefix(v, "MAKE") // as when this runs below make itself
	}), c.environ)
	command.Stdout, command.Stderr = os.Stderr, os.Stderr // the table alone goes to stdout
	return command
}

// finish runs a target to its end. The error is that of the target.
func (c clone) finish(target string) (string, error) {
	command := c.command(target)
	began := time.Now()
	err := command.Run()
	return spent(time.Since(began), command), err
}

// untilItAnswers runs the service, and stops it as soon as it answers. It fails if the service ends before, or does not
// answer within ten minutes.
func (c clone) untilItAnswers() (string, error) {
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	address := free.Addr().String()
	_ = free.Close()
	command := c.command("run")
	command.Env = append(command.Env, "ADDR="+address, "DATA_DIR="+filepath.Join(c.dir, ".data"))
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // make, go and the service are stopped together
	began := time.Now()
	if err := command.Start(); err != nil {
		return "", err
	}
	ended := make(chan error, 1)
	go func() { ended <- command.Wait() }()
	stop := func() { _ = syscall.Kill(-command.Process.Pid, syscall.SIGTERM) }
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	for {
		select {
		case err := <-ended:
			return "", fmt.Errorf("the service ended: %w", err)
		case <-ctx.Done():
			stop()
			<-ended
			return "", ctx.Err()
		case <-time.After(20 * time.Millisecond):
		}
		if answers(ctx, "http://"+address+"/api/v1/healthz") {
			took := time.Since(began)
			stop()
			<-ended
			return spent(took, command), nil
		}
	}
}

func answers(ctx context.Context, url string) bool {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return false
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return false
	}
	_ = response.Body.Close()
	return response.StatusCode == http.StatusOK
}

func spent(took time.Duration, command *exec.Cmd) string {
	state := command.ProcessState
	return fmt.Sprintf("%.0f s (processors: %.0f s)", took.Seconds(), (state.UserTime() + state.SystemTime()).Seconds())
}
