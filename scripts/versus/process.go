package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

const stopping = 20 * time.Second // the longest time that a process may take to stop

// stage has the processes and folders that were made for one system in one round.
type stage struct {
	*tools
	name      string
	dir       string
	processes []*process
}

type process struct {
	name    string
	command *exec.Cmd
	log     string
	ended   chan struct{}
}

// run starts a process in a group of its own, so that Ctrl-C reaches only this program, which then stops it.
func (s *stage) run(name string, command *exec.Cmd) (*process, error) {
	p := &process{name: name, command: command, ended: make(chan struct{}), log: filepath.Join(s.dir, name+".log")}
	file, err := os.Create(p.log)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	command.Stdout, command.Stderr = file, file
	if command.SysProcAttr == nil {
		command.SysProcAttr = &syscall.SysProcAttr{}
	}
	command.SysProcAttr.Setpgid = true
	if err := command.Start(); err != nil {
		return nil, err
	}
	go func() {
		_ = command.Wait()
		close(p.ended)
	}()
	s.processes = append(s.processes, p)
	return p, nil
}

// until calls ready again and again until it returns no error, the process has ended, or the context has ended.
func (s *stage) until(ctx context.Context, p *process, ready func() error) error {
	for {
		err := ready()
		if err == nil {
			return nil
		}
		select {
		case <-p.ended:
			return s.explain(fmt.Errorf("%s has ended (%s): %w", p.name, p.command.ProcessState, err))
		case <-ctx.Done():
			return s.explain(fmt.Errorf("%s is not ready: %w", p.name, errors.Join(ctx.Err(), err)))
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// explain adds the ends of the logs to an error.
func (s *stage) explain(err error) error {
	for _, p := range s.processes {
		text, readErr := os.ReadFile(p.log)
		if readErr == nil && len(text) > 0 {
			err = fmt.Errorf("%w\n--- the end of the log of %s:\n%s", err, p.name, text[max(0, len(text)-2000):])
		}
	}
	return err
}

func (s *stage) pids() []int {
	var all []int
	for _, p := range s.processes {
		all = append(all, p.command.Process.Pid)
	}
	return all
}

// close stops all processes, the last one first. It has its own deadlines, so it also works after the context has
// ended.
func (s *stage) close() error {
	var errs []error
	for _, p := range slices.Backward(s.processes) {
		_ = p.command.Process.Signal(os.Interrupt)
		select {
		case <-p.ended:
		case <-time.After(stopping):
			errs = append(errs, fmt.Errorf("%s did not stop within %s and was killed", p.name, stopping))
		}
		_ = syscall.Kill(-p.command.Process.Pid, syscall.SIGKILL) // anything that is left of its group
		<-p.ended
	}
	return errors.Join(errs...)
}

// address returns a free address of this machine.
func address() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}

// output returns the first line that a command prints.
func output(ctx context.Context, name string, args ...string) string {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	text, err := exec.CommandContext(ctx, name, args...).Output()
	if err != nil {
		return fmt.Sprintf("version unknown (%s)", err)
	}
	first, _, _ := strings.Cut(strings.TrimSpace(string(text)), "\n")
	return first
}
