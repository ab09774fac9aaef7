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
	"github.com/chromedp/cdproto/dom"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	cdplog "github.com/chromedp/cdproto/log"
	cdppage "github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/cdproto/target"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

// patience is how long a page has to show what it should.
const patience = 20 * time.Second

// program is the process under test, or a deployment.
type program struct {
	t           *testing.T
	url, key    string // of the service, without the API's path; of its operator
	command     *exec.Cmd
	dir, binary string
	addr        string
}

var built = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "panel")
	if err != nil {
		return "", err
	}
	binary := filepath.Join(dir, "local")
	const program = "agentplatform/functions/local"
	out, err := exec.Command("go", "build", "-tags", "pebblegozstd", "-o", binary, program).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%w: %s", err, out)
	}
	return binary, nil
})

var greeting = regexp.MustCompile(`Agent Platform at (\S+)/api/v1`)

// start starts a program over a folder of its own; where PANEL_URL and OPERATOR_KEY name a deployment, it is that one.
func start(t *testing.T, environ ...string) *program {
	t.Helper()
	if url := os.Getenv("PANEL_URL"); url != "" {
		return &program{t: t, url: strings.TrimSuffix(url, "/"), key: os.Getenv("OPERATOR_KEY")}
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
	said := make([]byte, 0, 1024)
	for piece := make([]byte, 512); greeting.FindSubmatch(said) == nil; {
		n, err := out.Read(piece)
		require.NoError(t, err, string(said))
		said = append(said, piece[:n]...)
	}
	p.url = string(greeting.FindSubmatch(said)[1])
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
	status, v := p.try(method, path, body)
	require.Less(p.t, status, 300, "%s %s: %v", method, path, v)
	return v
}

// makes posts something, and returns a member of what came of it.
func (p *program) makes(member, path string, body any) string {
	p.t.Helper()
	return p.send("POST", path, body)[member].(string)
}

func (p *program) try(method, path string, body any) (int, object) {
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

// chromium is the browser's program: BROWSER, or what is installed under a usual name.
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
		// What it says of events of newer browsers is of no interest.
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
	wrong []string // what the browser complained about
}

// open opens a tab on the panel of a service. What breaks the page's policy, or is thrown there, fails the test.
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

func (p *page) signIn(key string) {
	p.t.Helper()
	p.fill("API key", key)
	p.click("button", "Sign in")
	p.find("link", "Overview")
}

// visit goes to a place within the panel.
func (p *page) visit(at string) {
	p.t.Helper()
	p.do(chromedp.Evaluate(fmt.Sprintf("location.hash = %q", at), nil))
}

// section follows a link of the navigation.
func (p *page) section(name string) {
	p.t.Helper()
	p.click("link", name)
	p.find("heading", name)
}

var errNotThere = fmt.Errorf("not there")

// look finds what a screen reader would call so; of several the first.
func (p *page) look(ctx context.Context, role, name string) (cdp.BackendNodeID, error) {
	all, err := p.lookAll(ctx, role, name)
	if err == nil && len(all) == 0 {
		err = errNotThere
	}
	if err != nil {
		return 0, err
	}
	return all[0], nil
}

// lookAll finds everything that a screen reader would call so.
func (p *page) lookAll(ctx context.Context, role, name string) (all []cdp.BackendNodeID, err error) {
	root, err := dom.GetDocument().Do(ctx)
	if err != nil {
		return nil, err
	}
	nodes, err := accessibility.QueryAXTree().WithNodeID(root.NodeID).WithRole(role).WithAccessibleName(name).Do(ctx)
	for _, n := range nodes {
		if !n.Ignored {
			all = append(all, n.BackendDOMNodeID)
		}
	}
	return all, err
}

// find waits for something with a role and a name.
func (p *page) find(role, name string) cdp.BackendNodeID {
	p.t.Helper()
	var found cdp.BackendNodeID
	p.until(fmt.Sprintf("a %s %q", role, name), func(ctx context.Context) (err error) {
		found, err = p.look(ctx, role, name)
		return err
	})
	return found
}

// until repeats something until it succeeds.
func (p *page) until(what string, try func(context.Context) error) {
	p.t.Helper()
	var last error
	for end := time.Now().Add(patience); time.Now().Before(end); {
		ctx, cancel := context.WithTimeout(p.ctx, patience)
		last = chromedp.Run(ctx, chromedp.ActionFunc(try))
		cancel()
		if last == nil {
			return
		}
		p.do(chromedp.Sleep(40 * time.Millisecond))
	}
	require.NoError(p.t, last, "%s, in:\n%s", what, p.text())
}

// text is all that the page says.
func (p *page) text() (text string) {
	p.do(chromedp.Evaluate(`document.body.innerText`, &text))
	return text
}

func (p *page) see(text string) {
	p.t.Helper()
	p.until("the text "+text, func(context.Context) error {
		if !strings.Contains(p.text(), text) {
			return errNotThere
		}
		return nil
	})
}

func (p *page) gone(text string) {
	p.t.Helper()
	p.until("no text "+text, func(context.Context) error {
		if strings.Contains(p.text(), text) {
			return fmt.Errorf("still there")
		}
		return nil
	})
}

// click clicks the one thing with a role and a name; of several, nobody could say which.
func (p *page) click(role, name string) {
	p.t.Helper()
	p.until(fmt.Sprintf("a click on the %s %q", role, name), func(ctx context.Context) error {
		all, err := p.lookAll(ctx, role, name)
		if err != nil {
			return err
		}
		if len(all) != 1 {
			return fmt.Errorf("there are %d", len(all))
		}
		return clickOn(ctx, all[0])
	})
}

// held are the objects that the browser keeps for the stories.
const held = "held"

// clickOn clicks in the middle of something that stands still, may be clicked, and has nothing lying over it.
func clickOn(ctx context.Context, id cdp.BackendNodeID) error {
	node, err := dom.ResolveNode().WithBackendNodeID(id).WithObjectGroup(held).Do(ctx)
	if err != nil {
		return err
	}
	const place = `async function() {
		this.scrollIntoView({ block: 'nearest', inline: 'nearest' })
		const box = () => {
			const { left, top, width, height } = this.getBoundingClientRect()
			return [left + width / 2, top + height / 2]
		}
		const before = box()
		await new Promise((r) => requestAnimationFrame(() => requestAnimationFrame(r)))
		const [x, y] = box()
		const there = document.elementFromPoint(x, y)
		if (x !== before[0] || y !== before[1]) throw new Error('it moves')
		if (this.disabled) throw new Error('it is disabled')
		if (!there || !this.contains(there)) throw new Error('there lies ' + there?.outerHTML.slice(0, 200))
		return [x, y]
	}`
	call := runtime.CallFunctionOn(place).WithObjectID(node.ObjectID).WithAwaitPromise(true).WithReturnByValue(true)
	said, thrown, err := call.Do(ctx)
	if err == nil && thrown != nil {
		err = thrown
	}
	var at [2]float64
	if err == nil {
		err = json.Unmarshal(said.Value, &at)
	}
	if err != nil {
		return err
	}
	for _, kind := range []input.MouseType{input.MouseMoved, input.MousePressed, input.MouseReleased} {
		e := input.DispatchMouseEvent(kind, at[0], at[1])
		if kind != input.MouseMoved {
			e = e.WithButton(input.Left).WithClickCount(1)
		}
		if err := e.Do(ctx); err != nil {
			return err
		}
	}
	return nil
}

// fill types into the field with a label.
func (p *page) fill(label, text string) {
	p.t.Helper()
	p.until("the field "+label, func(ctx context.Context) error {
		id, err := p.look(ctx, "textbox", label)
		if err != nil {
			return err
		}
		if err := dom.Focus().WithBackendNodeID(id).Do(ctx); err != nil {
			return err
		}
		if err := onNode(ctx, id, `function() { this.select() }`); err != nil {
			return err
		}
		return input.InsertText(text).Do(ctx)
	})
}

// types puts something else into a field, key by key.
func (p *page) types(role, label, text string) {
	p.t.Helper()
	p.focus(role, label)
	p.do(chromedp.ActionFunc(func(ctx context.Context) error {
		id, err := p.look(ctx, role, label)
		if err == nil {
			err = onNode(ctx, id, `function() { this.select() }`)
		}
		return err
	}), chromedp.KeyEvent(text))
}

// focus puts the focus on something.
func (p *page) focus(role, name string) {
	p.t.Helper()
	p.until(fmt.Sprintf("a %s %q", role, name), func(ctx context.Context) error {
		id, err := p.look(ctx, role, name)
		if err == nil {
			err = dom.Focus().WithBackendNodeID(id).Do(ctx)
		}
		return err
	})
}

// of asks something of an element.
func (p *page) of(role, name, function string) (answer string) {
	p.t.Helper()
	id := p.find(role, name)
	p.do(chromedp.ActionFunc(func(ctx context.Context) error {
		node, err := dom.ResolveNode().WithBackendNodeID(id).WithObjectGroup(held).Do(ctx)
		if err != nil {
			return err
		}
		call := runtime.CallFunctionOn(function).WithObjectID(node.ObjectID).WithReturnByValue(true)
		said, thrown, err := call.Do(ctx)
		if err == nil && thrown != nil {
			err = thrown
		}
		if err == nil {
			err = json.Unmarshal(said.Value, &answer)
		}
		return err
	}))
	return answer
}

// value is what stands in a field.
func (p *page) value(role, label string) string {
	p.t.Helper()
	return p.of(role, label, `function() { return this.value }`)
}

// attribute is one of an element's.
func (p *page) attribute(role, name, attribute string) string {
	p.t.Helper()
	return p.of(role, name, `function() { return this.getAttribute(`+quoted(attribute)+`) ?? '' }`)
}

// choose chooses an option of the list with a label, by its text or the beginning of it.
func (p *page) choose(label, option string) {
	p.t.Helper()
	p.until("the list "+label, func(ctx context.Context) error {
		id, err := p.look(ctx, "combobox", label)
		if err != nil {
			return err
		}
		return onNode(ctx, id, `function(text) {
			const option = [...this.options].find((o) => o.text.startsWith(text))
			if (!option) throw new Error('no such option')
			this.value = option.value
			this.dispatchEvent(new Event('change', { bubbles: true }))
		}`, option)
	})
}

// choosesFiles gives files to a field.
func (p *page) choosesFiles(selector string, files ...string) {
	p.t.Helper()
	p.until("the field "+selector, func(ctx context.Context) error {
		field, thrown, err := runtime.Evaluate("document.querySelector(" + quoted(selector) + ")").Do(ctx)
		if err != nil || thrown != nil || field.ObjectID == "" {
			return errNotThere
		}
		return dom.SetFileInputFiles(files).WithObjectID(field.ObjectID).Do(ctx)
	})
}

func onNode(ctx context.Context, id cdp.BackendNodeID, function string, arguments ...any) error {
	node, err := dom.ResolveNode().WithBackendNodeID(id).WithObjectGroup(held).Do(ctx)
	if err != nil {
		return err
	}
	call := runtime.CallFunctionOn(function).WithObjectID(node.ObjectID)
	var given []*runtime.CallArgument
	for _, a := range arguments {
		raw, err := json.Marshal(a)
		if err != nil {
			return err
		}
		given = append(given, &runtime.CallArgument{Value: raw})
	}
	_, thrown, err := call.WithArguments(given).Do(ctx)
	if err == nil && thrown != nil {
		err = thrown
	}
	return err
}

// picture takes a picture of the whole page into SCREENSHOTS, or .cache/screenshots.
func (p *page) picture(name string) {
	dir := os.Getenv("SCREENSHOTS")
	if dir == "" {
		dir = "../../../.cache/screenshots"
	}
	require.NoError(p.t, os.MkdirAll(dir, 0o750))
	var raw []byte
	ctx, cancel := context.WithTimeout(p.ctx, patience)
	defer cancel()
	if chromedp.Run(ctx, chromedp.FullScreenshot(&raw, 100)) == nil {
		require.NoError(p.t, os.WriteFile(filepath.Join(dir, name+".png"), raw, 0o600))
	}
}

// looks sets the page's width, and whether the system is dark.
func (p *page) looks(width int64, dark bool) {
	scheme := "light"
	if dark {
		scheme = "dark"
	}
	p.do(emulation.SetDeviceMetricsOverride(width, 900, 1, false),
		emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{
			{Name: "prefers-color-scheme", Value: scheme}, {Name: "prefers-reduced-motion", Value: "reduce"},
		}))
}

