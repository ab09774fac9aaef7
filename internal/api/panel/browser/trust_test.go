//go:build browser

package browser

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const hostile = `<img src=x onerror="document.title='taken'"><script>document.title='taken'</script>` +
	`<a href="javascript:alert(1)">x</a>`

// Texts of others are shown as texts: on no page does their markup become an element.
func TestMarkupOfOthersIsTextOnEveryPage(t *testing.T) {
	t.Parallel()
	p := start(t)
	withMarkup := func(v string) string { return v + " " + hostile }
	base := p.makes("knowledge_base_id", "/knowledge-bases", object{"name": withMarkup("base"), "description": hostile})
	document := p.makes("document_id", "/knowledge-bases/"+base+"/documents", object{"title": withMarkup("document"),
		"text":     "# " + hostile + "\n\nEverybody has twenty-six days of holiday. " + hostile,
		"metadata": object{"note": hostile}})
	ready(p, base, document)
	agent := p.makes("agent_id", "/agents", object{"name": withMarkup("agent"), "description": hostile,
		"instructions": hostile, "knowledge_base_ids": []string{base}, "approval": object{"mode": "always"}})
	p.send("PATCH", "/agents/"+agent, object{"instructions": hostile + hostile})
	group := p.makes("group_id", "/groups", object{"name": withMarkup("group"), "description": hostile})
	user := p.makes("user_id", "/users", object{"email": "ada@example.com", "name": withMarkup("user"),
		"role": "member", "group_ids": []string{group}})
	key := p.makes("api_key_id", "/api-keys", object{"name": withMarkup("key"), "level": "run", "user_id": user})
	cited := p.makes("run_id", "/chat", formOf("agent_id", agent, "chat_id", "cited", "title", hostile,
		"message", hostile+"\n/search days of holiday", "callback_url", "https://receiver.invalid/hook",
		"metadata", `{"note":"<img src=x onerror=1>"}`))
	asks := p.makes("run_id", "/chat", formOf("agent_id", agent, "chat_id", "asks", "title", hostile, "message",
		`/tool echo {"text":"<img src=x onerror=1>"}`+"\n/ask "+hostile))
	_, _ = p.request("POST", "/chat", formOf("agent_id", agent, "chat_id", "fails", "message", "/fail "+hostile))
	p.send("PATCH", "/organization", object{"name": withMarkup("organization")})
	tab := signedIn(t, p, "")
	for _, path := range []string{
		"#/overview", "#/chat", "#/chat/cited", "#/chat/asks", "#/chat/fails",
		"#/runs", "#/runs/" + cited, "#/runs/" + asks,
		"#/inbox", "#/agents", "#/agents/" + agent, "#/toolkits", "#/knowledge", "#/knowledge/" + base,
		"#/knowledge/" + base + "/" + document + "?from=2&to=60",
		"#/users", "#/users/" + user, "#/groups", "#/groups/" + group,
		"#/api-keys", "#/api-keys/" + key, "#/webhooks", "#/analytics", "#/audit-log", "#/settings",
	} {
		tab.visit(path)
		tab.settled()
		tab.evaluate(`document.querySelectorAll('details').forEach((d) => { d.open = true })`, nil)
		tab.settled()
		var found []string
		tab.evaluate(`[...document.querySelectorAll('img, [onerror], main script, a[href^="javascript:"]')]
			.map((e) => e.outerHTML)`, &found)
		assert.Empty(t, found, path)
		var title string
		tab.do(chromedp.Title(&title))
		assert.NotEqual(t, "taken", title, path)
	}
	tab.visit("#/knowledge")
	tab.fill("Search for", "days of holiday")
	tab.click("button", "Search")
	tab.see("1 hit")
	var images int
	tab.evaluate(`document.querySelectorAll('main img').length`, &images)
	assert.Zero(t, images)
}

