package mcptool

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"agentplatform/internal/ai/tool"
)

// program is a server that runs on this machine, in a process group of its own.
type program struct {
	command *exec.Cmd
	in      io.WriteCloser
	out     *os.File
	answers *io.PipeReader // its messages
	drained chan struct{}  // closed once all that it wrote is read
	other   ends           // its stderr, and lines of its stdout besides messages
	split   atomic.Bool    // a message of it was over several lines
	ended   chan struct{}  // closed once it has ended
	once    sync.Once
}

// start starts a program, which is killed when over is done. Its error is that of the operating system.
func start(over context.Context, words []string, b *bounds) (*program, error) {
	p := &program{command: exec.CommandContext(over, words[0], words[1:]...), ended: make(chan struct{}),
		drained: make(chan struct{})}
	p.command.Cancel = func() error {
		signalGroup(p.command.Process, syscall.SIGKILL)
		return nil
	}
	p.command.Env, p.command.Stderr, p.command.WaitDelay = environ(), &p.other, closeTime
	p.command.SysProcAttr = ownGroup()
	var err error
	if p.in, err = p.command.StdinPipe(); err != nil {
		return nil, err
	}
	out, written, err := os.Pipe() // not the command's own: its Wait would close it before all is read
	if err != nil {
		return nil, err
	}
	p.out, p.command.Stdout = out, written
	err = p.command.Start()
	_ = written.Close()
	if err != nil {
		_ = out.Close()
		return nil, err
	}
	var messages *io.PipeWriter
	p.answers, messages = io.Pipe()
	go p.read(&bounded{ReadCloser: out, bounds: b}, messages)
	go func() {
		defer close(p.ended)
		_ = p.command.Wait()
	}()
	return p, nil
}

// end ends the program, once: by the end of its input, else by SIGTERM, else by SIGKILL. No process of its group
// remains.
func (p *program) end() { p.once.Do(p.stop) }

func (p *program) stop() {
	_ = p.in.Close()
	for _, s := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		if within(p.ended, closeTime) {
			break
		}
		signalGroup(p.command.Process, s)
	}
	<-p.ended // it was killed; WaitDelay bounds what it has left behind
	signalGroup(p.command.Process, syscall.SIGKILL)
	_ = p.answers.Close()
	_ = p.out.Close()
	<-p.drained
}

// within waits for an end, but not longer than a while.
func within(end <-chan struct{}, while time.Duration) bool {
	timer := time.NewTimer(while)
	defer timer.Stop()
	select {
	case <-end:
		return true
	case <-timer.C:
		return false
	}
}

// failure describes a failed program: how it ended, and its output besides messages.
func (p *program) failure(err error, late bool) error {
	text := err.Error() // the library wraps no error of the pipe, and quotes messages
	broke := strings.Contains(text, "EOF") || strings.Contains(text, "pipe") || strings.Contains(text, "closed")
	what := "the server's program wrote output that is not MCP: " + tool.Clip(withoutAddresses(text), halfText)
	switch {
	case late:
		what = "the server did not respond in time"
	case broke && within(p.ended, closeTime):
		within(p.drained, closeTime)
		what = fmt.Sprintf("the server's program has ended (%s)", p.command.ProcessState)
	}
	if p.split.Load() {
		what += ": it wrote a message over several lines; a message must be one line"
	} else if last := p.other.String(); last != "" {
		what += ": " + last
	}
	return tool.Fail("%s", what)
}

// partOfMessage matches a line that shows a message spread over several lines.
var partOfMessage = regexp.MustCompile(`^\s*\{?\s*"jsonrpc"\s*:`)

// read passes on a program's messages, which are lines. Many programs write lines of a log between them.
func (p *program) read(out io.Reader, messages *io.PipeWriter) {
	defer close(p.drained)
	for lines := bufio.NewReader(out); ; {
		line, err := lines.ReadBytes('\n')
		line = bytes.TrimPrefix(line, []byte("\xef\xbb\xbf"))
		if json.Valid(line) && bytes.Contains(line, []byte(`"jsonrpc"`)) {
			_, _ = messages.Write(line) // it fails where nobody reads them any more
		} else {
			p.split.CompareAndSwap(false, err == nil && partOfMessage.Match(line))
			_, _ = p.other.Write(line)
		}
		if err != nil {
			_ = messages.CloseWithError(err)
			return
		}
	}
}

// ends keeps the beginning and the end of a text that is written to it.
type ends struct {
	mu           sync.Mutex
	begins, last []byte
	cut          bool // something between them is lost
}

// halfText is the limit of each.
const halfText = tool.EnoughText / 2

func (e *ends) Write(b []byte) (int, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	first := min(len(b), halfText-len(e.begins))
	e.begins, e.last = append(e.begins, b[:first]...), append(e.last, b[max(first, len(b)-halfText):]...)
	over := max(0, len(e.last)-halfText)
	e.last = append(e.last[:0], e.last[over:]...)
	e.cut = e.cut || over > 0 || len(b) > first+halfText
	return len(b), nil
}

// String returns the text in valid UTF-8, without addresses. Where the text was cut, a part of an address or of a
// credential cannot be recognized. There, String leaves out the line on each side of the cut, or the word where there
// is no line end.
func (e *ends) String() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	text := string(e.begins) + string(e.last)
	if e.cut {
		begins, last := strings.TrimSpace(string(e.begins)), strings.TrimSpace(string(e.last))+" "
		text = begins[:1+parting(begins, strings.LastIndexAny)] + "…" + last[parting(last, strings.IndexAny):]
	}
	return withoutAddresses(strings.TrimSpace(strings.ToValidUTF8(text, "\uFFFD")))
}

// parting is where a text has the end of a line, else white space; -1: nowhere.
func parting(text string, at func(s, chars string) int) int {
	if n := at(text, "\n"); n >= 0 {
		return n
	}
	return at(text, " \t\f\r")
}

// environ is the environment of a server program: where to find programs and its home folder, and no secrets.
func environ() (list []string) {
	for _, name := range []string{"PATH", "HOME", "TMPDIR", "LANG"} {
		if v, there := os.LookupEnv(name); there {
			list = append(list, name+"="+v)
		}
	}
	return list
}
