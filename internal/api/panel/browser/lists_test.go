//go:build browser

package browser

import (
	"context"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/assert"
)

// manyGroups makes 120 groups, whose list has three pages. The first is the oldest, and stands last.
func manyGroups(p *program) (ids []string) {
	for n := range 120 {
		made := p.send("POST", "/groups", object{"name": fmt.Sprintf("Group %03d", n)})
		ids = append(ids, made["group_id"].(string))
	}
	return ids
}

// toTheEnd scrolls until a text is in the page.
func (p *page) toTheEnd(text string) {
	p.t.Helper()
	p.until("the text "+text+" at the end", func(context.Context) error {
		p.evaluate(`scrollTo(0, document.documentElement.scrollHeight)`, nil)
		var there bool
		p.do(chromedp.Evaluate(`document.body.innerText.includes(`+quoted(text)+`)`, &there))
		if !there {
			return errNotThere
		}
		return nil
	})
}

// Rows after the first page are renewed like those of it, and go when their objects have gone.
func TestRowsBehindTheFirstPageAreOfNow(t *testing.T) {
	t.Parallel()
	p := start(t)
	groups := manyGroups(p)
	tab := signedIn(t, p, "#/groups")
	tab.toTheEnd("Group 000")
	p.send("PATCH", "/groups/"+groups[3], object{"name": "Renamed by another"})
	tab.see("Renamed by another")
	p.send("DELETE", "/groups/"+groups[2], nil)
	tab.gone("Group 002")
	for n := range 3 { // new rows stand above; none between is missing
		p.send("POST", "/groups", object{"name": fmt.Sprintf("Later %d", n)})
	}
	tab.evaluate(`scrollTo(0, 0)`, nil)
	tab.see("Later 2")
	tab.toTheEnd("Group 000")
	tab.until("every row once", func(context.Context) error {
		var names []string
		tab.evaluate(`[...document.querySelectorAll('tbody tr td:first-child')].map((c) => c.innerText)`, &names)
		if len(names) != 122 {
			return fmt.Errorf("%d rows", len(names))
		}
		return nil
	})
}

// A key on the second page that is revoked there goes from the list.
func TestAKeyOfTheSecondPageIsRevoked(t *testing.T) {
	t.Parallel()
	p := start(t)
	var user any
	for n := range 70 {
		if n%40 == 0 { // a user may have 50
			user = p.send("POST", "/users", object{"email": fmt.Sprintf("keys-%d@example.com", n)})["user_id"]
		}
		p.send("POST", "/api-keys", object{"name": fmt.Sprintf("key %02d", n), "level": "read", "user_id": user})
	}
	tab := signedIn(t, p, "#/api-keys")
	tab.toTheEnd("key 03")
	tab.clickIn("key 03", "Revoke")
	tab.click("button", "Confirm")
	tab.gone("key 03")
}

// Further rows that cannot be read are not requested again and again.
func TestFurtherRowsAreAskedForWithPatience(t *testing.T) {
	t.Parallel()
	p := start(t)
	manyGroups(p)
	way := newBetween(t, p)
	way.goesWrong(func(w http.ResponseWriter, r *http.Request) bool {
		return r.FormValue("cursor") != "" && refuses("GET", "/groups", http.StatusTooManyRequests)(w, r)
	})
	tab := signedInThrough(t, way, p, "#/groups")
	tab.see("Group 119")
	tab.evaluate(`scrollTo(0, document.documentElement.scrollHeight)`, nil)
	tab.see("Not now.")
	before := way.times("GET", "/groups")
	tab.do(chromedp.Sleep(2 * time.Second))
	assert.LessOrEqual(t, way.times("GET", "/groups")-before, 6)
	way.goesWrong(nil)
	tab.click("button", "Try again")
	tab.toTheEnd("Group 000")
}

// A filter that is chosen while another is being typed is not undone by it.
func TestFiltersDoNotUndoEachOther(t *testing.T) {
	t.Parallel()
	p := start(t)
	tab := signedIn(t, p, "#/runs")
	tab.find("heading", "Runs")
	tab.fill("Chat", "some-chat")
	tab.choose("Status", "completed")
	tab.until("both filters in the address", func(context.Context) error {
		var at string
		tab.evaluate(`location.hash`, &at)
		if at != "#/runs?status=completed&chat_id=some-chat" {
			return fmt.Errorf("at %s", at)
		}
		return nil
	})
}

