//go:build browser

package browser

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	cdppage "github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// furnished fills a program with an object of every kind, and returns the addresses of all pages by a name.
func furnished(t *testing.T, p *program) [][2]string {
	t.Helper()
	id := func(v object, member string) string { return v[member].(string) }
	demo := p.demo()
	agent := id(p.send("POST", "/agents", object{"name": "Careful clerk", "description": "asks before it acts",
		"instructions": "You keep the books.\nBe brief.", "approval": object{"mode": "always"}}), "agent_id")
	p.send("PATCH", "/agents/"+agent, object{"instructions": "You keep the books.\nBe exact.", "publish": false})
	base := id(p.send("POST", "/knowledge-bases", object{"name": "Handbook", "description": "what we agreed on"}),
		"knowledge_base_id")
	documents := "/knowledge-bases/" + base + "/documents"
	document := id(p.send("POST", documents, object{"title": "Leave", "text": "# Leave\n\n" +
		"Everybody has twenty-six days of holiday in a year.\n\n## Illness\n\nTell somebody on the first day."}),
		"document_id")
	p.send("POST", documents, fileOf("scan.pdf", "%PDF-1.7 and nothing more"))
	librarian := id(p.send("POST", "/agents", object{"name": "Librarian", "knowledge_base_ids": []string{base}}),
		"agent_id")
	group := id(p.send("POST", "/groups", object{"name": "Readers", "description": "who reads"}), "group_id")
	user := id(p.send("POST", "/users", object{"email": "ada@example.com", "name": "Ada", "role": "manager",
		"group_ids": []string{group}, "budget": object{"period": "month", "max_tokens": 100000}}), "user_id")
	key := id(p.send("POST", "/api-keys", object{"name": "Nightly import", "level": "run", "user_id": user,
		"expires_at": time.Now().Add(720 * time.Hour)}), "api_key_id")
	ready(p, base, document)
	for i, message := range []string{"What is new?", "/fail the printer is on fire",
		"a longer story\n/sleep 300ms\n/stream 10 20ms", `/tool calculate {"expression":"6*7"}`, "thanks"} {
		_, _ = p.request("POST", "/chat", formOf("agent_id", demo, "chat_id", fmt.Sprintf("talk-%d", i%2),
			"message", message, "title", []string{"What is new?", "The printer"}[i%2],
			"callback_url", "https://receiver.invalid/hook"))
	}
	done := p.send("POST", "/chat", formOf("agent_id", demo,
		"message", "one\n/tool calculate {\"expression\":\"1+1\"}\n/sleep 200ms"))
	p.send("POST", "/chat", formOf("agent_id", librarian, "chat_id", "cited", "title", "Holidays",
		"message", "/search days of holiday"))
	waiting := p.send("POST", "/chat", formOf("agent_id", agent, "chat_id", "waits", "title", "Pay the bill", "message",
		"/tool calculate {\"expression\":\"1200*1.19\"}\n/ask Which account?"))
	p.send("POST", "/chat", formOf("agent_id", demo, "wait", "false", "message", "/sleep 120s"))
	delivery := id(p.send("GET", "/webhooks/deliveries", nil)["deliveries"].([]any)[0].(object), "delivery_id")
	builtin := id(p.send("GET", "/toolkits", nil)["toolkits"].([]any)[0].(object), "toolkit_id")
	return [][2]string{
		{"overview", "#/overview"},
		{"chat", "#/chat"}, {"chat-cited", "#/chat/cited"}, {"chat-waits", "#/chat/waits"},
		{"runs", "#/runs"}, {"run", "#/runs/" + id(done, "run_id")}, {"run-waits", "#/runs/" + id(waiting, "run_id")},
		{"inbox", "#/inbox"}, {"agents", "#/agents"}, {"agent-new", "#/agents/new"}, {"agent", "#/agents/" + agent},
		{"toolkits", "#/toolkits"}, {"toolkit-new", "#/toolkits/new"}, {"toolkit", "#/toolkits/" + builtin},
		{"knowledge", "#/knowledge"}, {"base", "#/knowledge/" + base},
		{"document", "#/knowledge/" + base + "/" + document + "?from=9&to=40"},
		{"users", "#/users"}, {"user", "#/users/" + user}, {"groups", "#/groups"}, {"group", "#/groups/" + group},
		{"api-keys", "#/api-keys"}, {"api-key", "#/api-keys/" + key},
		{"webhooks", "#/webhooks"}, {"delivery", "#/webhooks/" + delivery}, {"analytics", "#/analytics"},
		{"audit-log", "#/audit-log"}, {"settings", "#/settings"}, {"nowhere", "#/nowhere"},
	}
}

