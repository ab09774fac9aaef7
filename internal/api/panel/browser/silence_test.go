//go:build browser

package browser

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"testing"
)

// A request that is never answered does not block the page: it is given up and sent again.
func TestWhatIsNotAnsweredIsAskedForAgain(t *testing.T) {
	t.Parallel()
	p := start(t)
	way := newBetween(t, p)
	tab := signedInThrough(t, way, p, "")
	tab.evaluate(`const within = AbortSignal.timeout.bind(AbortSignal); AbortSignal.timeout = () => within(300)`, nil)
	way.goesWrong(silentOnce("/groups"))
	p.send("POST", "/groups", object{"name": "Late"})
	tab.section("Groups")
	tab.find("link", "Late")
}

// A stream on which nothing comes any more, not even a sign of life, is opened again.
func TestAStreamThatFallsSilentIsOpenedAgain(t *testing.T) {
	t.Parallel()
	p := start(t)
	way := newBetween(t, p)
	tab := signedInThrough(t, way, p, "")
	tab.evaluate(`const later = setTimeout; setTimeout = (f, ms) => later(f, ms === 45000 ? 300 : ms)`, nil)
	way.goesWrong(silentOnce("/stream"))
	started := p.send("POST", "/chat", formOf("agent_id", p.demo(), "wait", "false", "message", "/stream 40 50ms"))
	tab.visit("#/chat/" + started["chat_id"].(string))
	tab.see("38 39 40")
}

// Data that several parts of a page show is renewed as often as the most frequent of them wants. An editor of a call
// requests its run once; the page requests it as long as the run goes on.
func TestAPageRenewsItselfWhileSomebodyEdits(t *testing.T) {
	t.Parallel()
	p := start(t)
	run := p.send("POST", "/chat", formOf("agent_id", careful(p),
		"message", "/tool echo {\"text\":\"first\"}"))["run_id"].(string)
	way := newBetween(t, p)
	tab := signedInThrough(t, way, p, "#/runs/"+run)
	tab.click("button", "Edit")
	tab.find("textbox", "text")
	before := way.times("GET", "/runs/"+run)
	tab.until("the page asking again", func(context.Context) error {
		if way.times("GET", "/runs/"+run) < before+2 {
			return errNotThere
		}
		return nil
	})
	p.send("POST", "/runs/"+run+"/cancel", object{})
	tab.until("the end of the run", factIs(tab, "Status", "cancelled"))
}

// silentOnce takes the first GET of a path with this suffix, and sends nothing more.
func silentOnce(suffix string) func(http.ResponseWriter, *http.Request) bool {
	var once sync.Once
	return func(w http.ResponseWriter, r *http.Request) (taken bool) {
		if r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, suffix) {
			once.Do(func() {
				taken = true
				if suffix == "/stream" {
					w.Header().Set("Content-Type", "application/x-ndjson")
					_ = http.NewResponseController(w).Flush()
				}
				<-r.Context().Done()
			})
		}
		return taken
	}
}
