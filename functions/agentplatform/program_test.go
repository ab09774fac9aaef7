package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// program is the process under test.
type program struct {
	t           *testing.T
	binary, dir string
	command     *exec.Cmd
	url, key    string
	environ     []string  // on top of its own
	log         io.Writer // nil: the test's own
}

// binaries are the programs that tests have built, by their build flags: a link takes seconds.
var binaries = struct {
	sync.Mutex
	dir   string
	built map[string]string
}{built: map[string]string{}}

// stamp is the version in the programs of tests, set as in a release: TestTheProgramSaysWhichBuildItIs.
const stamp = "-s -w -X agentplatform/internal/platform/version.Version=v1.2.3 " +
	"-X agentplatform/internal/platform/version.Commit=0123abc"

// TestMain removes the programs that tests have built.
func TestMain(m *testing.M) {
	code := m.Run()
	_ = os.RemoveAll(binaries.dir) // of none, nothing
	os.Exit(code)
}

// built is the program, built with these flags. It has the race detector if the tests have it, so that a data race of
// the process fails them, and nothing is compiled twice.
func built(t *testing.T, flags ...string) *program {
	t.Helper()
	binaries.Lock()
	defer binaries.Unlock()
	if info, ok := debug.ReadBuildInfo(); ok &&
		slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"}) {
		flags = append(flags, "-race")
	}
	name := strings.Join(flags, " ")
	if binaries.built[name] == "" {
		if binaries.dir == "" {
			dir, err := os.MkdirTemp("", "local")
			require.NoError(t, err)
			binaries.dir = dir
		}
		binary := filepath.Join(binaries.dir, fmt.Sprint("local", len(binaries.built)))
		// The tag is the Makefile's. The data for debuggers takes half of the time of a link.
		build := slices.Concat([]string{"build", "-tags", "pebblegozstd", "-ldflags", stamp, "-o", binary}, flags,
			[]string{"."})
		command := exec.Command("go", build...)
		if !slices.Contains(flags, "-race") {
			command.Env = append(os.Environ(), "CGO_ENABLED=0") // as it is released; the race detector needs C
		}
		out, err := command.CombinedOutput()
		require.NoError(t, err, string(out))
		binaries.built[name] = binary
	}
	return &program{t: t, binary: binaries.built[name], dir: t.TempDir()}
}

// trusting is the setting that makes the program trust the certificate of a test's server.
func trusting(t *testing.T, server *httptest.Server) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "ca.pem")
	block := pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}
	require.NoError(t, os.WriteFile(file, pem.EncodeToMemory(&block), 0o600))
	return "WEBHOOK_CA_FILE=" + file
}

var greeting = regexp.MustCompile(`Agent Platform at (\S+)`)

func (p *program) start() {
	p.command = exec.Command(p.binary)
	p.command.Env = append(os.Environ(), "ADDR=127.0.0.1:0", "DATA_DIR="+p.dir, "USER_CAP=100000",
		"ORGANIZATION_CAP=100000", "RATE_LIMIT=10000000", "RATE_BURST=1000000", "LEASE=2s", "LOG_LEVEL=error")
	p.command.Env = append(p.command.Env, p.environ...)
	out, err := p.command.StdoutPipe()
	require.NoError(p.t, err)
	p.command.Stderr = os.Stderr
	if p.log != nil {
		p.command.Stderr = p.log
	}
	require.NoError(p.t, p.command.Start())
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if m := greeting.FindStringSubmatch(lines.Text()); m != nil {
			p.url = m[1]
			break
		}
	}
	require.NotEmpty(p.t, p.url)
	go func() { _, _ = io.Copy(io.Discard, out) }()
	key, err := os.ReadFile(filepath.Join(p.dir, "operator.key"))
	require.NoError(p.t, err)
	p.key = strings.TrimSpace(string(key))
}

func (p *program) kill() {
	require.NoError(p.t, p.command.Process.Kill())
	_ = p.command.Wait()
}

// stop ends the process as an operator would.
func (p *program) stop() {
	began := time.Now()
	require.NoError(p.t, p.command.Process.Signal(os.Interrupt))
	require.NoError(p.t, p.command.Wait())
	assert.Less(p.t, time.Since(began), time.Minute, "it waits some seconds for model calls, and for nothing else")
}

func (p *program) call(
	ctx context.Context, method, path, contentType string, body io.Reader,
) (int, map[string]any, error) {
	r, err := http.NewRequestWithContext(ctx, method, p.url+path, body)
	if err != nil {
		return 0, nil, err
	}
	r.Header.Set("Authorization", "Bearer "+p.key)
	if contentType != "" {
		r.Header.Set("Content-Type", contentType)
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0, nil, err
	}
	defer func() { _ = response.Body.Close() }()
	var v map[string]any
	raw, err := io.ReadAll(response.Body)
	if err != nil {
		return 0, nil, err
	}
	return response.StatusCode, v, json.Unmarshal(raw, &v)
}

// post sends a message.
func (p *program) post(ctx context.Context, pairs ...string) (int, map[string]any, error) {
	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	for i := 0; i+1 < len(pairs); i += 2 {
		_ = w.WriteField(pairs[i], pairs[i+1])
	}
	_ = w.Close()
	return p.call(ctx, "POST", "/chat", w.FormDataContentType(), &b)
}

// make makes a resource. The request must succeed.
func (p *program) make(path, body string) map[string]any {
	status, made, err := p.call(p.t.Context(), "POST", path, "application/json", strings.NewReader(body))
	assert.NoError(p.t, err)
	assert.Less(p.t, status, 300, "%s: %v", path, made)
	return made
}

// organization makes an organization with a cap. It returns a client for its administrator, and one of its agents.
func (p *program) organization(limit int) (theirs *program, agent string) {
	home := p.make("/organizations", fmt.Sprintf(`{"name":"o","caps":{"user":%d,"organization":%d}}`,
		limit, limit))["organization_id"]
	user := p.make("/users", fmt.Sprintf(`{"email":"a@example.com","role":"admin","organization_id":%q}`,
		home))["user_id"]
	key := p.make("/api-keys", fmt.Sprintf(`{"name":"k","user_id":%q,"level":"admin","organization_id":%q}`,
		user, home))["key"]
	theirs = &program{t: p.t, url: p.url, key: fmt.Sprint(key)}
	return theirs, fmt.Sprint(theirs.make("/agents", `{"name":"a"}`)["agent_id"])
}

// maker makes an agent of the model m at OpenAI's address, with a tool at an address.
func (p *program) maker(address, approval string) string {
	toolkit := p.make("/toolkits", fmt.Sprintf(`{"kind":"http","name":"t","url":%q,
		"request":{"name":"act","method":"POST","body":"body",
		"parameters":{"type":"object","properties":{"body":{}}}}}`, address))["toolkit_id"]
	status, answer, err := p.call(p.t.Context(), http.MethodPatch, fmt.Sprint("/toolkits/", toolkit, "/tools/act"),
		"application/json", strings.NewReader(`{"approval":"never"}`))
	require.NoError(p.t, err)
	require.Equal(p.t, http.StatusOK, status, answer)
	return fmt.Sprint(p.make("/agents", fmt.Sprintf(`{"name":"a","skip_check":true,
		"model":{"provider":"openai","name":"m"},"toolkit_ids":[%q],
		"approval":{"mode":%q}}`, toolkit, approval))["agent_id"])
}