func ready(p *program, base, document string) {
	for range 50 {
		d := p.send("GET", "/knowledge-bases/"+base+"/documents/"+document+"?wait_ms=2000", nil)
		if d["status"] == "ready" || d["status"] == "failed" {
			return
		}
	}
}

// settled waits until a page has all its answers.
func (p *page) settled() {
	p.t.Helper()
	p.until("a page that waits for nothing", func(context.Context) error {
		var waits bool
		p.do(chromedp.Evaluate(`!document.querySelector('main h1') ||
			!!document.querySelector('.loading, main [aria-busy=true]:not(.message)')`, &waits))
		if waits {
			return errNotThere
		}
		return nil
	})
}

type violation struct {
	ID, Impact, Help string
	Nodes            []struct {
		HTML           string
		FailureSummary string
	}
}

// No page breaks a rule of axe-core, light or dark, wide or narrow.
func TestNoPageBreaksARuleOfAccessibility(t *testing.T) {
	t.Parallel()
	rules := axe(t)
	p := start(t)
	routes := furnished(t, p)
	tab := open(t, p.url)
	tab.do(cdppage.SetBypassCSP(true), chromedp.Reload())
	tab.find("button", "Sign in")
	tab.obeys(t, rules, "sign-in")
	tab.signIn(p.key)
	for _, dark := range []bool{false, true} {
		for _, width := range []int64{1280, 375} {
			tab.emulate(width, dark)
			for _, route := range routes {
				tab.visit(route[1])
				tab.settled()
				tab.evaluate(`document.querySelectorAll('details').forEach((d) => { d.open = true })
					document.querySelector('td [aria-label^="Choose "]')?.click()`, nil)
				tab.settled()
				tab.obeys(t, rules, fmt.Sprintf("%s, %d wide, dark: %t", route[0], width, dark))
				var wide int64
				tab.do(chromedp.Evaluate(`document.documentElement.scrollWidth`, &wide))
				assert.LessOrEqual(t, wide, width, "%s scrolls sideways at %d", route[0], width)
			}
		}
	}
}

// axe are the rules.
func axe(t *testing.T) string {
	t.Helper()
	rules, err := os.ReadFile("../../../../.cache/panel/node_modules/axe-core/axe.min.js")
	if err != nil {
		require.NotEqual(t, "true", os.Getenv("CI"), "axe-core is not there: make .cache/panel/made fetches it")
		t.Skip("axe-core is not there: make .cache/panel/made fetches it")
	}
	return string(rules)
}

