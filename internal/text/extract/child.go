package extract

import (
	"context"
	"encoding/json"
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

	"agentplatform/internal/text/document"
)

// A format that needs a parser is read by a child process: this program, with childVariable in its environment and
// little else. A few bytes may make a parser use any amount of memory and time, and only a process can be stopped then.
// The exit code and the output of the child are the result.
const childVariable = "AGENTPLATFORM_READS"

// job describes the file that a child reads; as JSON it is the value of childVariable.
type job struct {
	Format  format
	Charset string `json:",omitempty"`
	Whole   bool   `json:",omitempty"` // a document; else a file of a message, of which a part will do

	Compiled string `json:",omitempty"` // the folder of what reads PDFs
	Bare     bool   `json:",omitempty"` // without the files within it, one of which has ended the child
}

func (j job) limits() limits {
	if j.Whole {
		return forDocuments
	}
	return forMessages
}

func (j job) read(data []byte) (document.Text, bool, error) {
	read, known := readers[j.Format]
	if !known {
		return document.Text{}, false, ErrKind
	}
	b := builder{most: j.limits()}
	in := input{data: data, format: j.Format, charset: j.Charset, compiled: j.Compiled, bare: j.Bare, readers: readers}
	if err := read(in, &b); err != nil {
		return document.Text{}, false, err
	}
	text, cut := b.finish()
	switch {
	case j.Whole && cut:
		return document.Text{}, false, b.tooLong()
	case j.Whole && len(text.Blocks) == 0:
		return document.Text{}, false, Fault{Empty, "the " + string(j.Format) + " has no text"}
	}
	return text, cut, nil
}

// reader returns the path of the program that is started as the child.
var reader = program

// reading limits how many children run concurrently for messages, readingDocuments for documents.
var reading, readingDocuments = newTurns(atOnce, atOnceGroup), newTurns(atOnce, atOnceGroup)

func init() {
	if todo := os.Getenv(childVariable); todo != "" {
		childMain(todo)
	}
}

// childMain is the child process. It reads a file from stdin and writes its text to stdout, or the code of a Fault and
// its reason to stderr. It ends some time after its parent would have ended it, even if that has died. It ignores other
// signals to end: the parent decides.
func childMain(todo string) {
	signal.Ignore(os.Interrupt, syscall.SIGTERM)
	var j job
	err := json.Unmarshal([]byte(todo), &j)
	if err == nil && j.Format == compiling {
		compileMain(j.Compiled)
	}
	most := j.limits()
	time.AfterFunc(2*most.elapsed, func() { os.Exit(2) })
	debug.SetMemoryLimit(int64(most.memory / 2)) // makes the garbage collector run before the limit is reached
	memory := most.memory
	if j.Format.mayHavePDF() {
		memory += most.sandbox
	}
	if err == nil {
		err = limit(memory, most.work)
	}
	if err == nil && j.Whole {
		err = yield()
	}
	var data []byte
	if err == nil {
		data, err = io.ReadAll(os.Stdin)
	}
	if err == nil {
		var text document.Text
		var cut bool
		if text, cut, err = j.read(data); err == nil {
			err = encode(os.Stdout, text, cut)
		}
	}
	if errors.Is(err, errUncompiled) {
		_, _ = fmt.Fprint(os.Stderr, err)
		os.Exit(uncompiled)
	}
	if err != nil {
		f := faultOf(err)
		_, _ = fmt.Fprintf(os.Stderr, "%s %s", f.Code, f.Reason)
		os.Exit(1)
	}
	os.Exit(0)
}

// inChild reads a file in a child process. The error is a [Fault], or, if the content was not decided, that of ctx, of
// fetching the file, or of starting the child.
func (j job) inChild(ctx context.Context, f File) (text document.Text, cut bool, err error) {
	err = errUncompiled
	if j.Format != portable { // most e-mails have no PDF
		j.Compiled = pdfReader.known()
		text, cut, err = j.once(ctx, f)
	}
	for _, again := range []bool{false, true} { // what reads PDFs may have been removed since it was compiled
		if !errors.Is(err, errUncompiled) {
			break
		}
		if j.Compiled, err = pdfReader.ready(ctx, again); err != nil {
			return text, false, err
		}
		text, cut, err = j.once(ctx, f)
	}
	if (j.Format == mail || j.Format == mailbox) && err == j.tooHard() { //nolint:errorlint // it is made as it is
		j.Bare = true
		return j.once(ctx, f)
	}
	return text, cut, err
}

