// Command bench measures the real process over HTTP with durable writes, on this machine, including the load
// generator.
//
// It builds the program, starts it with a new data folder and prints a table: runs accepted and runs completed per
// second with 64 clients, time from POST to the first streamed event on an idle system, memory when idle, the
// size of the binary, and the time from start to serving. With -documents it measures how long documents take until
// they are found; with -many, what many organizations, waiting runs and streams take of one process; with -runs, a
// store that has so many.
package main

import (
	"bufio"
	"bytes"
	"context"
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
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

var (
	seconds   = flag.Duration("for", 8*time.Second, "how long each load lasts")
	clients   = flag.Int("clients", 64, "how many clients a load has")
	documents = flag.Bool("documents", false, "measure how fast documents are ingested, and nothing else")
	profile   = flag.String("profile", "", "write a CPU profile of the completed-runs load to this file")
)

func main() {
	flag.Parse()
	log.SetFlags(0)
	if err := run(); err != nil {
		log.Fatal(err)
	}
}

type server struct {
	command *exec.Cmd
	url     string
	key     string
	acting  string // the operator does, in this organization
	agent   string
	served  time.Duration
	client  *http.Client
}

var greeting = regexp.MustCompile(`Agent Platform at (\S+)`)

func run() error {
	dir, err := os.MkdirTemp("", "bench")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	binary := filepath.Join(dir, "local")
	build := exec.Command("go", "build", "-trimpath", "-tags", "pebblegozstd", "-ldflags", "-s -w", "-o", binary,
		"./functions/local") // as make build builds it
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	build.Stderr = os.Stderr
	if err := build.Run(); err != nil {
		return err
	}
	info, err := os.Stat(binary)
	if err != nil {
		return err
	}
	row("binary", "%.1f MB", float64(info.Size())/1e6)

	s, err := start(binary, filepath.Join(dir, "data"))
	if err != nil {
		return err
	}
	defer func() {
		_ = s.command.Process.Signal(os.Interrupt)
		_ = s.command.Wait()
	}()
	row("start to serving, first start", "%s", s.served.Round(time.Millisecond))
	rest()
	row("memory, idle", "%.1f MB resident, %.1f MB of it its own, the rest pages of the program",
		float64(s.resident())/1e6, float64(s.own())/1e6)
	if *documents {
		return s.ingest()
	}
	if *many {
		return s.manyAtOnce()
	}
	if *runs > 0 {
		return s.fill(binary, filepath.Join(dir, "data"))
	}
	s.firstEvent()
	s.load("accepted runs (wait=false)", "false")
	if *profile != "" {
		go s.profile(*profile)
	}
	s.load("completed and billed runs (wait=true)", "true")
	return nil
}

// rest waits until a process with nothing to do has given back what memory it does not need, which it does not before
// the compactions of a load have ended.
func rest() { <-time.After(12 * time.Second) }

func row(what, format string, args ...any) {
	fmt.Printf("%-40s %s\n", what, fmt.Sprintf(format, args...))
}

func start(binary, data string) (*server, error) {
	s := &server{command: exec.Command(binary),
		client: &http.Client{Transport: &http.Transport{MaxIdleConns: 10_000, MaxIdleConnsPerHost: 10_000}}}
	s.command.Env = append(os.Environ(), "ADDR=127.0.0.1:0", "DATA_DIR="+data, "USER_CAP=1000000",
		"ORGANIZATION_CAP=1000000",
		"RATE_LIMIT=10000000", "RATE_BURST=10000000", "LOG_LEVEL=error", "PPROF=true")
	out, err := s.command.StdoutPipe()
	if err != nil {
		return nil, err
	}
	s.command.Stderr = os.Stderr
	began := time.Now()
	if err := s.command.Start(); err != nil {
		return nil, err
	}
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
	response, err := s.client.Get(s.url + "/healthz")
	if err != nil {
		return nil, err
	}
	_ = response.Body.Close()
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
	r, _ := http.NewRequest(http.MethodGet, s.url+"/agents", nil)
	r.Header.Set("Authorization", "Bearer "+s.key)
	if response, err = s.client.Do(r); err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }()
	if err := json.NewDecoder(response.Body).Decode(&list); err != nil {
		return nil, err
	}
	s.agent = list.Agents[0].ID
	return s, nil
}