// clickIn clicks a button within the row that holds a text.
func (p *page) clickIn(text, button string) {
	p.t.Helper()
	p.clickThat("the button "+button+" beside "+text, `[...document.querySelectorAll('tr')].filter((r) =>
		r.innerText.includes(`+quoted(text)+`)).flatMap((r) => [...r.querySelectorAll('button')])`, button)
}

// clickWithin clicks a button within a part of the page that has a name.
func (p *page) clickWithin(part, button string) {
	p.t.Helper()
	p.clickThat("the button "+button+" within "+part,
		`[...document.querySelectorAll('[aria-label="`+part+`"] button')]`, button)
}

// clickThat clicks the one of some buttons that has a text.
func (p *page) clickThat(what, among, text string) {
	p.t.Helper()
	p.until("a click on "+what, func(ctx context.Context) error {
		one := runtime.Evaluate(among + `.find((b) => b.innerText.trim() === ` + quoted(text) + `)`)
		found, thrown, err := one.WithObjectGroup(held).Do(ctx)
		if err != nil || thrown != nil || found.ObjectID == "" {
			return errNotThere
		}
		node, err := dom.DescribeNode().WithObjectID(found.ObjectID).Do(ctx)
		if err != nil {
			return err
		}
		return clickOn(ctx, node.BackendNodeID)
	})
}