// Invisible characters of arguments are shown before the arguments are approved.
func TestHiddenCharactersOfArgumentsAreShown(t *testing.T) {
	t.Parallel()
	p := start(t)
	p.send("POST", "/chat", formOf("agent_id", careful(p),
		"message", "/tool echo {\"text\":\"pay \u202e0001\u202c EUR\"}"))
	tab := signedIn(t, p, "#/inbox")
	tab.see(`\u202e0001\u202c`)
}

// A key that ends during an upload or a stream makes the user sign in. Then the stream goes on, and a click starts the
// upload again.
func TestA401InTheMiddleOfAnUploadAndAStream(t *testing.T) {
	t.Parallel()
	p := start(t)
	base := p.makes("knowledge_base_id", "/knowledge-bases", object{"name": "Handbook"})
	way := newBetween(t, p)
	tab := signedInThrough(t, way, p, "#/knowledge/"+base)
	file := filepath.Join(t.TempDir(), "notes.txt")
	require.NoError(t, os.WriteFile(file, []byte("The canteen opens at noon."), 0o600))
	tab.choosesFiles("#documents", file)
	way.goesWrong(refuses("POST", "/documents", http.StatusUnauthorized))
	tab.click("button", "Upload")
	again := func() {
		t.Helper()
		tab.find("dialog", "Sign in again")
		way.goesWrong(nil)
		tab.fill("API key", p.key)
		tab.click("button", "Sign in")
		tab.gone("Sign in again")
	}
	again()
	tab.click("button", "Try again")
	tab.find("link", "notes.txt")

	tab.visit("#/chat?agent=" + p.demo())
	tab.fill("Message", "/stream 250 40ms")
	tab.click("button", "Send")
	tab.see("3 4 5 6")
	way.goesWrong(refuses("GET", "/stream", http.StatusUnauthorized))
	way.CloseClientConnections()
	again()
	tab.see("247 248 249 250")
	tab.find("button", "Send")
}

// Two tabs have two keys, and neither knows the other's.
func TestTwoTabsHaveTwoKeys(t *testing.T) {
	t.Parallel()
	p := needsOperator(t)
	made := p.send("POST", "/api-keys", object{"name": "reader", "level": "read"})
	one := signedIn(t, p, "#/settings")
	two := signedIn(t, p.as(made["key"].(string)), "#/settings")
	one.until("one", factIs(one, "Level", "operator"))
	two.until("two", factIs(two, "Level", "read"))
	two.click("button", "Forget key")
	two.find("textbox", "API key")
	one.section("Groups")
	var stored []string
	two.evaluate(`[...Object.values(sessionStorage), ...Object.values(localStorage), document.cookie]
		.filter(Boolean)`, &stored)
	assert.Empty(t, stored)
}

// A key is copied as it is.
func TestAKeyIsCopied(t *testing.T) {
	t.Parallel()
	p := start(t)
	tab := signedIn(t, p, "#/api-keys")
	tab.fill("Name", "copied")
	tab.click("button", "Create key")
	tab.click("button", "Copy key")
	tab.see("copied")
	var shown string
	tab.evaluate(`document.querySelector('[data-key]').innerText`, &shown)
	tab.click("button", "Done")
	tab.focus("textbox", "Name")
	paste := input.DispatchKeyEvent(input.KeyDown).WithKey("v").WithCode("KeyV").WithModifiers(input.ModifierCtrl)
	tab.do(paste.WithCommands([]string{"paste"}))
	assert.Equal(t, shown, tab.value("textbox", "Name"))
	assert.Regexp(t, `^ap_`, shown)
}

// An agent is exported as a file and imported as another agent. An invalid file is refused in its dialog.
func TestAnAgentIsExportedAndImported(t *testing.T) {
	t.Parallel()
	p := start(t)
	agent := p.makes("agent_id", "/agents", object{"name": "Scribe", "instructions": "Write it down."})
	tab := signedIn(t, p, "#/agents/"+agent)
	tab.saves()
	tab.click("button", "Export")
	text := tab.saved(1)
	tab.section("Agents")
	tab.click("button", "Import")
	tab.fill("Or its text", "{")
	tab.clickInDialog("Import")
	tab.see("This is not valid JSON")
	tab.do(chromedp.Sleep(200 * time.Millisecond))
	tab.fill("Or its text", text)
	tab.clickInDialog("Import")
	tab.until("the copy's page", func(context.Context) error {
		var at string
		tab.evaluate(`location.hash`, &at)
		if at == "#/agents" || at == "#/agents/"+agent {
			return errNotThere
		}
		return nil
	})
	tab.see("Save")
	assert.Equal(t, "Write it down.", tab.value("textbox", "Instructions"))
}

