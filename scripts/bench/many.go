package main

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

var (
	many          = flag.Bool("many", false, "measure one process that has many of everything, and nothing else")
	organizations = flag.Int("organizations", 1000, "with -many: how many organizations there are")
	paused        = flag.Int("paused", 50_000, "with -many: how many runs wait for a human")
	open          = flag.Int("open", 10_000, "with -many: how many of them have an open stream")
)

// manyAtOnce measures what many organizations, runs that wait for a human, and open streams take of one process, and
// what a run takes beside them; then what a run of many steps takes for each.
func (s *server) manyAtOnce() error {
	if err := s.single("a run alone, of one client"); err != nil {
		return err
	}
	before, began := s.resident(), time.Now()
	tenants, err := s.tenants()
	if err != nil {
		return err
	}
	row(fmt.Sprintf("%d organizations with a key and an agent", len(tenants)), "made in %s, %.1f MB",
		time.Since(began).Round(time.Millisecond), float64(s.resident()-before)/1e6)
	if err := s.turns("runs of one of them", tenants[:1]); err != nil {
		return err
	}
	if err := s.turns("runs of all of them in turn", tenants); err != nil {
		return err
	}
	rest()
	before, began = s.resident(), time.Now()
	runs, err := pause(tenants)
	if err != nil {
		return err
	}
	row(fmt.Sprintf("%d runs that wait for a human", len(runs)), "%.0f/s until they wait, %.1f MB",
		float64(len(runs))/time.Since(began).Seconds(), float64(s.resident()-before)/1e6)
	if err := s.beside(tenants, "them"); err != nil {
		return err
	}
	streams, err := s.openStreams(runs[:min(*open, len(runs))])
	if err != nil {
		return err
	}
	if err := s.beside(tenants, "these and the streams"); err != nil {
		return err
	}
	if err := streams.follow(runs[0]); err != nil {
		return err
	}
	streams.close()
	return s.steps()
}

// turns measures runs of organizations in turn, after some that are not measured.
func (s *server) turns(what string, of []*server) error {
	const warm, measured = 10_000, 40_000
	if err := complete(warm, of...); err != nil {
		return err
	}
	used, began := s.processor(), time.Now()
	if err := complete(measured, of...); err != nil {
		return err
	}
	row(fmt.Sprintf("%s, %d clients", what, *clients), "%.0f/s, %.2f ms of processor each",
		measured/time.Since(began).Seconds(), 1e3*(s.processor()-used).Seconds()/measured)
	return nil
}

// beside measures the processor while nothing is asked for, and runs beside what there is.
func (s *server) beside(tenants []*server, what string) error {
	used := s.processor()
	<-time.After(10 * time.Second)
	row("the processor with "+what, "%.1f %% of one core", 100*(s.processor()-used).Seconds()/10)
	return tenants[len(tenants)-1].single("a run beside " + what + ", of one client")
}

// single measures runs of one client, one after the other.
func (s *server) single(what string) error {
	var all []time.Duration
	for range 500 {
		at := time.Now()
		if _, err := s.message("hello there"); err != nil {
			return err
		}
		all = append(all, time.Since(at))
	}
	row(what, "p50 %s, p99 %s", quantile(all, 0.5), quantile(all, 0.99))
	return nil
}

// message posts a message, waits until the run has ended or waits for a human, and returns its id.
func (s *server) message(text string) (string, error) {
	response, err := s.post(context.Background(), "message", text, "wait", "true")
	if err != nil {
		return "", err
	}
	defer func() { _ = response.Body.Close() }()
	raw, err := io.ReadAll(response.Body)
	if err != nil {
		return "", err
	}
	if response.StatusCode >= http.StatusMultipleChoices {
		return "", fmt.Errorf("a message was answered with %s: %.500s", response.Status, raw)
	}
	var answer struct {
		RunID string `json:"run_id"`
	}
	return answer.RunID, json.Unmarshal(raw, &answer)
}

// tenants makes organizations, and gives each as the server that its administrator sees.
func (s *server) tenants() (list []*server, err error) {
	for n := range *organizations {
		var made struct {
			ID string `json:"organization_id"`
		}
		err = s.send(http.MethodPost, "/organizations", "application/json", strings.NewReader(
			fmt.Sprintf(`{"name":"organization %d"}`, n)), &made)
		if err != nil {
			return nil, err
		}
		t := *s
		t.acting = made.ID
		var user struct {
			ID string `json:"user_id"`
		}
		err = t.send(http.MethodPost, "/users", "application/json", strings.NewReader(
			`{"name":"u","email":"u@example.com","role":"admin"}`), &user)
		if err != nil {
			return nil, err
		}
		var key struct {
			Key string `json:"key"`
		}
		err = t.send(http.MethodPost, "/api-keys", "application/json", strings.NewReader(
			fmt.Sprintf(`{"name":"k","level":"admin","user_id":%q}`, user.ID)), &key)
		if err != nil {
			return nil, err
		}
		t.key, t.acting = key.Key, ""
		var agent struct {
			ID string `json:"agent_id"`
		}
		err = t.send(http.MethodPost, "/agents", "application/json", strings.NewReader(
			`{"name":"a","model":{"provider":"demo","name":"demo"},"limits":{"max_steps":1000}}`), &agent)
		if err != nil {
			return nil, err
		}
		t.agent = agent.ID
		list = append(list, &t)
	}
	return list, nil
}

