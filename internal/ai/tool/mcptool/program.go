package mcptool

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"

	"agentplatform/internal/ai/tool"
)

// program is a server that runs on this machine, in a process group of its own.
type program struct {
	command *exec.Cmd
	in      io.WriteCloser
	out     *os.File
	stderr  tail          // what it writes to stderr
	ended   chan struct{} // closed once it has ended
	once    sync.Once
}

// start starts a program, which is killed when over is done. Its failure is that of the operating system.
func start(over context.Context, words []string) (*program, error) {
	p := &program{command: exec.CommandContext(over, words[0], words[1:]...), ended: make(chan struct{})}
	p.command.Cancel = func() error {
		signalGroup(p.command.Process, syscall.SIGKILL)
		return nil
	}
	p.command.Env, p.command.Stderr, p.command.WaitDelay = environ(), &p.stderr, closeTime
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
	go func() {
		defer close(p.ended)
		_ = p.command.Wait()
	}()
	return p, nil
}

// end ends the program, once: by the end of its input, else by SIGTERM, else by SIGKILL. Nothing that it started in its
// group remains.
func (p *program) end() { p.once.Do(p.stop) }

func (p *program) stop() {
	_ = p.in.Close()
	for _, s := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		if p.over(closeTime) {
			break
		}
		signalGroup(p.command.Process, s)
	}
	<-p.ended // it was killed; WaitDelay bounds what it has left behind
	signalGroup(p.command.Process, syscall.SIGKILL)
	_ = p.out.Close()
}

// over waits for the program's end, but not longer than a while.
func (p *program) over(while time.Duration) bool {
	timer := time.NewTimer(while)
	defer timer.Stop()
	select {
	case <-p.ended:
		return true
	case <-timer.C:
		return false
	}
}

// failure is what is known of a program that failed: how it ended, and the last that it wrote to stderr.
func (p *program) failure(err error, late bool) error {
	what := "the server's program wrote what is not MCP: " + err.Error()
	text := err.Error() // the library wraps no error of the pipe
	switch broke := strings.Contains(text, "EOF") || strings.Contains(text, "pipe"); {
	case late:
		what = "the server did not answer in time"
	case broke && p.over(closeTime):
		what = fmt.Sprintf("the server's program has ended (%s)", p.command.ProcessState)
	}
	if last := p.stderr.String(); last != "" {
		what += ": " + last
	}
	return tool.Fail("%s", what)
}

// tail keeps the end of what is written to it.
type tail struct {
	mu   sync.Mutex
	text []byte
	cut  bool
}

func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, b[max(0, len(b)-tool.EnoughText):]...)
	over := len(t.text) - tool.EnoughText
	if over > 0 {
		t.text = append(t.text[:0], t.text[over:]...)
	}
	t.cut = t.cut || over > 0 || len(b) > tool.EnoughText
	return len(b), nil
}

// String is the text from its first whole line on, without addresses.
func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	text := strings.ToValidUTF8(string(t.text), "\uFFFD")
	if t.cut {
		if _, rest, whole := strings.Cut(text, "\n"); whole {
			text = rest
		}
		text = "… " + text
	}
	return withoutAddresses(strings.TrimSpace(text))
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