// A user with a key of level run makes the decisions that are the user's.
func TestAMemberDecides(t *testing.T) {
	t.Parallel()
	p := start(t)
	user := p.makes("user_id", "/users", object{"email": "m@example.com", "role": "member"})
	key := p.makes("key", "/api-keys", object{"name": "m", "level": "run", "user_id": user})
	run := p.as(key).send("POST", "/chat", formOf("agent_id", careful(p), "message", `/tool echo {"text":"said"}`))
	tab := signedIn(t, p.as(key), "#/inbox")
	tab.click("button", "Approve")
	tab.is(p, "/runs/"+run["run_id"].(string), "status", "completed")
}

// All of it can be done by keyboard alone: signing in, going somewhere, making something, and leaving a dialog.
func TestTheKeyboardAloneIsEnough(t *testing.T) {
	t.Parallel()
	p := start(t)
	tab := open(t, p.url)
	tab.find("textbox", "API key")
	tab.reach("API key")
	tab.do(chromedp.KeyEvent(p.key))
	tab.press(keyEnter)
	tab.find("heading", "Overview")
	tab.reach("Groups")
	tab.press(keyEnter)
	tab.find("heading", "Groups")
	tab.until("the focus on the heading", tab.focused("Groups"))
	tab.reach("Name")
	tab.do(chromedp.KeyEvent("Readers"))
	tab.press(keyEnter)
	tab.find("link", "Readers")
	tab.reach("Readers")
	tab.press(keyEnter)
	tab.find("button", "Add member")
	tab.reach("Delete")
	tab.press(keyEnter)
	tab.find("dialog", "Delete Readers?")
	tab.press(keyEscape)
	tab.gone("Delete Readers?")
	tab.until("the focus where it was", tab.focused("Delete"))
	tab.press(keyEnter)
	tab.reach("Confirm")
	tab.press(keyEnter)
	tab.see("There are no groups yet.")
}

// name is the name of the element that has the focus, or the text of a heading.
const name = `(() => {
	const e = document.activeElement
	return e.getAttribute('aria-label') ?? (e.labels?.[0] ?? e).innerText.trim()
})()`

func (p *page) focused(on string) func(context.Context) error {
	return func(context.Context) error {
		var is string
		if p.do(chromedp.Evaluate(name, &is)); is != on {
			return fmt.Errorf("it is on %q", is)
		}
		return nil
	}
}

// reach presses Tab until something has the focus.
func (p *page) reach(on string) {
	p.t.Helper()
	for range 80 {
		if p.focused(on)(p.ctx) == nil {
			return
		}
		p.press(keyTab)
	}
	require.Fail(p.t, "Tab does not lead to "+on)
}

// How often the panel asks does not eat its key's rate limit.
func TestThePanelAsksWithMeasure(t *testing.T) {
	t.Parallel()
	p := start(t)
	run := p.makes("run_id", "/chat", formOf("agent_id", p.demo(), "message", "hello"))
	way := newBetween(t, p)
	tab := signedInThrough(t, way, p, "#/overview")
	for path, most := range map[string]int{"#/overview": 18, "#/runs/" + run: 14, "#/agents/" + p.demo(): 14} {
		tab.visit(path)
		tab.settled()
		tab.do(chromedp.Sleep(time.Second))
		before := way.total(http.MethodGet)
		tab.do(chromedp.Sleep(12 * time.Second))
		assert.LessOrEqual(t, way.total(http.MethodGet)-before, most, "requests in 12 s at %s", path)
	}
}