// held is a run that waits, and whose it is.
type held struct {
	tenant *server
	id     string
}

// pause begins runs that wait for a human, of all organizations in turn.
func pause(tenants []*server) (runs []held, err error) {
	runs = make([]held, *paused)
	var next atomic.Int64
	var failed atomic.Pointer[error]
	var wg sync.WaitGroup
	for range *clients {
		wg.Go(func() {
			for failed.Load() == nil {
				n := int(next.Add(1)) - 1
				if n >= len(runs) {
					return
				}
				t := tenants[n%len(tenants)]
				id, err := t.message("/ask Which?")
				if err != nil {
					failed.Store(&err)
					return
				}
				runs[n] = held{t, id}
			}
		})
	}
	wg.Wait()
	if e := failed.Load(); e != nil {
		return nil, *e
	}
	return runs, nil
}

// opened are connections with a stream on each.
type opened []net.Conn

func (o opened) close() {
	for _, c := range o {
		_ = c.Close()
	}
}

// openStreams opens a stream of each run, and measures the memory of them.
func (s *server) openStreams(runs []held) (opened, error) {
	host := strings.TrimPrefix(strings.TrimSuffix(s.url, "/api/v1"), "http://")
	rest()
	before, began := s.resident(), time.Now()
	var list opened
	for _, r := range runs {
		c, err := net.Dial("tcp", host)
		if err != nil {
			return nil, err
		}
		list = append(list, c)
		_, err = fmt.Fprintf(c, "GET /api/v1/runs/%s/stream HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\n\r\n",
			r.id, r.tenant.key)
		if err != nil {
			return nil, err
		}
		status, err := bufio.NewReader(c).ReadString('\n')
		if err != nil || !strings.Contains(status, "200") {
			return nil, fmt.Errorf("a stream was answered with %q: %w", status, err)
		}
	}
	took := time.Since(began)
	rest()
	row(fmt.Sprintf("%d open streams, of a run each", len(list)), "opened in %s, %.1f KB each",
		took.Round(time.Millisecond), float64(s.resident()-before)/1024/float64(len(list)))
	return list, nil
}

// follow answers what the first run asks, and waits for its end on its stream.
func (o opened) follow(r held) error {
	var run struct {
		Interrupts []struct {
			ID string `json:"id"`
		} `json:"interrupts"`
	}
	if err := r.tenant.send(http.MethodGet, "/runs/"+r.id, "", nil, &run); err != nil {
		return err
	}
	if len(run.Interrupts) != 1 {
		return fmt.Errorf("run %s asks for %d things", r.id, len(run.Interrupts))
	}
	if err := o[0].SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
		return err
	}
	at := time.Now()
	err := r.tenant.send(http.MethodPost, "/runs/"+r.id+"/resume", "application/json", strings.NewReader(fmt.Sprintf(
		`{"decisions":[{"interrupt_id":%q,"decision":"answer","message":"this"}]}`, run.Interrupts[0].ID)), nil)
	if err != nil {
		return err
	}
	lines := bufio.NewScanner(o[0])
	for lines.Scan() {
		if strings.Contains(lines.Text(), "completed") {
			row("a decision until the end of the run is on its stream", "%s", time.Since(at).Round(10*time.Microsecond))
			return nil
		}
	}
	return fmt.Errorf("the stream of run %s has no end: %w", r.id, lines.Err())
}

// steps measures the processor's time of runs of many steps, for each step.
func (s *server) steps() error {
	t := *s
	var agent struct {
		ID string `json:"agent_id"`
	}
	err := t.send(http.MethodPost, "/agents", "application/json", strings.NewReader(
		`{"name":"a","model":{"provider":"demo","name":"demo"},"limits":{"max_steps":1000}}`), &agent)
	if err != nil {
		return err
	}
	t.agent = agent.ID
	for _, calls := range []int{5, 50, 250, 495} {
		var text strings.Builder
		for n := range calls { // a tool's call and a pause of no time, so that the model is called between two
			fmt.Fprintf(&text, "/tool calculate {\"expression\":\"6*%d\"}\n/sleep 0ms\n", n)
		}
		used, began := s.processor(), time.Now()
		repeated := max(1, 500/calls)
		for range repeated {
			if _, err := t.message(text.String()); err != nil {
				return err
			}
		}
		steps := float64(2 * calls * repeated) // the model's, and the tool's
		row(fmt.Sprintf("a run of %d steps, for each", 2*calls), "%.2f ms, %.2f ms of processor",
			1e3*time.Since(began).Seconds()/steps, 1e3*(s.processor()-used).Seconds()/steps)
	}
	return nil
}

// processor is the time that the process has had of it.
func (s *server) processor() time.Duration {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", s.command.Process.Pid))
	if err != nil {
		return 0
	}
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	var ticks int64
	for _, f := range fields[11:13] { // of its own and of the kernel, in hundredths of a second
		n, _ := strconv.ParseInt(f, 10, 64)
		ticks += n
	}
	return time.Duration(ticks) * 10 * time.Millisecond
}
