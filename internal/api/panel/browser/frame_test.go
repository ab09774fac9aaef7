//go:build browser

package browser

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/assert"
)

// UTC is readable for a user who reaches a time by keyboard: nothing cuts it off, in a table or in a dialog.
func TestUTCIsReadOnFocus(t *testing.T) {
	t.Parallel()
	p := start(t)
	for range 3 {
		p.send("POST", "/chat", formOf("agent_id", p.demo(), "message", "hello"))
	}
	tab := signedIn(t, p, "#/runs")
	seen := func(times string) {
		t.Helper()
		tab.until("a time in UTC that can be read", func(context.Context) error {
			var text string
			tab.do(chromedp.Evaluate(`(() => {
				const all = [...document.querySelectorAll(`+quoted(times)+`)], last = all[all.length - 1]
				if (!last) return ''
				last.focus()
				const at = last.getBoundingClientRect()
				const below = document.elementFromPoint(at.left + 20, at.bottom + 12)
				const box = below?.getBoundingClientRect()
				const whole = box && box.left >= 0 && box.right <= innerWidth && box.bottom <= innerHeight
				return whole ? below.textContent : ''
			})()`, &text))
			if len(text) != len("2026-01-02 03:04:05 UTC") || text[len(text)-3:] != "UTC" {
				return errNotThere
			}
			return nil
		})
	}
	seen("main .table time")
	tab.press(keyEscape)
	var shown int
	tab.evaluate(`[...document.querySelectorAll('.hint')].filter((h) => h.checkVisibility()).length`, &shown)
	assert.Zero(t, shown, "Escape takes it away")
	tab.visit("#/api-keys")
	tab.fill("Name", "turned")
	tab.click("button", "Create key")
	tab.click("button", "Done")
	tab.clickIn("turned", "Rotate")
	tab.click("button", "Confirm")
	tab.see("The previous secret is valid until")
	seen("dialog time")
}

// The sign-in over the page, and a text that is shown once, are not closed by accident.
func TestWhatMustNotBeLeftIsNotLeftByEscape(t *testing.T) {
	t.Parallel()
	p := start(t)
	made := p.send("POST", "/api-keys", object{"name": "short", "level": "admin"})
	tab := signedIn(t, p.as(made["key"].(string)), "")
	tab.section("API keys")
	tab.fill("Name", "Story key")
	tab.click("button", "Create key")
	tab.find("button", "Copy key")
	tab.press(keyEscape, keyEscape)
	tab.do(chromedp.Sleep(200 * time.Millisecond))
	tab.click("button", "Done")
	tab.fill("Name", "Another")
	p.send("DELETE", "/api-keys/"+made["api_key_id"].(string), nil)
	tab.find("dialog", "Sign in again")
	for range 3 {
		tab.press(keyEscape)
		tab.do(chromedp.Sleep(100 * time.Millisecond))
	}
	tab.fill("API key", p.key)
	tab.click("button", "Sign in")
	tab.gone("Sign in again")
	assert.Equal(t, "Another", tab.value("textbox", "Name"))
}

// A request with the old key that is refused late does not open the sign-in again.
func TestALateRefusalDoesNotAskToSignInAgain(t *testing.T) {
	t.Parallel()
	p := start(t)
	way := newBetween(t, p)
	tab := signedInThrough(t, way, p, "#/groups")
	tab.fill("Name", "Readers")
	held, requested := make(chan bool), make(chan bool, 1)
	way.goesWrong(func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method != http.MethodPost {
			return refuses("GET", "/interrupts", http.StatusUnauthorized)(w, r)
		}
		requested <- true
		<-held
		return refuses("POST", "/groups", http.StatusUnauthorized)(w, r)
	})
	tab.click("button", "Create group")
	<-requested
	tab.find("dialog", "Sign in again")
	way.goesWrong(nil)
	second := p.makes("key", "/api-keys", object{"name": "second", "level": "admin"})
	tab.fill("API key", second)
	tab.click("button", "Sign in")
	tab.gone("Sign in again")
	close(held)
	tab.see("Not now.")
	tab.do(chromedp.Sleep(300 * time.Millisecond))
	assert.NotContains(t, tab.text(), "Sign in again")
	assert.Equal(t, "Readers", tab.value("textbox", "Name"))
}

// A page, or a row, that breaks shows an error, and the rest of the panel goes on.
func TestAPageThatBreaksShowsAnError(t *testing.T) {
	t.Parallel()
	p := start(t)
	way := newBetween(t, p)
	const half = `{"knowledge_base_id":"b","name":"half"}`
	way.goesWrong(func(w http.ResponseWriter, r *http.Request) bool {
		answer, there := map[string]string{
			"/api/v1/knowledge-bases":   `{"knowledge_bases":[` + half + `],"next_cursor":null}`,
			"/api/v1/knowledge-bases/b": half,
		}[r.URL.Path]
		if !there {
			return false
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(answer))
		return true
	})
	tab := signedInThrough(t, way, p, "#/knowledge")
	tab.breaks = true
	tab.see("This row cannot be shown")
	tab.find("heading", "Knowledge")
	tab.visit("#/knowledge/b")
	tab.see("This page cannot be shown")
	tab.section("Groups")
	way.goesWrong(nil)
	tab.section("Knowledge")
	tab.see("There are no knowledge bases")
}

// A deleted object is not shown as a live one: not the page of its own key, nor an object that another user has deleted
// meanwhile.
func TestWhatHasGoneIsNotShownAsIfItLived(t *testing.T) {
	t.Parallel()
	p := start(t)
	key := p.makes("api_key_id", "/api-keys", object{"name": "Story key", "level": "read"})
	group := p.makes("group_id", "/groups", object{"name": "Readers"})
	tab := signedIn(t, p, "#/api-keys/"+key)
	tab.click("button", "Revoke")
	tab.click("button", "Confirm")
	tab.find("heading", "API keys")
	tab.visit("#/groups/" + group)
	tab.find("button", "Save")
	p.send("DELETE", "/groups/"+group, nil)
	tab.find("alert", "")
	tab.gone("Add member")
}
