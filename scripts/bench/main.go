// Command bench measures the real process over HTTP, with durable writes, on this machine. The clients run on the same
// machine.
//
// It builds the program and starts it with a new data folder. It prints a row for each figure: the idle process,
// streams, runs, a start after kill -9, documents and searches. Memory and processor time come from /proc; outside of
// Linux they are 0. With -sizes it measures large documents and the turns of knowledge bases instead.
package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log"
	"mime/multipart"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"time"

	"github.com/prometheus/procfs"
)

var (
	runs      = flag.Int("runs", 100_000, "how many runs are completed in one store")
	clients   = flag.Int("clients", 64, "how many clients complete them")
	streams   = flag.Int("streams", 1000, "how many streams are open together")
	documents = flag.Int("documents", 10_000, "how many small documents are ingested")
	ofSizes   = flag.Bool("sizes", false, "measure large and many documents and the turns of bases; or named files")
	program   = flag.String("program", "", "the program to measure; empty: it is built")
)

func main() {
	flag.Parse()
	log.SetFlags(0)
	if err := run(); err != nil {
		log.Fatal(err)
	}
}

func run() error {
	dir, err := os.MkdirTemp("", "bench")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	binary, data := filepath.Join(dir, "agentplatform"), filepath.Join(dir, "data")
	build := exec.Command("go", "build", "-trimpath", "-tags", "pebblegozstd", "-ldflags", "-s -w", "-o", binary,
		"./functions/agentplatform") // as make build builds it
	build.Env, build.Stderr = append(os.Environ(), "CGO_ENABLED=0"), os.Stderr
	if *program != "" {
		binary = *program
	} else if err := build.Run(); err != nil {
		return err
	}
	if *ofSizes {
		return sizes(binary, dir, flag.Args())
	}
	s, err := start(binary, data)
	if err != nil {
		return err
	}
	defer func() { s.stop(os.Interrupt) }() // the one that runs then
	row("start to serving, first start", "%s", s.served.Round(time.Millisecond))
	rest()
	row("memory, idle", "%s", s.memory())
	if err := s.firstEvent(); err != nil {
		return err
	}
	if err := s.fill(); err != nil {
		return err
	}
	row("the store", "%.1f MB on disk", float64(sizeOf(data))/1e6)
	s.stop(syscall.SIGKILL)
	again, err := start(binary, data)
	if err != nil {
		return err
	}
	s = again
	row("start to serving, after kill -9", "%s", s.served.Round(time.Millisecond))
	if err := s.documents(); err != nil {
		return err
	}
	s.stop(os.Interrupt)
	fresh, err := start(binary, filepath.Join(dir, "streams")) // runs that wait would slow other runs of their user
	if err != nil {
		return err
	}
	s = fresh
	return s.openStreams()
}

// rest waits 10 seconds for the work after a load, and for the garbage collector.
func rest() { <-time.After(10 * time.Second) }

func row(what, format string, args ...any) {
	fmt.Printf("%-45s %s\n", what, fmt.Sprintf(format, args...))
}

// server is a process that serves.
type server struct {
	command *exec.Cmd
	data    string
	url     string
	key     string
	agent   string
	served  time.Duration // from its start to its first answer
	client  *http.Client
}

var greeting = regexp.MustCompile(`Agent Platform at (\S+)`)