func (j job) once(ctx context.Context, f File) (text document.Text, cut bool, err error) {
	most := j.limits()
	limited, cancel := context.WithTimeout(ctx, most.elapsed)
	defer cancel()
	file, err := f.Open(limited)
	if err != nil {
		return text, false, err
	}
	defer func() { _ = file.Close() }()
	in, stderr := &source{from: file, left: most.file}, &bounded{most: maxNotes}
	child, err := j.command(limited)
	if err != nil {
		return text, false, fmt.Errorf("extract: %w", err)
	}
	child.Stdin, child.Stderr = in, stderr
	out, err := child.StdoutPipe()
	if err != nil {
		return text, false, fmt.Errorf("extract: %w", err)
	}
	if err = child.Start(); err != nil {
		return text, false, j.failure(ctx, limited, in, stderr, err)
	}
	text, cut, wrong := decode(out, most, func() error {
		if f.Room == nil {
			return nil
		}
		return f.Room(limited)
	})
	if wrong != nil { // most often it has ended: its exit code is more precise
		_, _ = io.Copy(io.Discard, out)
	}
	if err = child.Wait(); err == nil {
		err = wrong
	}
	if err != nil {
		return document.Text{}, false, j.failure(ctx, limited, in, stderr, err)
	}
	return text, cut, nil
}

// command is the program that does the job. It uses one CPU, except for compiling.
func (j job) command(ctx context.Context) (*exec.Cmd, error) {
	program, err := reader()
	if err != nil {
		return nil, err
	}
	todo, err := json.Marshal(j)
	if err != nil {
		return nil, err
	}
	child := exec.CommandContext(ctx, program)
	child.Env = []string{childVariable + "=" + string(todo)}
	if j.Format != compiling {
		child.Env = append(child.Env, "GOMAXPROCS=1")
	}
	return child, nil
}

// failure returns the error for a child that has ended with an error.
func (j job) failure(ctx, limited context.Context, in *source, stderr *bounded, err error) error {
	most := j.limits()
	var ended *exec.ExitError
	switch {
	case ctx.Err() != nil: // the caller has given up
		return fmt.Errorf("extract: %w", ctx.Err())
	case in.over:
		return Fault{TooLarge, fmt.Sprintf("the file has more than %d MiB", most.file>>20)}
	case in.err != nil:
		return fmt.Errorf("extract: the file could not be fetched: %w", in.err)
	case errors.As(err, &ended) && ended.ExitCode() == uncompiled:
		return fmt.Errorf("extract: %w: %s", errUncompiled, stderr.text())
	case errors.As(err, &ended) && ended.ExitCode() == 1:
		code, reason, _ := strings.Cut(stderr.text(), " ")
		return Fault{Code(code), reason}
	case limited.Err() == nil && ended == nil && !errors.Is(err, errWire):
		return fmt.Errorf("extract: %w", err)
	case j.Whole && limited.Err() != nil: // it got too little of a busy CPU, else its own limit had ended it
		return ErrBusy
	default: // the crash report of the runtime is too long to show
		return j.tooHard()
	}
}

// tooHard is the error of a file that has ended the child.
func (j job) tooHard() error {
	most := j.limits()
	return Fault{Unreadable, fmt.Sprintf("the %s needs more than %d MiB or %s to read, or stops its reader",
		j.Format, most.memory>>20, most.work)}
}

// source records the error of reading the file, which is not a fault of its content, and whether it is too large.
type source struct {
	from io.Reader
	left int64
	over bool
	err  error
}

func (s *source) Read(p []byte) (int, error) {
	n, err := s.from.Read(p)
	if s.left -= int64(n); s.left < 0 {
		s.over = true
		return 0, errors.New("the file is too large")
	}
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
