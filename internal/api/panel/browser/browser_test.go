//go:build browser

package browser

import (
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
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/accessibility"
	"github.com/chromedp/cdproto/cdp"
	cdplog "github.com/chromedp/cdproto/log"
	cdppage "github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/cdproto/target"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

// patience is how long a page may take to show the expected state.
var patience = 20 * time.Second

func init() {
	if os.Getenv("PANEL_URL") != "" {
		patience = time.Minute // a deployment's functions start first
	}
}

// program is the process under test, or a deployment.
type program struct {
	t           *testing.T
	url, key    string // of the service, without the API's path; of its operator
	command     *exec.Cmd
	dir, binary string
	addr        string
	acting      string // the organization that requests name; of operators
}

var built = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "panel")
	if err != nil {
		return "", err
	}
	binary := filepath.Join(dir, "local")
	const program = "agentplatform/functions/agentplatform"
	build := exec.Command("go", "build", "-tags", "pebblegozstd", "-o", binary, program)
	build.Env = append(os.Environ(), "CGO_ENABLED=0") // as it is released
	out, err := build.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%w: %s", err, out)
	}
	return binary, nil
})

var greeting = regexp.MustCompile(`Agent Platform at (\S+)/api/v1`)

// start starts a program over a folder of its own. On a deployment it makes an organization of its own.
func start(t *testing.T, environ ...string) *program {
	t.Helper()
	if p := deployed(t); p != nil {
		return p.organization()
	}
	binary, err := built()
	require.NoError(t, err)
	p := &program{t: t, dir: t.TempDir(), binary: binary, addr: "127.0.0.1:0"}
	p.run(environ...)
	t.Cleanup(p.kill)
	return p
}

func (p *program) run(environ ...string) {
	t := p.t
	p.command = exec.Command(p.binary)
	p.command.Env = append(os.Environ(), "ADDR="+p.addr, "DATA_DIR="+p.dir, "RATE_LIMIT=1000000", "RATE_BURST=100000",
		"LOG_LEVEL=error", "USER_CAP=100", "ORGANIZATION_CAP=1000")
	p.command.Env = append(p.command.Env, environ...)
	p.command.Stderr = os.Stderr
	out, err := p.command.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, p.command.Start())
	output := make([]byte, 0, 1024)
	for piece := make([]byte, 512); greeting.FindSubmatch(output) == nil; {
		n, err := out.Read(piece)
		require.NoError(t, err, string(output))
		output = append(output, piece[:n]...)
	}
	p.url = string(greeting.FindSubmatch(output)[1])
	p.addr = strings.TrimPrefix(p.url, "http://")
	go func() { _, _ = io.Copy(io.Discard, out) }()
	key, err := os.ReadFile(filepath.Join(p.dir, "operator.key"))
	require.NoError(t, err)
	p.key = strings.TrimSpace(string(key))
}

func (p *program) kill() {
	_ = p.command.Process.Kill()
	_ = p.command.Wait()
}

type object = map[string]any

// send sends a request to the API; it must succeed.
func (p *program) send(method, path string, body any) object {
	p.t.Helper()
	status, v := p.request(method, path, body)
	require.Less(p.t, status, 300, "%s %s: %v", method, path, v)
	return v
}

// makes posts a body, and returns a member of the answer.
func (p *program) makes(member, path string, body any) string {
	p.t.Helper()
	return p.send("POST", path, body)[member].(string)
}

func (p *program) request(method, path string, body any) (int, object) {
	p.t.Helper()
	var sent io.Reader
	kind := "application/json"
	switch b := body.(type) {
	case nil:
	case *form:
		sent, kind = &b.Buffer, b.kind
	default:
		raw, err := json.Marshal(body)
		require.NoError(p.t, err)
		sent = bytes.NewReader(raw)
	}
	r, err := http.NewRequestWithContext(p.t.Context(), method, p.url+"/api/v1"+path, sent)
	require.NoError(p.t, err)
	r.Header.Set("Authorization", "Bearer "+p.key)
	r.Header.Set("Content-Type", kind)
	if p.acting != "" {
		r.Header.Set("X-Organization", p.acting)
	}
	answer, err := http.DefaultClient.Do(r)
	require.NoError(p.t, err)
	defer func() { _ = answer.Body.Close() }()
	raw, err := io.ReadAll(answer.Body)
	require.NoError(p.t, err)
	var v object
	_ = json.Unmarshal(raw, &v)
	return answer.StatusCode, v
}

// form is a multipart form of pairs.
type form struct {
	bytes.Buffer
	kind string
}

func formOf(pairs ...string) *form {
	f := &form{}
	w := multipart.NewWriter(f)
	for i := 0; i+1 < len(pairs); i += 2 {
		_ = w.WriteField(pairs[i], pairs[i+1])
	}
	_ = w.Close()
	f.kind = w.FormDataContentType()
	return f
}

// fileOf is a multipart form of a file.
func fileOf(name, content string) *form {
	f := &form{}
	w := multipart.NewWriter(f)
	part, _ := w.CreateFormFile("file", name)
	_, _ = part.Write([]byte(content))
	_ = w.Close()
	f.kind = w.FormDataContentType()
	return f
}

// as is the same program, asked with another key.
func (p *program) as(key string) *program {
	other := *p
	other.key = key
	return &other
}

// demo is the agent that each first start makes.
func (p *program) demo() string {
	for _, a := range p.send("GET", "/agents", nil)["agents"].([]any) {
		if a.(object)["name"] == "Demo" {
			return a.(object)["agent_id"].(string)
		}
	}
	return p.send("POST", "/agents", object{"name": "Demo"})["agent_id"].(string)
}

