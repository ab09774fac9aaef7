//go:build browser

package browser

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/cdproto/heapprofiler"
	cdppage "github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/performance"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/api/panel"
)

// pretended is a service that has many runs, which change at each look; the panel before it is the real one.
type pretended struct {
	*httptest.Server
	runs  int
	polls atomic.Int64 // at the first page
	pages atomic.Int64 // requested pages of runs
}

func pretend(t *testing.T, runs int) *pretended {
	t.Helper()
	s := &pretended{runs: runs}
	mux := http.NewServeMux()
	panel.New().Routes(mux.Handle)
	answer := func(path string, give func(*http.Request) any) {
		mux.HandleFunc("GET /api/v1"+path, func(w http.ResponseWriter, r *http.Request) {
			_ = json.NewEncoder(w).Encode(give(r))
		})
	}
	key := object{"api_key_id": "k", "name": "k", "level": "admin", "prefix": "ap_", "organization_id": "o"}
	answer("/me", func(*http.Request) any {
		return object{"level": "admin", "api_key": key, "user": object{"user_id": "u", "email": "u@example.com"},
			"organization": object{"organization_id": "o", "name": "o"}, "budgets": []any{}}
	})
	for path, list := range map[string]string{"/agents": "agents", "/users": "users"} {
		answer(path, func(*http.Request) any { return object{list: []any{}, "next_cursor": nil} })
	}
	answer("/interrupts", func(*http.Request) any {
		return object{"interrupts": []any{}, "next_cursor": nil, "waiting": s.polls.Load() % 3}
	})
	answer("/runs", func(r *http.Request) any { return s.page(r) })
	s.Server = httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return s
}

// page is a page of runs, newest first. Those of the first page go on at each request, and a new one comes now and
// then.
func (s *pretended) page(r *http.Request) any {
	poll := int(s.polls.Load())
	s.pages.Add(1)
	limit, _ := strconv.Atoi(r.FormValue("limit"))
	from := s.runs + poll/10
	if c := r.FormValue("cursor"); c != "" {
		from, _ = strconv.Atoi(c)
	} else {
		s.polls.Add(1)
	}
	rows, next := []any{}, any(nil)
	for n := from; n > 0 && len(rows) < limit; n-- {
		rows = append(rows, object{"run_id": fmt.Sprintf("%024x", n), "chat_id": "c", "agent_id": "a", "user_id": "u",
			"status": []string{"queued", "running", "completed"}[(n+poll)%3], "created_at": "2026-01-02T03:04:05.678Z",
			"active_ms": poll, "usage": object{"input_tokens": poll, "output_tokens": n}})
	}
	if from > limit {
		next = strconv.Itoa(from - limit)
	}
	return object{"runs": rows, "next_cursor": next}
}

