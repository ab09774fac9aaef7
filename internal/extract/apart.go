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

// Whatever has a grammar is read by a process of its own, this very program with hardly more in its environment than
// apart: a few bytes may ask a parser for any amount of memory and time, and only another process can be ended for
// that. How it ends is the answer.
const (
	apart       = "AGENTPLATFORM_READS"
	maxMemory   = 256 << 20        // bytes on top of what the process begins with
	maxWork     = 10 * time.Second // of a processor
	maxTime     = time.Minute      // by the clock, which runs on while a busy machine does something else
	maxFault    = 200              // bytes that are told of why a file could not be read
	atOnce      = 2                // files, in the whole process
	atOnceGroup = 1                // of them of one group
)

// grammars are what is read apart. The names are told to the other process, and to whoever sent a file that is broken.
var grammars = map[string]func([]byte) (string, error){"page": ofHTML, "Word document": ofWord, "PDF": ofPDF}

// reader names the program that reads.
var reader = program

// reading gives turns to the files that are to be read.
var reading = newTurns(atOnce, atOnceGroup)

func init() {
	if grammar := os.Getenv(apart); grammar != "" {
		readApart(grammar)
	}
}

// readApart is the other process: a file comes in, its text goes out, or why there is none. It ends by itself, too,
// should nobody be left who could end it; what ends a whole group of processes is for the one that waits for it.
func readApart(grammar string) {
	signal.Ignore(os.Interrupt, syscall.SIGTERM)
	time.AfterFunc(2*maxTime, func() { os.Exit(2) })
	debug.SetMemoryLimit(maxMemory / 2) // the collector is in no hurry otherwise
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

// readIn has a file read by another process, once it is its group's turn. What comes of it is a text or a Fault; any
// other error says that the file was not judged, as it could not be fetched, or nobody waits for its text any more.
func readIn(ctx context.Context, group, grammar string, open Open) (string, error) {
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
	child.Env = []string{apart + "=" + grammar, "GOMAXPROCS=1"}
	child.Stdin, child.Stdout, child.Stderr = in, out, says
	err = child.Run()
	var ended *exec.ExitError
	switch {
	case err == nil:
		return out.text(), nil
	case ctx.Err() != nil: // whoever asked has given up
		return "", fmt.Errorf("extract: %w", ctx.Err())
	case in.err != nil:
		return "", fmt.Errorf("extract: the file could not be fetched: %w", in.err)
	case limited.Err() == nil && !errors.As(err, &ended):
		return "", fmt.Errorf("extract: %w", err)
	case ended != nil && ended.ExitCode() == 1:
		return "", Fault(says.text())
	default: // what the runtime says of its end goes on for pages
		return "", Fault(fmt.Sprintf("the %s takes more than %d MiB or %s to read, or breaks its reader",
			grammar, maxMemory>>20, maxWork))
	}
}

// source remembers why a file could not be read to its end, which is no fault of what it says.
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

// bounded keeps the beginning of what is written.
type bounded struct {
	most int
	kept []byte
}

func (b *bounded) Write(p []byte) (int, error) {
	b.kept = append(b.kept, p[:min(len(p), b.most-len(b.kept))]...)
	return len(p), nil
}

func (b *bounded) text() string { return strings.ToValidUTF8(string(b.kept), "") }