// chromium is the browser's program: BROWSER, or an installed one under a usual name.
func chromium(t *testing.T) string {
	t.Helper()
	for _, name := range []string{os.Getenv("BROWSER"), "chromium", "chromium-browser", "google-chrome", "chrome"} {
		if path, err := exec.LookPath(name); name != "" && err == nil {
			return path
		}
	}
	const missing = "there is no Chromium: make browser installs it where it can, or name one by BROWSER"
	if os.Getenv("CI") == "true" {
		require.Fail(t, missing)
	}
	t.Skip(missing)
	return ""
}

// shared is the one browser of all tests; each page has a profile of its own.
var shared struct {
	once sync.Once
	ctx  context.Context
	err  error
}

func browserContext(t *testing.T) context.Context {
	t.Helper()
	path := chromium(t)
	shared.once.Do(func() {
		options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.NoSandbox,
			chromedp.Flag("disable-dev-shm-usage", true), chromedp.WindowSize(1280, 900))
		allocator, _ := chromedp.NewExecAllocator(context.Background(), options...)
		// Its messages about events of newer browsers do not matter.
		shared.ctx, _ = chromedp.NewContext(allocator, chromedp.WithErrorf(func(string, ...any) {}))
		shared.err = chromedp.Run(shared.ctx)
	})
	require.NoError(t, shared.err)
	return shared.ctx
}

func TestMain(m *testing.M) {
	code := m.Run()
	if shared.ctx != nil {
		_ = chromedp.Cancel(shared.ctx)
	}
	if binary, err := built(); err == nil {
		_ = os.RemoveAll(filepath.Dir(binary))
	}
	os.Exit(code)
}

// page is a tab.
type page struct {
	t   *testing.T
	ctx context.Context
	url string

	breaks bool // whether the story has something thrown there

	mu    sync.Mutex
	wrong []string // complaints of the browser
}

// open opens a tab on the panel of a service. A breach of the page's policy, or an exception there, fails the test.
func open(t *testing.T, url string) *page {
	t.Helper()
	ctx, cancel := chromedp.NewContext(browserContext(t), chromedp.WithTargetID(newTab(t)))
	p := &page{t: t, ctx: ctx, url: url + "/admin/"}
	require.NoError(t, chromedp.Run(ctx)) // the tab is watched for as long as the context of this very call lasts
	chromedp.ListenTarget(ctx, func(event any) {
		switch e := event.(type) {
		case *runtime.EventExceptionThrown:
			p.complain("exception: " + e.ExceptionDetails.Error())
		case *cdplog.EventEntryAdded:
			if e.Entry.Source == cdplog.SourceSecurity || strings.Contains(e.Entry.Text, "Content Security Policy") {
				p.complain("log: " + e.Entry.Text)
			}
		case *runtime.EventConsoleAPICalled:
			if e.Type == runtime.APITypeError {
				p.complain(fmt.Sprintf("console: %s", e.Args[0].Value))
			}
		case *cdppage.EventJavascriptDialogOpening:
			p.complain("a script opened a dialog: " + e.Message)
		}
	})
	const watch = `window.violations = []
		document.addEventListener('securitypolicyviolation',
			(e) => window.violations.push(e.violatedDirective + ' ' + e.blockedURI))`
	p.do(cdplog.Enable(), accessibility.Enable(), chromedp.ActionFunc(func(ctx context.Context) error {
		_, err := cdppage.AddScriptToEvaluateOnNewDocument(watch).Do(ctx)
		return err
	}), chromedp.Navigate(p.url))
	t.Cleanup(func() {
		if t.Failed() {
			p.picture("failed-" + strings.ReplaceAll(t.Name(), "/", "-"))
		}
		var violations []string
		p.do(chromedp.Evaluate(`window.violations`, &violations))
		p.mu.Lock()
		if !p.breaks {
			violations = append(violations, p.wrong...)
		}
		require.Empty(t, violations, "what the browser complained about")
		p.mu.Unlock()
		cancel()
	})
	return p
}

// newTab opens a tab in a profile of its own.
func newTab(t *testing.T) (id target.ID) {
	t.Helper()
	require.NoError(t, chromedp.Run(browserContext(t), chromedp.ActionFunc(func(ctx context.Context) error {
		browser := cdp.WithExecutor(ctx, chromedp.FromContext(ctx).Browser)
		profile, err := target.CreateBrowserContext().WithDisposeOnDetach(true).Do(browser)
		if err == nil {
			id, err = target.CreateTarget("about:blank").WithBrowserContextID(profile).WithNewWindow(true).Do(browser)
		}
		return err
	})))
	return id
}

func (p *page) complain(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.wrong = append(p.wrong, text)
}

func (p *page) do(actions ...chromedp.Action) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, patience)
	defer cancel()
	require.NoError(p.t, chromedp.Run(ctx, actions...))
}

// evaluate has the page work something out.
func (p *page) evaluate(script string, into any) {
	p.t.Helper()
	p.do(chromedp.Evaluate(script, into))
}

// signedIn opens a tab and signs in.
func signedIn(t *testing.T, p *program, at string) *page {
	t.Helper()
	tab := open(t, p.url)
	tab.signIn(p.key)
	if at != "" {
		tab.visit(at)
	}
	return tab
}

// trusted is a file with the certificate of a test's server.
func trusted(t *testing.T, server *httptest.Server) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "ca.pem")
	block := pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}
	require.NoError(t, os.WriteFile(file, pem.EncodeToMemory(&block), 0o600))
	return file
}

// awaited has a script's promise waited for.
func awaited(e *runtime.EvaluateParams) *runtime.EvaluateParams { return e.WithAwaitPromise(true) }