func (s *server) post(ctx context.Context, pairs ...string) (*http.Response, error) {
	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	_ = w.WriteField("agent_id", s.agent)
	for i := 0; i+1 < len(pairs); i += 2 {
		_ = w.WriteField(pairs[i], pairs[i+1])
	}
	_ = w.Close()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url+"/chat", &b)
	if err != nil {
		return nil, err
	}
	r.Header.Set("Authorization", "Bearer "+s.key)
	r.Header.Set("Content-Type", w.FormDataContentType())
	return s.client.Do(r)
}

// load posts messages from many clients for a while; each waits for its response before the next.
func (s *server) load(what, wait string) {
	ctx, cancel := context.WithTimeout(context.Background(), *seconds) // each load has its own time limit
	defer cancel()
	var mu sync.Mutex
	var all []time.Duration
	var bad atomic.Int64
	var wg sync.WaitGroup
	began := time.Now()
	for range *clients {
		wg.Go(func() {
			var mine []time.Duration
			for ctx.Err() == nil {
				at := time.Now()
				response, err := s.post(context.Background(), "message", "hello there", "wait", wait)
				if err != nil {
					bad.Add(1)
					continue
				}
				_, _ = io.Copy(io.Discard, response.Body)
				_ = response.Body.Close()
				if response.StatusCode >= 300 || (wait == "true" && response.StatusCode != http.StatusOK) {
					bad.Add(1)
					continue
				}
				mine = append(mine, time.Since(at))
			}
			mu.Lock()
			defer mu.Unlock()
			all = append(all, mine...)
		})
	}
	wg.Wait()
	took := time.Since(began)
	row(what, "%.0f/s at %d clients, p50 %s, p99 %s, %d errors", float64(len(all))/took.Seconds(), *clients,
		quantile(all, 0.5), quantile(all, 0.99), bad.Load())
}

func quantile(d []time.Duration, q float64) time.Duration {
	if len(d) == 0 {
		return 0
	}
	slices.Sort(d)
	return d[min(len(d)-1, int(q*float64(len(d))))].Round(10 * time.Microsecond)
}

// firstEvent measures the time from POST to the first line of NDJSON, with one client on an idle system.
func (s *server) firstEvent() {
	var all []time.Duration
	for range 500 {
		at := time.Now()
		response, err := s.post(context.Background(), "message", "hello", "streaming", "true")
		if err != nil {
			log.Fatal(err)
		}
		lines := bufio.NewReader(response.Body)
		if _, err := lines.ReadString('\n'); err != nil {
			log.Fatal(err)
		}
		all = append(all, time.Since(at))
		_, _ = io.Copy(io.Discard, lines)
		_ = response.Body.Close()
	}
	row("POST to first streamed event, idle", "p50 %s, p99 %s", quantile(all, 0.5), quantile(all, 0.99))
}

// resident is the process's resident memory; own is the part that is not backed by files.
func (s *server) resident() int64 { return s.memory("VmRSS:") }
func (s *server) own() int64      { return s.memory("RssAnon:") }

func (s *server) memory(kind string) int64 {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.command.Process.Pid))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(status)) {
		if rest, ok := strings.CutPrefix(line, kind); ok {
			kb, _ := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
			return kb << 10
		}
	}
	return 0
}

func (s *server) profile(file string) {
	u := strings.TrimSuffix(s.url, "/api/v1") + fmt.Sprintf("/debug/pprof/profile?seconds=%d", int(seconds.Seconds())-1)
	r, _ := http.NewRequest(http.MethodGet, u, nil)
	r.Header.Set("Authorization", "Bearer "+s.key)
	response, err := s.client.Do(r)
	if err != nil {
		log.Print(err)
		return
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		log.Print("the profile: ", response.Status)
		return
	}
	f, err := os.Create(file)
	if err != nil {
		log.Print(err)
		return
	}
	defer func() { _ = f.Close() }()
	_, _ = io.Copy(f, response.Body)
}