// start starts the program with caps and limits that no load reaches, and waits until it answers.
func start(binary, data string) (_ *server, err error) {
	s := &server{command: exec.Command(binary), data: data, client: &http.Client{Timeout: time.Minute,
		Transport: &http.Transport{MaxIdleConns: 10_000, MaxIdleConnsPerHost: 10_000}}}
	s.command.Env = append(os.Environ(), "ADDR=127.0.0.1:0", "DATA_DIR="+data, "USER_CAP=1000000",
		"ORGANIZATION_CAP=1000000", "RATE_LIMIT=10000000", "RATE_BURST=10000000", "LOG_LEVEL=error")
	s.command.Stderr = os.Stderr
	out, err := s.command.StdoutPipe()
	if err != nil {
		return nil, err
	}
	began := time.Now()
	if err := s.command.Start(); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			s.stop(syscall.SIGKILL)
		}
	}()
	lines := bufio.NewScanner(out)
	for s.url == "" && lines.Scan() {
		if m := greeting.FindStringSubmatch(lines.Text()); m != nil {
			s.url = m[1]
		}
	}
	if s.url == "" {
		return nil, fmt.Errorf("the program did not start")
	}
	go func() { _, _ = io.Copy(io.Discard, out) }()
	if err := s.send(http.MethodGet, "/healthz", "", nil, nil); err != nil {
		return nil, err
	}
	s.served = time.Since(began)
	key, err := os.ReadFile(filepath.Join(data, "operator.key"))
	if err != nil {
		return nil, err
	}
	s.key = strings.TrimSpace(string(key))
	var list struct {
		Agents []struct {
			ID string `json:"agent_id"`
		} `json:"agents"`
	}
	if err := s.send(http.MethodGet, "/agents", "", nil, &list); err != nil {
		return nil, err
	}
	if len(list.Agents) == 0 {
		return nil, fmt.Errorf("there is no agent")
	}
	s.agent = list.Agents[0].ID
	return s, nil
}

func (s *server) stop(signal os.Signal) {
	_ = s.command.Process.Signal(signal)
	_ = s.command.Wait()
}

// do sends a request, and returns its response if it succeeded.
func (s *server) do(method, path, kind string, body io.Reader) (*http.Response, error) {
	r, err := http.NewRequest(method, s.url+path, body)
	if err != nil {
		return nil, err
	}
	if s.key != "" {
		r.Header.Set("Authorization", "Bearer "+s.key)
	}
	if kind != "" {
		r.Header.Set("Content-Type", kind)
	}
	response, err := s.client.Do(r)
	if err != nil || response.StatusCode < http.StatusMultipleChoices {
		return response, err
	}
	defer func() { _ = response.Body.Close() }()
	answer, err := io.ReadAll(io.LimitReader(response.Body, 500))
	return nil, fmt.Errorf("%s %s: %s %s %w", method, path, response.Status, answer, err)
}

// send sends a request that must succeed, and decodes its response into into, unless that is nil.
func (s *server) send(method, path, kind string, body io.Reader, into any) error {
	response, err := s.do(method, path, kind, body)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	answer, err := io.ReadAll(response.Body)
	if err != nil || into == nil {
		return err
	}
	return json.Unmarshal(answer, into)
}

// chat posts a message, with further fields of the form.
func (s *server) chat(message string, fields ...string) (*http.Response, error) {
	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	fields = append(fields, "agent_id", s.agent, "message", message)
	for i := 0; i < len(fields); i += 2 {
		_ = w.WriteField(fields[i], fields[i+1])
	}
	_ = w.Close()
	return s.do(http.MethodPost, "/chat", w.FormDataContentType(), &b)
}

// stat returns the /proc entry of the process. It is empty where there is no /proc.
func (s *server) stat() (stat procfs.ProcStat) {
	if p, err := procfs.NewProc(s.command.Process.Pid); err == nil {
		stat, _ = p.Stat()
	}
	return stat
}

// memory returns the resident memory of the process.
func (s *server) memory() string {
	return fmt.Sprintf("%.0f MB resident", float64(s.stat().ResidentMemory())/1e6)
}

// sizeOf returns the size of all files below a folder, in bytes.
func sizeOf(folder string) (size int64) {
	_ = filepath.WalkDir(folder, func(_ string, e os.DirEntry, err error) error {
		if err != nil {
			return nil //nolint:nilerr // files come and go
		}
		if info, err := e.Info(); err == nil && info.Mode().IsRegular() {
			size += info.Size()
		}
		return nil
	})
	return size
}