// A user who acts in another organization sees nothing of the one before, not for a moment.
func TestNothingOfTheOrganizationBeforeIsSeen(t *testing.T) {
	t.Parallel()
	p := needsOperator(t)
	p.send("POST", "/organizations", object{"name": "Tenant"})
	p.send("POST", "/chat", formOf("agent_id", p.demo(), "message", "/ask Which city?"))
	way := newBetween(t, p)
	tab := signedInThrough(t, way, p, "#/inbox")
	tab.see("Which city?")
	way.goesWrong(func(w http.ResponseWriter, r *http.Request) bool {
		refused := refuses("GET", "/interrupts", http.StatusServiceUnavailable)
		return r.Header.Get("X-Organization") != "" && refused(w, r)
	})
	tab.choose("Organization", "Tenant")
	tab.see("Not now.")
	assert.NotContains(t, tab.text(), "Which city?")
}

// A list shows the beginning of a run's message. The message and the id lead to the run's page. The filter finds the
// runs of a key.
func TestRunsAreKnownByTheirFirstWords(t *testing.T) {
	t.Parallel()
	p := start(t)
	demo := p.demo()
	other := p.send("POST", "/api-keys", object{"name": "Nightly", "level": "run"})
	run := p.makes("run_id", "/chat", formOf("agent_id", demo, "message", "what is\nthe weather?"))
	p.as(other["key"].(string)).send("POST", "/chat", formOf("agent_id", demo, "message", "by the other key"))
	tab := signedIn(t, p, "#/runs")
	tab.see("by the other key")
	tab.find("link", run)
	tab.click("link", "what is the weather?")
	tab.find("heading", run)
	tab.visit("#/runs")
	tab.choose("API key", "Nightly")
	tab.gone("what is the weather?")
	tab.see("by the other key")
	tab.visit("#/overview")
	tab.find("link", "what is the weather?")
}

// New rows above the rows that a user reads wait there, and nothing moves.
func TestNewRowsWaitAboveWhereOneReads(t *testing.T) {
	t.Parallel()
	p := start(t)
	manyGroups(p)
	tab := signedIn(t, p, "#/groups")
	tab.see("Group 119")
	const top = `[...document.querySelectorAll('tbody a')].find((a) => a.innerText === 'Group 100')
		.getBoundingClientRect().top`
	tab.evaluate(`scrollTo(0, 800)`, nil)
	var before, after float64
	tab.evaluate(top, &before)
	p.send("POST", "/groups", object{"name": "Later"})
	tab.find("button", "1 new")
	tab.evaluate(top, &after)
	assert.InDelta(t, before, after, 0.5)
	assert.NotContains(t, tab.text(), "Later")
	tab.click("button", "1 new")
	tab.see("Later")
	tab.gone("1 new")
}

// A list that the service gives in several pages is read to its end.
func TestAllPagesOfARunsInterruptsAreRead(t *testing.T) {
	t.Parallel()
	p := start(t)
	run := p.makes("run_id", "/chat", formOf("agent_id", p.demo(), "message", "hello"))
	way := newBetween(t, p)
	way.goesWrong(func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path != "/api/v1/runs/"+run+"/interrupts" {
			return false
		}
		page := `{"interrupts":[{"id":"%s","kind":"clarification","pause":%d,"prompt":"?",` +
			`"created_at":"2026-01-02T03:04:05Z","decision":{"decision":"%s","at":"2026-01-02T03:05:05Z"}}],` +
			`"next_cursor":%s}`
		if r.FormValue("cursor") == "" {
			_, _ = fmt.Fprintf(w, page, "a", 1, "of the first page", `"more"`)
		} else {
			_, _ = fmt.Fprintf(w, page, "b", 2, "of the second page", "null")
		}
		return true
	})
	tab := signedInThrough(t, way, p, "#/runs/"+run)
	tab.see("of the first page")
	tab.see("of the second page")
}
