//go:build browser

package browser

import (
	"context"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/assert"
)

// Broken JSON is not sent, and neither is the text before it. An invalid number is not left out.
func TestAnInvalidValueIsNotSent(t *testing.T) {
	t.Parallel()
	p := start(t)
	url := "https://receiver.invalid"
	kit := p.send("POST", "/toolkits", object{"kind": "http", "name": "Bank", "url": url, "request": object{
		"name": "pay", "method": "POST", "parameters": object{"type": "object", "properties": object{
			"order": object{"type": "object"}, "times": object{"type": "integer"}}}}})
	agent := p.send("POST", "/agents", object{"name": "Careful", "approval": object{"mode": "always"},
		"toolkit_ids": []any{kit["toolkit_id"]}})
	run := p.send("POST", "/chat", formOf("agent_id", agent["agent_id"].(string),
		"message", `/tool pay {"order":{"amount":1000},"times":1}`))["run_id"].(string)
	tab := signedIn(t, p, "#/runs/"+run)
	tab.click("button", "Edit")
	tab.fill("order", `{"amount": 10,}`)
	tab.click("button", "Approve")
	tab.see("This is not valid JSON")
	assert.Equal(t, "true", tab.attribute("textbox", "order", "aria-invalid"))
	waits := func() {
		t.Helper()
		tab.do(chromedp.Sleep(300 * time.Millisecond))
		assert.Equal(t, "awaiting_input", p.send("GET", "/runs/"+run, nil)["status"])
	}
	waits()
	tab.fill("order", `{"amount": 10}`)
	tab.types("spinbutton", "times", "1e")
	tab.click("button", "Approve")
	waits()
	tab.types("spinbutton", "times", "2")
	tab.click("button", "Approve")
	tab.until("the decision", func(context.Context) error {
		i := p.send("GET", "/runs/"+run+"/interrupts", nil)["interrupts"].([]any)[0].(object)
		decision, is := i["decision"].(object)
		if !is {
			return errNotThere
		}
		assert.Equal(t, object{"order": object{"amount": 10.0}, "times": 2.0}, decision["arguments"])
		return nil
	})
}

// A form with a fault is held back from its second button as from its first.
func TestSaveAndPublishLooksAtTheForm(t *testing.T) {
	t.Parallel()
	p := start(t)
	agent := p.demo()
	tab := signedIn(t, p, "#/agents/"+agent)
	tab.fill("Output schema", `{"type":`)
	tab.click("button", "Save and publish")
	tab.do(chromedp.Sleep(300 * time.Millisecond))
	assert.Equal(t, 1.0, p.send("GET", "/agents/"+agent, nil)["version"])
	tab.fill("Output schema", `{"type":"object","properties":{"city":{"type":"string"}}}`)
	tab.click("button", "Save and publish")
	tab.until("version 2", func(context.Context) error {
		if p.send("GET", "/agents/"+agent, nil)["published_version"] != 2.0 {
			return errNotThere
		}
		return nil
	})
}

// The settings of an agent's search are in its form, and numbers of any precision stay unchanged.
func TestHowAnAgentSearchesIsSet(t *testing.T) {
	t.Parallel()
	p := start(t)
	base := p.makes("knowledge_base_id", "/knowledge-bases", object{"name": "Handbook"})
	agent := p.makes("agent_id", "/agents", object{"name": "Librarian", "knowledge_base_ids": []string{base},
		"model": object{"provider": "demo", "temperature": 0.75}})
	tab := signedIn(t, p, "#/agents/"+agent)
	saves := func(least string, most, want any) {
		t.Helper()
		tab.types("spinbutton", "Least score", least)
		tab.click("button", "Save")
		tab.until("the agent searches so", func(context.Context) error {
			k := p.send("GET", "/agents/"+agent, nil)["knowledge"].(object)
			if k["max_per_document"] != most || k["min_score"] != want {
				return fmt.Errorf("it searches as %v", k)
			}
			return nil
		})
	}
	assert.Equal(t, "3", tab.value("spinbutton", "Passages of one document"))
	tab.types("spinbutton", "Passages of one document", "2")
	saves("0.025", 2.0, 0.025)
	saves("\b", 2.0, nil)
}

