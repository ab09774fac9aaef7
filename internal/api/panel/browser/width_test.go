//go:build browser

package browser

import (
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/assert"
)

// wideText is a text with everything that does not fit a line: a paragraph, a word, an address, a table, code, and
// characters twice as wide as others.
func wideText() string {
	cell := "| " + strings.Repeat("several words of a cell | ", 20) + "\n"
	return strings.Join([]string{
		"**A long paragraph.** " + strings.Repeat("It goes on and on, as answers do. ", 30),
		strings.Repeat("word", 100),
		"https://example.com/" + strings.Repeat("part/of/an/address/", 30),
		cell + "|" + strings.Repeat(" - |", 20) + "\n" + cell,
		"```\n" + strings.Repeat("code(with, arguments); ", 40) + "\n```",
		"- " + strings.Repeat("item", 100) + " and `" + strings.Repeat("code", 100) + "`",
		"> " + strings.Repeat("漢字", 200),
	}, "\n\n")
}

// sideways lists elements that are too wide: the page, and elements that stick out of a box or of the window and do not
// scroll there. Charts take some frames to follow the window.
const sideways = `(async () => {
	let found = ['not looked']
	for (let frames = 0; frames < 60 && found.length > 0; frames++) {
		await new Promise((drawn) => requestAnimationFrame(drawn))
		found = outside()
	}
	return found
})()
function outside() {
	const root = document.documentElement, found = []
	const page = root.scrollWidth > root.clientWidth ? ['the page is ' + root.scrollWidth + ' wide'] : []
	const kept = (e) => {
		for (; e && e !== root; e = e.parentElement) if (getComputedStyle(e).overflowX !== 'visible') return true
		return false
	}
	for (const e of document.querySelectorAll('body *')) {
		const style = getComputedStyle(e), { left, right, width } = e.getBoundingClientRect()
		if (width === 0 || kept(e)) continue
		const out = right > root.clientWidth + 1 || style.display !== 'inline' && e.scrollWidth > e.clientWidth + 1
		if (out) found.push(e)
	}
	const innermost = found.filter((e) => !found.some((o) => o !== e && e.contains(o)))
	return [...page, ...innermost.map((e) => e.outerHTML.slice(0, 200))]
}`

// keepsItsWidth checks that nothing sticks out of a page, wide and narrow.
func (p *page) keepsItsWidth(t *testing.T, what string) {
	t.Helper()
	for _, width := range []int64{1280, 375} {
		p.emulate(width, width == 375)
		var found []string
		p.do(chromedp.Evaluate(sideways, &found, awaited))
		assert.Empty(t, found, "%s, %d wide", what, width)
	}
}

// An answer that is under way wraps as one that has ended does.
func TestAStreamedAnswerStaysWithinThePage(t *testing.T) {
	t.Parallel()
	p := start(t)
	tab := signedIn(t, p, "#/chat?agent="+p.demo())
	tab.find("heading", "Chat")
	tab.fill("Message", wideText()+"\n/stream 100000 30ms")
	tab.click("button", "Send")
	tab.see("1 2 3 4")
	tab.keepsItsWidth(t, "the chat while an answer comes")
	run := p.send("GET", "/runs", nil)["runs"].([]any)[0].(object)["run_id"].(string)
	tab.visit("#/runs/" + run)
	tab.settled()
	tab.keepsItsWidth(t, "the run while it works")
	p.send("POST", fmt.Sprintf("/runs/%s/cancel", run), object{})
}

// Names, questions, arguments, addresses and texts of others are as long as they may be. No page becomes wider.
func TestLongWordsOfOthersStayWithinThePage(t *testing.T) {
	t.Parallel()
	p := start(t)
	word := func(n int) string { return strings.Repeat("w", n) }
	base := p.makes("knowledge_base_id", "/knowledge-bases", object{"name": word(100), "description": word(400)})
	document := p.makes("document_id", "/knowledge-bases/"+base+"/documents", object{"title": word(200),
		"text": "# " + word(300) + "\n\n" + wideText(), "metadata": object{word(60): word(256)}})
	failed := p.makes("document_id", "/knowledge-bases/"+base+"/documents",
		object{"url": "https://receiver.invalid/" + word(300), "title": word(200)})
	ready(p, base, document)
	ready(p, base, failed)
	agent := p.makes("agent_id", "/agents", object{"name": word(100), "description": word(400),
		"instructions": wideText(), "knowledge_base_ids": []string{base}, "approval": object{"mode": "always"}})
	p.send("PATCH", "/agents/"+agent, object{"instructions": word(400) + wideText()})
	group := p.makes("group_id", "/groups", object{"name": word(100), "description": word(400)})
	user := p.makes("user_id", "/users", object{"email": word(60) + "@example.com", "name": word(100),
		"role": "member", "group_ids": []string{group}})
	key := p.makes("api_key_id", "/api-keys", object{"name": word(100), "level": "run", "user_id": user})
	hook := "https://receiver.invalid/" + word(300)
	answered := p.makes("run_id", "/chat", formOf("agent_id", agent, "chat_id", word(100), "title", word(100),
		"message", wideText()+"\n/search goes on", "callback_url", hook,
		"metadata", `{"`+word(40)+`":"`+word(200)+`"}`))
	asks := p.makes("run_id", "/chat", formOf("agent_id", agent, "chat_id", "asks", "title", word(100), "message",
		`/tool calculate {"expression":"`+word(400)+`"}`+"\n/ask "+word(400)))
	_, broken := p.request("POST", "/chat", formOf("agent_id", agent, "chat_id", "fails",
		"message", "/fail "+word(400)))
	p.send("PATCH", "/organization", object{"name": word(100)})
	delivery := p.send("GET", "/webhooks/deliveries", nil)["deliveries"].([]any)[0].(object)["delivery_id"].(string)
	tab := signedIn(t, p, "")
	for _, path := range []string{
		"#/overview", "#/chat", "#/chat/" + word(100), "#/chat/asks", "#/chat/fails",
		"#/runs", "#/runs/" + answered, "#/runs/" + asks, "#/runs/" + broken["run_id"].(string),
		"#/inbox", "#/agents", "#/agents/" + agent, "#/toolkits", "#/knowledge", "#/knowledge?status=failed",
		"#/knowledge/" + base, "#/knowledge/" + base + "/" + document + "?from=2&to=60",
		"#/knowledge/" + base + "/" + failed,
		"#/users", "#/users/" + user, "#/groups", "#/groups/" + group, "#/api-keys", "#/api-keys/" + key,
		"#/webhooks", "#/webhooks/" + delivery, "#/analytics", "#/audit-log", "#/settings", "#/find/" + word(300),
	} {
		tab.visit("#/nowhere") // so that the next page is the one that is measured
		tab.find("heading", "Not found")
		tab.visit(path)
		tab.gone("This page does not exist.")
		tab.settled()
		tab.evaluate(`document.querySelectorAll('details').forEach((d) => { d.open = true })`, nil)
		tab.settled()
		tab.keepsItsWidth(t, path)
	}
	tab.visit("#/knowledge")
	tab.fill("Search for", "on and on")
	tab.click("button", "Search")
	tab.see("score")
	tab.keepsItsWidth(t, "what a search has found")
	tab.visit("#/agents/" + agent)
	tab.click("button", "Differences of version 2")
	tab.find("dialog", "Version 2 compared with the previous one")
	tab.keepsItsWidth(t, "the differences of versions")
}
