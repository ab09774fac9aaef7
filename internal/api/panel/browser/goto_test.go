//go:build browser

package browser

import (
	"context"
	"testing"

	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// goTo opens the field by its keys, and types into it.
func (p *page) goTo(text string) {
	p.t.Helper()
	p.do(chromedp.KeyEvent("k", chromedp.KeyModifiers(input.ModifierCtrl)))
	p.find("dialog", "Go to")
	p.do(chromedp.KeyEvent(text)) // the field has the focus
}

// A pasted id opens its object, and so does the name of an object that has one, by keyboard alone.
func TestAnythingIsOpenedByItsIdOrName(t *testing.T) {
	t.Parallel()
	p := start(t)
	sent := formOf("agent_id", p.demo(), "chat_id", "talk", "message", "hello", "title", "A talk")
	run := p.makes("run_id", "/chat", sent)
	clerk := p.makes("agent_id", "/agents", object{"name": "Careful clerk"})
	ada := p.makes("user_id", "/users", object{"email": "ada@example.com", "name": "Ada", "role": "member"})
	base := p.makes("knowledge_base_id", "/knowledge-bases", object{"name": "Handbook"})
	document := p.makes("document_id", "/knowledge-bases/"+base+"/documents", object{"title": "Leave", "text": "days"})
	tab := signedIn(t, p, "#/overview")
	for _, c := range []struct{ text, link, heading string }{
		{run, "", run},
		{clerk, "Careful clerk agent", "Careful clerk"}, {"clerk", "Careful clerk agent", "Careful clerk"},
		{ada, "Ada user", "Ada"}, {"ada@exa", "Ada (ada@example.com) user", "Ada"},
		{document, "Leave document", "Leave"}, {"talk", "A talk chat", "Chat"},
		{"audit", "Audit log section", "Audit log"},
	} {
		tab.goTo(c.text)
		if c.link == "" { // the page shows when
			tab.until("the run", func(context.Context) error {
				var there bool
				if tab.evaluate(`!!document.querySelector('.found a[href="#/runs/`+run+`"]')`, &there); !there {
					return errNotThere
				}
				return nil
			})
		} else {
			tab.find("link", c.link)
		}
		tab.press(keyEnter)
		tab.find("heading", c.heading)
		tab.gone("Enter opens the first hit.")
	}
	tab.goTo("no such thing")
	tab.see("Nothing with this id or name is visible to you.")
	tab.press(keyEscape)
	tab.gone("Enter opens the first hit.")
	tab.visit("#/find/" + document)
	tab.find("heading", "Leave")
	tab.visit("#/audit-log?kind=document")
	tab.click("link", document)
	tab.find("heading", "Leave")
}

// An address of the panel with an id that would lead a request elsewhere in the API finds nothing.
func TestAnAddressLeadsNoRequestElsewhere(t *testing.T) {
	t.Parallel()
	p := start(t)
	user := p.makes("user_id", "/users", object{"email": "ada@example.com", "name": "Ada", "role": "member"})
	key := p.makes("api_key_id", "/api-keys", object{"name": "kept", "level": "run", "user_id": user})
	tab := signedIn(t, p, "#/overview")
	for _, id := range []string{"..", ".", "...", "%2E%2E", "%252E%252E", "..%2Fapi-keys%2F" + key,
		"x%2F..%2F..%2Fapi-keys%2F" + key, "%3Flimit=1", "a%23b", "a%5Cb"} {
		for _, section := range []string{"users", "chat", "runs", "knowledge"} {
			tab.visit("#/overview")
			tab.visit("#/" + section + "/" + id)
			tab.see("Nothing with this id is visible to you.")
		}
	}
	var refused string
	tab.do(chromedp.Evaluate(`import(performance.getEntriesByType('resource').find((e) => /api[.]js/.test(e.name)).name)
		.then((api) => api.remove('/chats/' + encodeURIComponent('..')))
		.then(() => 'sent', (e) => String(e))`, &refused,
		func(p *runtime.EvaluateParams) *runtime.EvaluateParams { return p.WithAwaitPromise(true) }))
	if refused != "Error: This id is not valid." {
		t.Errorf("a request went to an address that its path does not have: %s", refused)
	}
}