// A list of names takes commas while one types.
func TestNamesAreTypedWithCommas(t *testing.T) {
	t.Parallel()
	p := start(t)
	tab := signedIn(t, p, "#/agents/new")
	tab.choose("Approval", "the tools named here")
	tab.types("textbox", "Tools that need approval", "echo, calculate")
	assert.Equal(t, "echo, calculate", tab.value("textbox", "Tools that need approval"))
}

// Enter twice does a thing once.
func TestEnterTwiceConfirmsOnce(t *testing.T) {
	t.Parallel()
	p := start(t)
	p.send("POST", "/groups", object{"name": "Readers"})
	way := newBetween(t, p)
	way.goesWrong(func(_ http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodDelete {
			time.Sleep(500 * time.Millisecond)
		}
		return false
	})
	tab := signedInThrough(t, way, p, "#/groups")
	tab.click("link", "Readers")
	tab.click("button", "Delete")
	tab.find("button", "Confirm")
	tab.focus("button", "Confirm")
	tab.press(keyEnter, keyEnter)
	tab.see("There are no groups yet.")
	assert.Equal(t, 1, way.total(http.MethodDelete))
}

// When a decision fails, the typed text stays. It also stays when the user chooses another decision.
func TestADecisionThatIsNotTakenKeepsWhatWasTyped(t *testing.T) {
	t.Parallel()
	p := start(t)
	way := newBetween(t, p)
	run := p.send("POST", "/chat", formOf("agent_id", careful(p),
		"message", "/tool echo {\"text\":\"first\"}\n/ask Which city?"))["run_id"].(string)
	tab := signedInThrough(t, way, p, "#/runs/"+run)
	tab.click("button", "Edit")
	tab.fill("text", "second")
	tab.click("button", "Approve")
	tab.see("Approved with other arguments.")
	tab.click("button", "Change")
	assert.Equal(t, "second", tab.value("textbox", "text"))
	tab.click("button", "Approve")
	way.goesWrong(refuses("POST", "/resume", http.StatusServiceUnavailable))
	tab.fill("Answer", "a long answer")
	tab.click("button", "Answer")
	tab.see("Not now.")
	assert.Equal(t, "a long answer", tab.value("textbox", "Answer"))
	tab.see("Approved with other arguments.")
	way.goesWrong(refuses("POST", "/resume", http.StatusUnauthorized))
	tab.click("button", "Answer")
	tab.find("dialog", "Sign in again")
	way.goesWrong(nil)
	tab.fill("API key", p.key)
	tab.click("button", "Sign in")
	tab.gone("Sign in again")
	assert.Equal(t, "a long answer", tab.value("textbox", "Answer"))
	tab.click("button", "Answer")
	tab.see("Answer: a long answer")
	tab.see("echo → second")
}

// keyEnter and the like are keys of the keyboard.
var (
	keyEnter  = [2]any{"Enter", int64(13)}
	keyEscape = [2]any{"Escape", int64(27)}
	keyTab    = [2]any{"Tab", int64(9)}
)

// press presses keys, one after the other.
func (p *page) press(keys ...[2]any) {
	p.t.Helper()
	for _, k := range keys {
		for _, kind := range []input.KeyType{input.KeyDown, input.KeyUp} {
			e := input.DispatchKeyEvent(kind).WithKey(k[0].(string)).WithCode(k[0].(string)).
				WithWindowsVirtualKeyCode(k[1].(int64))
			if k == keyEnter && kind == input.KeyDown {
				e = e.WithText("\r")
			}
			p.do(e)
		}
	}
}