// A list of 10,000 runs is scrolled to its end. Only the rows in view are in the page, and no frame inserts more than
// these. Few pages of the list are requested twice.
func TestAListOfTenThousandRunsDrawsOnlyWhatIsInView(t *testing.T) {
	s := pretend(t, 10_000)
	tab := open(t, s.URL)
	tab.signIn("key")
	tab.visit("#/runs")
	tab.find("heading", "Runs")
	tab.until("rows", func(context.Context) error {
		var rows int
		if tab.do(chromedp.Evaluate(`document.querySelectorAll('main tbody tr').length`, &rows)); rows < 50 {
			return errNotThere
		}
		return nil
	})
	var seen struct {
		Rows, Added float64 // together in the page; elements that came in one frame
		Text        string
	}
	requested := s.pages.Load()
	const scroll = `new Promise((resolve) => {
		const begun = performance.now()
		let rows = 0, added = 0, most = 0
		new MutationObserver((all) => {
			for (const m of all) for (const n of m.addedNodes) added += 1 + (n.querySelectorAll?.('*').length ?? 0)
		}).observe(document.querySelector('main'), { childList: true, subtree: true })
		const step = (now) => {
			most = Math.max(most, added)
			added = 0
			rows = Math.max(rows, document.querySelectorAll('main tbody tr').length)
			const text = document.querySelector('main .count').innerText.trim()
			scrollBy(0, 3000)
			if (text.startsWith('10,0') && !text.includes('so far') || now - begun > 60000) {
				return resolve({ Rows: rows, Added: most, Text: text })
			}
			requestAnimationFrame(step)
		}
		requestAnimationFrame(step)
	})`
	ctx, cancel := context.WithTimeout(tab.ctx, 90*time.Second)
	defer cancel()
	require.NoError(t, chromedp.Run(ctx, chromedp.Evaluate(scroll, &seen, awaited)))
	requested = s.pages.Load() - requested
	t.Logf("%s: at most %.0f rows in the page, %.0f new elements in a frame; %d pages requested",
		seen.Text, seen.Rows, seen.Added, requested)
	assert.Regexp(t, `^10,0\d\d`, seen.Text)
	assert.Less(t, seen.Rows, 400.0)
	assert.Less(t, seen.Added, 400*40.0, "elements of the rows in view")
	assert.Less(t, requested, int64(400), "pages: a hundred, and those in view again as time passes")
}

// The page receives as many updates as in an hour, each of them different from the last. It holds no more at the end.
func TestAnHourOfUpdatesLeavesNothingBehind(t *testing.T) {
	t.Parallel() // it measures its own tab
	s := pretend(t, 1000)
	tab := open(t, s.URL)
	tab.do(chromedp.ActionFunc(func(ctx context.Context) error { // an hour in a minute
		const hurried = `{ const late = window.setTimeout
			window.setTimeout = (f, ms, ...rest) => late(f, ms > 1000 ? 25 : ms, ...rest) }`
		_, err := cdppage.AddScriptToEvaluateOnNewDocument(hurried).Do(ctx)
		return err
	}), performance.Enable(), chromedp.Reload())
	tab.signIn("key")
	tab.visit("#/runs")
	tab.find("heading", "Runs")
	after := func(polls int64) map[string]float64 {
		end := s.polls.Load() + polls
		for s.polls.Load() < end {
			tab.do(chromedp.Sleep(50 * time.Millisecond))
		}
		return tab.countObjects()
	}
	before, hour := after(100), after(900)
	t.Logf("before: %v; after 900 updates: %v", before, hour)
	assert.LessOrEqual(t, hour["Nodes"], before["Nodes"]*1.2+200)
	assert.LessOrEqual(t, hour["JSEventListeners"], before["JSEventListeners"]*1.2+50)
	assert.LessOrEqual(t, hour["JSHeapUsedSize"], before["JSHeapUsedSize"]+3<<20)
}

// countObjects counts the objects of the page, after a garbage collection.
func (p *page) countObjects() map[string]float64 {
	all := map[string]float64{}
	collect := heapprofiler.CollectGarbage()
	p.do(runtime.ReleaseObjectGroup(held), collect, collect, chromedp.ActionFunc(func(ctx context.Context) error {
		metrics, err := performance.GetMetrics().Do(ctx)
		for _, m := range metrics {
			if slices.Contains([]string{"Nodes", "JSEventListeners", "JSHeapUsedSize"}, m.Name) {
				all[m.Name] = m.Value
			}
		}
		return err
	}))
	return all
}

