//go:build browser

package browser

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"testing"
)

// A request that is never answered does not hold what is shown: it is given up and made again.
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

// A stream on which nothing comes any more, not even a sign of life, is opened anew.
func TestAStreamThatFallsSilentIsOpenedAnew(t *testing.T) {
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

// Something that several parts of a page look at is renewed as the one wants it that wants it most often: who edits a
// call asks for its run once, the page as long as the run goes on.
func TestAPageRenewsItselfWhileSomebodyEdits(t *testing.T) {
	t.Parallel()
	p := start(t)
	run := p.send("POST", "/chat", formOf("agent_id", careful(p),
		"message", "/tool echo {\"text\":\"first\"}"))["run_id"].(string)
	way := newBetween(t, p)
	tab := signedInThrough(t, way, p, "#/runs/"+run)
	tab.click("button", "Edit")
	tab.find("textbox", "text")
	asked := way.times("GET", "/runs/"+run)
	tab.until("the page asking again", func(context.Context) error {
		if way.times("GET", "/runs/"+run) < asked+2 {
			return errNotThere
		}
		return nil
	})
	p.send("POST", "/runs/"+run+"/cancel", object{})
	tab.until("the end of the run", factIs(tab, "Status", "cancelled"))
}

// silentOnce takes the first GET of a path that ends so, and says nothing more.
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
