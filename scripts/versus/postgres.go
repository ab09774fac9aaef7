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
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
)

// nobody is the user with this number on every Linux. PostgreSQL does not start as root. If this program is root, it
// starts PostgreSQL as nobody.
const nobody = 65534

// startPostgres makes a database as initdb leaves it, starts it, and returns its URL.
func (s *stage) startPostgres(ctx context.Context) (string, error) {
	home := filepath.Join(s.dir, "postgres")
	if err := os.Mkdir(home, 0o700); err != nil {
		return "", err
	}
	if os.Getuid() == 0 {
		if err := os.Chown(home, nobody, nobody); err != nil {
			return "", err
		}
	}
	data := filepath.Join(home, "data")
	made, err := s.ofPostgres("initdb", home, "-D", data, "-U", "postgres", "-A", "trust", "-E", "UTF8",
		"--locale", "C")
	if err != nil {
		return "", err
	}
	select {
	case <-made.ended:
	case <-ctx.Done():
		return "", s.explain(ctx.Err())
	}
	if !made.command.ProcessState.Success() {
		return "", s.explain(fmt.Errorf("initdb: %s", made.command.ProcessState))
	}
	s.processes = slices.DeleteFunc(s.processes, func(other *process) bool { return other == made })
	at, err := address()
	if err != nil {
		return "", err
	}
	host, port, err := net.SplitHostPort(at)
	if err != nil {
		return "", err
	}
	running, err := s.ofPostgres("postgres", home, "-D", data, "-h", host, "-p", port, "-k", "")
	if err != nil {
		return "", err
	}
	url := fmt.Sprintf("postgres://postgres@%s/postgres", at)
	return url, s.until(ctx, running, func() error { return reach(ctx, url) })
}

// ofPostgres starts a program of PostgreSQL.
func (s *stage) ofPostgres(program, folder string, args ...string) (*process, error) {
	command := exec.Command(filepath.Join(s.postgres, program), args...)
	command.Dir, command.SysProcAttr = folder, &syscall.SysProcAttr{}
	if os.Getuid() == 0 {
		command.SysProcAttr.Credential = &syscall.Credential{Uid: nobody, Gid: nobody}
	}
	return s.run(program, command)
}

func reach(ctx context.Context, url string) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	connection, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	return errors.Join(connection.Ping(ctx), connection.Close(ctx))
}
