package extract

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"runtime/debug"
	"strings"
	"syscall"
	"time"
)

// A format that needs a parser is read by a child process: this program, with childVariable in its environment
// and little else. A few bytes may make a parser use any amount of memory and time, and only a process can be ended
// for that. The exit code and the output of the child are the result.
const (
	childVariable = "AGENTPLATFORM_READS"
	maxMemory     = 256 << 20        // bytes, in addition to what the process maps at its start
	maxWork       = 10 * time.Second // of CPU time
	maxTime       = time.Minute      // of elapsed time, which includes waiting for a busy CPU
	maxFault      = 200              // bytes of the message of a Fault
	atOnce        = 2                // files read at once by this process
	atOnceGroup   = 1                // files read at once of one group
)

// grammars are the parsers by format. The names are passed to the child process, and are part of the messages of
// Faults.
var grammars = map[string]func([]byte) (string, error){"page": ofHTML, "Word document": ofWord, "PDF": ofPDF}

// reader returns the path of the program that is started as the child.
var reader = program

// reading limits how many children run at once.
var reading = newTurns(atOnce, atOnceGroup)

func init() {
	if grammar := os.Getenv(childVariable); grammar != "" {
		childMain(grammar)
	}
}

// childMain is the child process: it reads a file from stdin and writes its text to stdout, or the reason of a
// failure to stderr. It ends after 2*maxTime even if the parent has died, and ignores signals to the process group:
// the parent decides.
func childMain(grammar string) {
	signal.Ignore(os.Interrupt, syscall.SIGTERM)
	time.AfterFunc(2*maxTime, func() { os.Exit(2) })
	debug.SetMemoryLimit(maxMemory / 2) // makes the garbage collector run before the limit is reached
	err := limit(maxMemory, maxWork)
	var data []byte
	if err == nil {
		data, err = io.ReadAll(os.Stdin)
	}
	read, known := grammars[grammar]
	if err == nil && !known {
		err = errors.New("nothing is known of " + grammar)
	}
	var text string
	if err == nil {
		text, err = read(data)
	}
	if err == nil {
		_, err = io.WriteString(os.Stdout, text)
	}
	if err != nil {
		_, _ = fmt.Fprint(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// readInChild reads a file in a child process when it is its group's turn. The error is a [Fault], or, if the content
// was not decided: that of ctx, of fetching the file, or of starting the child.
func readInChild(ctx context.Context, group, grammar string, open Open) (string, error) {
	leave, err := reading.take(ctx, group)
	if err != nil {
		return "", err
	}
	defer leave()
	program, err := reader()
	if err != nil {
		return "", fmt.Errorf("extract: %w", err)
	}
	limited, cancel := context.WithTimeout(ctx, maxTime)
	defer cancel()
	file, err := open(limited)
	if err != nil {
		return "", err
	}
	defer func() { _ = file.Close() }()
	in := &source{from: io.LimitReader(file, maxFile)}
	out, says := &bounded{most: MaxText + 100}, &bounded{most: maxFault}
	child := exec.CommandContext(limited, program)
	child.Env = []string{childVariable + "=" + grammar, "GOMAXPROCS=1"}
	child.Stdin, child.Stdout, child.Stderr = in, out, says
	err = child.Run()
	var ended *exec.ExitError
	switch {
	case err == nil:
		return out.text(), nil
	case ctx.Err() != nil: // the caller has given up
		return "", fmt.Errorf("extract: %w", ctx.Err())
	case in.err != nil:
		return "", fmt.Errorf("extract: the file could not be fetched: %w", in.err)
	case limited.Err() == nil && !errors.As(err, &ended):
		return "", fmt.Errorf("extract: %w", err)
	case ended != nil && ended.ExitCode() == 1:
		return "", Fault(says.text())
	default: // the crash report of the runtime is too long to show
		return "", Fault(fmt.Sprintf("the %s takes more than %d MiB or %s to read, or breaks its reader",
			grammar, maxMemory>>20, maxWork))
	}
}

// source records the error of reading the file, which is not a fault of its content.
type source struct {
	from io.Reader
	err  error
}

func (s *source) Read(p []byte) (int, error) {
	n, err := s.from.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		s.err = err
	}
	return n, err
}

// bounded keeps the first most bytes that are written.
type bounded struct {
	most int
	kept []byte
}

func (b *bounded) Write(p []byte) (int, error) {
	b.kept = append(b.kept, p[:min(len(p), b.most-len(b.kept))]...)
	return len(p), nil
}

func (b *bounded) text() string { return strings.ToValidUTF8(string(b.kept), "") }
