//go:build browser

package browser

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/chromedp/cdproto/accessibility"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/dom"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

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

// query finds the element that a screen reader would name so, and the first of several.
func (p *page) query(ctx context.Context, role, name string) (cdp.BackendNodeID, error) {
	all, err := p.queryAll(ctx, role, name)
	if err == nil && len(all) == 0 {
		err = errNotThere
	}
	if err != nil {
		return 0, err
	}
	return all[0], nil
}

// queryAll finds everything that a screen reader would call so.
func (p *page) queryAll(ctx context.Context, role, name string) (all []cdp.BackendNodeID, err error) {
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
		found, err = p.query(ctx, role, name)
		return err
	})
	return found
}

// until repeats something until it succeeds.
func (p *page) until(what string, action func(context.Context) error) {
	p.t.Helper()
	var last error
	for end := time.Now().Add(patience); time.Now().Before(end); {
		ctx, cancel := context.WithTimeout(p.ctx, patience)
		last = chromedp.Run(ctx, chromedp.ActionFunc(action))
		cancel()
		if last == nil {
			return
		}
		p.do(chromedp.Sleep(40 * time.Millisecond))
	}
	require.NoError(p.t, last, "%s, in:\n%s", what, p.text())
}

// text is the whole text of the page.
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

// click clicks the one thing with a role and a name. With several of them the click would be ambiguous.
func (p *page) click(role, name string) {
	p.t.Helper()
	p.until(fmt.Sprintf("a click on the %s %q", role, name), func(ctx context.Context) error {
		all, err := p.queryAll(ctx, role, name)
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

// clickOn clicks in the middle of something that stands still, may be clicked, and has nothing lying over it. It does
// not click something that moved away in the last moment, or something that came in its place.
func clickOn(ctx context.Context, id cdp.BackendNodeID) error {
	node, err := dom.ResolveNode().WithBackendNodeID(id).WithObjectGroup(held).Do(ctx)
	if err != nil {
		return err
	}
	const script = `async function() {
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
		const kinds = ['mousedown', 'mouseup', 'click']
		const judge = (e) => {
			if (!this.contains(e.target)) {
				e.stopImmediatePropagation()
				e.preventDefault()
			} else if (e.type === 'click') window.judged.hit = true
		}
		window.judged = { hit: false, end: () => kinds.forEach((k) => removeEventListener(k, judge, true)) }
		kinds.forEach((k) => addEventListener(k, judge, true))
		return [x, y]
	}`
	call := runtime.CallFunctionOn(script).WithObjectID(node.ObjectID).WithAwaitPromise(true).WithReturnByValue(true)
	result, thrown, err := call.Do(ctx)
	if err == nil && thrown != nil {
		err = thrown
	}
	var at [2]float64
	if err == nil {
		err = json.Unmarshal(result.Value, &at)
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
	result, thrown, err = runtime.Evaluate(`window.judged.end(), window.judged.hit`).WithReturnByValue(true).Do(ctx)
	if err == nil && thrown == nil && string(result.Value) != "true" {
		return fmt.Errorf("it moved away")
	}
	return err
}

// fill types into the field with a label.
func (p *page) fill(label, text string) {
	p.t.Helper()
	p.until("the field "+label, func(ctx context.Context) error {
		id, err := p.query(ctx, "textbox", label)
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
		id, err := p.query(ctx, role, label)
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
		id, err := p.query(ctx, role, name)
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
		result, thrown, err := call.Do(ctx)
		if err == nil && thrown != nil {
			err = thrown
		}
		if err == nil {
			err = json.Unmarshal(result.Value, &answer)
		}
		return err
	}))
	return answer
}

// value is the text of a field.
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
		id, err := p.query(ctx, "combobox", label)
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
		dir = "../../../../.cache/screenshots"
	}
	require.NoError(p.t, os.MkdirAll(dir, 0o750))
	var raw []byte
	ctx, cancel := context.WithTimeout(p.ctx, patience)
	defer cancel()
	if chromedp.Run(ctx, chromedp.FullScreenshot(&raw, 100)) == nil {
		require.NoError(p.t, os.WriteFile(filepath.Join(dir, name+".png"), raw, 0o600))
	}
}

// emulate sets the page's width, and whether the system is dark.
func (p *page) emulate(width int64, dark bool) {
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

// rowHas checks that the row of a list that holds a text holds another.
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

// factIs checks that a page has a fact with a name and a value.
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