// Streams, charts and dialogs that were closed leave nothing: no listener, no node, no timer.
func TestStreamsChartsAndDialogsLeaveNothingBehind(t *testing.T) {
	t.Parallel() // it measures its own tab
	p := start(t)
	demo := p.demo()
	p.send("POST", "/chat", formOf("agent_id", demo, "chat_id", "one", "message", "/stream 300 1ms"))
	tab := signedIn(t, p, "#/overview")
	tab.do(performance.Enable())
	round := func(times int) map[string]float64 {
		for range times {
			tab.visit("#/chat?agent=" + demo)
			tab.find("heading", "Chat")
			tab.fill("Message", "/stream 200 1ms")
			tab.press(keyEnter)
			tab.see("198 199 200")
			tab.find("button", "Send")
			tab.visit("#/analytics?group_by=agent")
			tab.see("Runs as a table")
			tab.visit("#/runs")
			tab.find("heading", "Runs")
			tab.click("button", "Stop")
			tab.find("dialog", "Stop runs")
			tab.press(keyEscape)
		}
		tab.visit("#/nowhere")
		tab.find("heading", "Not found")
		return tab.countObjects()
	}
	before, after := round(4), round(16)
	t.Logf("before: %v; after 16 more rounds: %v", before, after)
	assert.LessOrEqual(t, after["Nodes"], before["Nodes"]+200)
	assert.LessOrEqual(t, after["JSEventListeners"], before["JSEventListeners"]+20)
	assert.LessOrEqual(t, after["JSHeapUsedSize"], before["JSHeapUsedSize"]+1<<20)
}

// firstPage is the work until the overview shows its first figures.
type firstPage struct {
	Files, Questions int     // requests for files of the panel, and to the API
	Bytes, Fetched   float64 // of these files, compressed; of them over the network
	Elements         float64 // in the document
}

// A browser sends few requests from opening the address until the overview shows its first figures. With a full cache
// it requests no file again.
func TestFirstPage(t *testing.T) {
	p := start(t)
	p.send("POST", "/chat", formOf("agent_id", p.demo(), "message", "hello"))
	const watch = `if (performance.timeOrigin) {
		performance.setResourceTimingBufferSize(1000)
		new MutationObserver((_, o) => {
			const figures = [...document.querySelectorAll('.figure b')]
			if (figures.length < 3 || figures.some((f) => f.innerText === '…')) return
			o.disconnect()
			const all = performance.getEntriesByType('resource')
			const files = all.filter((r) => !r.name.includes('/api/v1/'))
			const sum = (of, member) => of.reduce((n, r) => n + r[member], 0)
			window.usable = { Files: files.length, Questions: all.length - files.length,
				Bytes: sum(files, 'encodedBodySize'), Fetched: sum(files, 'transferSize'),
				Elements: document.querySelectorAll('*').length }
		}).observe(document, { childList: true, subtree: true, characterData: true })
	}`
	tab := open(t, p.url)
	tab.do(chromedp.ActionFunc(func(ctx context.Context) error {
		_, err := cdppage.AddScriptToEvaluateOnNewDocument(watch).Do(ctx)
		return err
	}), chromedp.Evaluate(`sessionStorage.setItem('key', `+quoted(p.key)+`)`, nil))
	load := func(ignoreCache bool) *firstPage {
		tab.do(chromedp.ActionFunc(func(ctx context.Context) error {
			return cdppage.Reload().WithIgnoreCache(ignoreCache).Do(ctx)
		}))
		var seen *firstPage
		tab.until("the figures", func(ctx context.Context) error {
			if err := chromedp.Evaluate(`window.usable`, &seen).Do(ctx); err != nil || seen == nil {
				return errNotThere
			}
			return nil
		})
		return seen
	}
	cold, warm := load(true), load(false)
	t.Logf("with an empty cache: %+v; with a full one: %+v", *cold, *warm)
	for _, seen := range []*firstPage{cold, warm} {
		assert.LessOrEqual(t, seen.Files, 70, "files")
		assert.LessOrEqual(t, seen.Questions, 20, "requests to the API")
		assert.LessOrEqual(t, seen.Bytes, 250*1024.0, "bytes of files, compressed")
		assert.LessOrEqual(t, seen.Elements, 1500.0, "elements")
	}
	assert.Zero(t, warm.Fetched, "bytes of files that were requested again")
}