func quoted(s string) string { return "'" + strings.ReplaceAll(s, "'", `\'`) + "'" }

// rowHas says whether the row of a list that holds a text holds another.
func rowHas(tab *page, text, other string) func(context.Context) error {
	return func(context.Context) error {
		var has bool
		tab.do(chromedp.Evaluate(`[...document.querySelectorAll('tr')].some((r) => r.innerText.includes(`+quoted(text)+
			`) && r.innerText.includes(`+quoted(other)+`))`, &has))
		if !has {
			return errNotThere
		}
		return nil
	}
}

// factIs says whether a page says of something that it is so.
func factIs(tab *page, name, value string) func(context.Context) error {
	return func(context.Context) error {
		var is bool
		tab.evaluate(`[...document.querySelectorAll('.facts div')].some((d) => {
			const [name, value] = [...d.children].map((e) => e.innerText.trim())
			return name === `+quoted(name)+` && value === `+quoted(value)+`
		})`, &is)
		if !is {
			return errNotThere
		}
		return nil
	}
}

// clickInDialog clicks a button of the dialog that lies over the page.
func (p *page) clickInDialog(button string) {
	p.t.Helper()
	p.clickThat("the dialog's button "+button, `[...document.querySelectorAll('dialog[open] button')]`, button)
}

func (p *page) reload() {
	p.t.Helper()
	p.do(chromedp.Reload())
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
