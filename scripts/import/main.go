// Command import reads an export of OpenAI Assistants, of Letta agents or of LangGraph assistants. It makes agents,
// toolkits and knowledge bases from it, and reports everything that did not fit (docs/import.md).
//
// It is an ordinary client of the API. Package plan decides on the things to make, and this package makes them. It must
// not know the store, and imports only plan of our packages. It reads the key from the environment: AGENT_PLATFORM_KEY.
//
// The exit status is:
//
//   - 0: everything in the plan exists, and the whole export was read. Other findings in the report do not matter.
//   - 1: something could not be read or made. Another run makes up for it.
//   - 2: a mistake in the command line.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"time"

	"agentplatform/scripts/import/plan"
)

const (
	done   = 0
	failed = 1
	misuse = 2
)

// keyVariable names the environment variable of the API key.
const keyVariable = "AGENT_PLATFORM_KEY"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	status := run(ctx, os.Args[1:], os.Getenv, os.Stdout, os.Stderr)
	stop()
	os.Exit(status)
}

// command is the command line.
type command struct {
	from, base string
	dry        bool
	limit      time.Duration
	options    plan.Options
	bearers    map[string]string // environment variables with tokens, by the host that they are for
}

// into fills a map from a flag that may be given several times, each NAME=VALUE.
func into(pairs map[string]string) func(string) error {
	return func(text string) error {
		name, value, found := strings.Cut(text, "=")
		if !found || name == "" || value == "" {
			return errors.New("must be NAME=VALUE")
		}
		pairs[name] = value
		return nil
	}
}

func parse(args []string, errs io.Writer) (command, error) {
	c := command{
		options: plan.Options{Models: map[string]string{}, Tools: map[string]string{}}, bearers: map[string]string{},
	}
	flags := flag.NewFlagSet("import", flag.ContinueOnError)
	flags.SetOutput(errs)
	flags.StringVar(&c.from, "from", "", "the export: a file or a folder")
	flags.StringVar(&c.base, "base-url", "http://127.0.0.1:8080/api/v1",
		"the URL of the API; its key is in "+keyVariable)
	flags.BoolVar(&c.dry, "dry-run", false, "only print the plan and the report; call nothing")
	flags.DurationVar(&c.limit, "limit", time.Hour,
		"the time limit of the import, including the ingestion of documents")
	flags.Func("model", "OLD=PROVIDER/NAME, the model to use instead; may be repeated", into(c.options.Models))
	flags.Func("tool", "FUNCTION=URL, the URL that executes a function; may be repeated", into(c.options.Tools))
	flags.Func("bearer", "HOST=VARIABLE, the environment variable with the bearer token of toolkits at that host; may "+
		"be repeated", into(c.bearers))
	if err := flags.Parse(args); err != nil {
		return c, err
	}
	if c.from == "" || flags.NArg() > 0 {
		flags.Usage()
		return c, errors.New("-from is required, and only flags are allowed")
	}
	return c, nil
}

// run runs the whole command and returns the exit status.
func run(ctx context.Context, args []string, environ func(string) string, out, errs io.Writer) int {
	c, err := parse(args, errs)
	if errors.Is(err, flag.ErrHelp) {
		return done
	}
	key := environ(keyVariable)
	if err == nil && !c.dry && key == "" {
		err = errors.New(keyVariable + " must contain an API key of level manage")
	}
	tokens := map[string]string{}
	for host, variable := range c.bearers {
		if tokens[host] = environ(variable); err == nil && tokens[host] == "" {
			err = fmt.Errorf("-bearer: %s is not set", variable)
		}
	}
	if err != nil {
		_, _ = fmt.Fprintln(errs, err)
		return misuse
	}
	ctx, cancel := context.WithTimeout(ctx, c.limit)
	defer cancel()
	root, only, err := open(c.from)
	if err == nil {
		defer func() { _ = root.Close() }()
		err = c.carry(ctx, root.FS(), only, &maker{client: newClient(c.base, key), out: out, tokens: tokens})
	}
	if err != nil {
		_, _ = fmt.Fprintln(errs, err)
		return failed
	}
	return done
}

// open opens an export's folder. No name in the export leads out of it. If from is a file, only is its name.
func open(from string) (root *os.Root, only string, err error) {
	info, err := os.Stat(from)
	if err != nil {
		return nil, "", err
	}
	if !info.IsDir() {
		from, only = filepath.Split(from)
	}
	root, err = os.OpenRoot(cmp.Or(from, "."))
	return root, only, err
}

// carry makes the plan, and executes it unless this is a dry run.
func (c command) carry(ctx context.Context, files fs.FS, only string, m *maker) error {
	p, err := plan.Read(files, only, c.options)
	if err != nil {
		return err
	}
	if err := p.Write(m.out); err != nil {
		return err
	}
	if p.Unread() {
		err = errUnread
	}
	if !c.dry {
		m.plan, m.files = p, files
		err = errors.Join(m.make(ctx), err)
	}
	return err
}

var errUnread = errors.New("some parts could not be read: fix the parts in the report, and run again")