// Dialogs and errors break no rule either, and neither do pages for users with fewer rights.
func TestNoDialogOrErrorBreaksARuleOfAccessibility(t *testing.T) {
	t.Parallel()
	rules := axe(t)
	p := start(t)
	paths := map[string]string{}
	for _, route := range furnished(t, p) {
		paths[route[0]] = route[1]
	}
	user := p.makes("user_id", "/users", object{"email": "m@example.com", "role": "member"})
	reader := p.makes("key", "/api-keys", object{"name": "reader", "level": "read", "user_id": user})
	way := newBetween(t, p)
	tab := open(t, way.URL)
	tab.do(cdppage.SetBypassCSP(true), chromedp.Reload())
	tab.signIn(p.key)
	for _, dark := range []bool{false, true} {
		tab.emulate(375, dark)
		for _, over := range []struct{ page, button, dialog string }{
			{"run-waits", "Cancel run", "Cancel this run?"}, {"runs", "Stop", "Stop runs"}, {"runs", "Go to", "Go to"},
			{"agents", "Import", "Import an agent"}, {"agent", "Delete", "Delete Careful clerk?"},
			{"agent", "Differences of version 2", "Version 2 compared with the previous one"},
			{"base", "Add document", "Add document"}, {"api-key", "Rotate", "Rotate Nightly import?"},
			{"document", "Replace content", "Replace the content of Leave"},
			{"webhooks", "Rotate secret", "The new secret"},
		} {
			tab.visit(paths[over.page])
			tab.settled()
			tab.click("button", over.button)
			tab.find("dialog", over.dialog)
			tab.obeys(t, rules, fmt.Sprintf("%s, dark: %t", over.dialog, dark))
			tab.do(chromedp.Reload())
			tab.find("link", "Overview")
		}
		tab.visit(paths["inbox"])
		tab.click("button", "Edit")
		tab.fill("expression", "7")
		tab.obeys(t, rules, "arguments under edit")
		tab.visit(paths["groups"])
		tab.settled()
		way.goesWrong(refuses("POST", "/groups", 503))
		tab.fill("Name", "x")
		tab.click("button", "Create group")
		tab.see("Request r-503")
		tab.obeys(t, rules, "a form that was refused")
		way.goesWrong(func(w http.ResponseWriter, r *http.Request) bool {
			return r.Method == http.MethodGet && r.URL.Path != "/api/v1/me" && refuses("GET", "", 503)(w, r)
		})
		for _, name := range []string{"overview", "runs", "run", "chat", "inbox", "agent", "analytics"} {
			tab.visit(paths[name])
			tab.see("Not now.")
			tab.obeys(t, rules, name+" that cannot be read")
		}
		way.goesWrong(refuses("GET", "/interrupts", 401))
		tab.visit(paths["runs"])
		tab.find("dialog", "Sign in again")
		tab.obeys(t, rules, "signing in over the page")
		way.goesWrong(nil)
		tab.fill("API key", p.key)
		tab.click("button", "Sign in")
		tab.gone("Sign in again")
	}
	tab.click("button", "Forget key")
	tab.signIn(reader)
	for name, path := range paths {
		tab.visit(path)
		tab.until("a page", func(context.Context) error {
			var there bool
			if tab.evaluate(`!!document.querySelector('main h1')`, &there); !there {
				return errNotThere
			}
			return nil
		})
		tab.obeys(t, rules, name+" for a reader")
	}
}

func (p *page) obeys(t *testing.T, rules, what string) {
	t.Helper()
	const check = `axe.run(document, {
		runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice'],
	}).then((r) => JSON.stringify(r.violations))`
	var raw string
	p.do(chromedp.Evaluate(`window.axe ? true : (() => { `+rules+`; return true })()`, nil),
		chromedp.Evaluate(check, &raw, awaited))
	var found []violation
	require.NoError(t, json.Unmarshal([]byte(raw), &found))
	for _, v := range found {
		for _, n := range v.Nodes {
			assert.Fail(t, v.ID, "%s: %s (%s)\n%s\n%s", what, v.Help, v.Impact, n.HTML, n.FailureSummary)
		}
	}
}

// Screenshots of every page, at two widths, light and dark: for people to look at. They are taken where SCREENSHOTS
// names a folder.
func TestScreenshots(t *testing.T) {
	if os.Getenv("SCREENSHOTS") == "" {
		t.Skip("make screenshots takes them")
	}
	p := start(t)
	routes := furnished(t, p)
	tab := open(t, p.url)
	only := os.Getenv("ONLY")
	for _, dark := range []bool{false, true} {
		for _, width := range []int64{1280, 375} {
			tab.emulate(width, dark)
			if tab.text(); strings.Contains(tab.text(), "Sign in") {
				tab.picture(shot("sign-in", width, dark))
				tab.signIn(p.key)
			}
			for _, route := range routes {
				if only != "" && !strings.Contains(only, route[0]) {
					continue
				}
				tab.visit(route[1])
				tab.settled()
				tab.do(chromedp.Sleep(600 * time.Millisecond)) // charts draw, first words come
				tab.picture(shot(route[0], width, dark))
			}
		}
	}
}

func shot(name string, width int64, dark bool) string {
	if dark {
		return fmt.Sprintf("%s-%d-dark", name, width)
	}
	return fmt.Sprintf("%s-%d", name, width)
}
