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

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A selection in an answer stays while another answer comes, and so does the scroll position.
func TestAnAnswerStaysAsItIsWhileAnotherComes(t *testing.T) {
	t.Parallel()
	p := start(t)
	base := p.makes("knowledge_base_id", "/knowledge-bases", object{"name": "Handbook"})
	document := p.send("POST", "/knowledge-bases/"+base+"/documents", object{"title": "Leave",
		"text": "Everybody has twenty-six days of holiday in a year."})["document_id"].(string)
	ready(p, base, document)
	agent := p.makes("agent_id", "/agents", object{"name": "Librarian", "knowledge_base_ids": []string{base}})
	p.send("POST", "/chat", formOf("agent_id", agent, "chat_id", "cited", "message", "/search days of holiday"))
	tab := signedIn(t, p, "#/chat/cited")
	tab.find("link", "Citation 1")
	tab.fill("Message", "/stream 60 40ms")
	tab.click("button", "Send")
	tab.see("1 2 3")
	tab.focus("link", "Citation 1")
	tab.evaluate(`getSelection().selectAllChildren(document.querySelector('.message.assistant .prose'))`, nil)
	var marked string
	tab.evaluate(`getSelection().toString()`, &marked)
	require.Contains(t, marked, "twenty-six")
	tab.see("58 59 60")
	tab.find("button", "Send")
	tab.do(chromedp.Sleep(300 * time.Millisecond)) // it is read once more when it has ended
	var still, focused string
	tab.evaluate(`getSelection().toString()`, &still)
	tab.evaluate(`document.activeElement.getAttribute('aria-label') ?? document.activeElement.tagName`, &focused)
	assert.Equal(t, marked, still)
	assert.Equal(t, "Citation 1", focused)
}

// A long chat shows its newest turns; those before them come on request.
func TestALongChatShowsItsNewest(t *testing.T) {
	t.Parallel()
	p := start(t)
	for n := range 23 {
		message := fmt.Sprintf("turn number %d.", n)
		p.send("POST", "/chat", formOf("agent_id", p.demo(), "chat_id", "long", "message", message))
	}
	tab := signedIn(t, p, "#/chat/long")
	tab.see("You said: turn number 22.")
	assert.NotContains(t, tab.text(), "You said: turn number 0.")
	tab.click("button", "Earlier messages")
	tab.see("You said: turn number 5.")
	tab.click("button", "Earlier messages")
	tab.see("You said: turn number 0.")
	tab.gone("Earlier messages")
	tab.fill("Message", "and now")
	tab.click("button", "Send")
	tab.see("You said: and now")
	tab.see("You said: turn number 0.")
}

// A message whose answer got lost is not sent twice, and a draft that was typed meanwhile stays.
func TestAMessageIsSentOnceAndWhatWasTypedMeanwhileStays(t *testing.T) {
	t.Parallel()
	p := start(t)
	way := newBetween(t, p)
	tab := signedInThrough(t, way, p, "#/chat?agent="+p.demo())
	tab.find("heading", "Chat")
	way.goesWrong(func(_ http.ResponseWriter, r *http.Request) bool {
		if r.Method != http.MethodPost {
			return false
		}
		taken, err := http.NewRequestWithContext(r.Context(), r.Method, p.url+r.URL.Path, r.Body)
		if err == nil {
			taken.Header = r.Header
			if answer, err := http.DefaultClient.Do(taken); err == nil {
				_ = answer.Body.Close()
			}
		}
		panic(http.ErrAbortHandler) // the service has it, and its answer is lost
	})
	tab.fill("Message", "only once")
	tab.click("button", "Send")
	tab.see("The service cannot be reached.")
	assert.Equal(t, "only once", tab.value("textbox", "Message"))
	release := make(chan bool)
	way.goesWrong(func(_ http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodPost {
			<-release
		}
		return false
	})
	tab.click("button", "Send")
	tab.fill("Message", "the next one")
	close(release)
	tab.see("You said: only once")
	tab.do(chromedp.Sleep(300 * time.Millisecond))
	assert.Equal(t, "the next one", tab.value("textbox", "Message"))
	assert.Len(t, p.send("GET", "/runs", nil)["runs"], 1)
}

// A draft in a chat, with its files, stays while the user looks at another page.
func TestADraftStaysWhileOneLooksElsewhere(t *testing.T) {
	t.Parallel()
	p := start(t)
	p.send("POST", "/chat", formOf("agent_id", p.demo(), "chat_id", "one", "message", "hello"))
	tab := signedIn(t, p, "#/chat/one")
	tab.see("You said: hello")
	file := filepath.Join(t.TempDir(), "notes.txt")
	require.NoError(t, os.WriteFile(file, []byte("The canteen opens at noon."), 0o600))
	tab.choosesFiles("#files", file)
	tab.fill("Message", "half a thought")
	tab.section("Runs")
	tab.visit("#/chat")
	tab.find("heading", "Chat")
	assert.Empty(t, tab.value("textbox", "Message"))
	tab.visit("#/chat/one")
	tab.see("You said: hello")
	assert.Equal(t, "half a thought", tab.value("textbox", "Message"))
	tab.click("button", "Send")
	tab.find("button", "Download notes.txt")
	tab.see("You said: half a thought")
}

// A user who is not an approver gets a notice wherever the approval is shown, and no button to decide.
func TestOthersThanApproversAreNotOfferedToDecide(t *testing.T) {
	t.Parallel()
	p := start(t)
	group := p.makes("group_id", "/groups", object{"name": "Approvers"})
	agent := p.send("POST", "/agents", object{"name": "Careful", "approval": object{"mode": "always"},
		"approver_group_ids": []string{group}})["agent_id"].(string)
	user := p.makes("user_id", "/users", object{"email": "m@example.com", "role": "member"})
	key := p.makes("key", "/api-keys", object{"name": "m", "level": "run", "user_id": user})
	run := p.as(key).send("POST", "/chat", formOf("agent_id", agent, "chat_id", "theirs",
		"message", `/tool echo {"text":"x"}`))["run_id"].(string)
	tab := signedIn(t, p.as(key), "")
	for _, path := range []string{"#/inbox", "#/runs/" + run, "#/chat/theirs"} {
		tab.visit(path)
		tab.see("The agent's approvers decide this")
		tab.until("no offer", func(ctx context.Context) error {
			for _, name := range []string{"Approve", "Reject"} {
				if _, err := tab.query(ctx, "button", name); err == nil {
					return fmt.Errorf("%s is offered at %s", name, path)
				}
			}
			return nil
		})
	}
}

// An approver who may not use the agent decides in the inbox: the card has words, and no dead link.
func TestAnApproverFromOutsideDecides(t *testing.T) {
	t.Parallel()
	p := start(t)
	users := p.makes("group_id", "/groups", object{"name": "Users"})
	approvers := p.makes("group_id", "/groups", object{"name": "Approvers"})
	person := func(name, group string) *program {
		user := p.makes("user_id", "/users",
			object{"email": name + "@example.com", "name": name, "role": "member", "group_ids": []string{group}})
		return p.as(p.makes("key", "/api-keys", object{"name": "k", "level": "run", "user_id": user}))
	}
	olive, ann := person("Olive", users), person("Ann", approvers)
	agent := p.send("POST", "/agents", object{"name": "Payer", "approval": object{"mode": "always"},
		"group_ids": []string{users}, "approver_group_ids": []string{approvers}})["agent_id"].(string)
	pause := func() string {
		form := formOf("agent_id", agent, "message", `/tool echo {"text":"x"}`)
		return olive.send("POST", "/chat", form)["run_id"].(string)
	}
	first := pause()
	tab := signedIn(t, ann, "#/inbox")
	tab.find("heading", "Payer")
	tab.see("for Olive")
	tab.see("/tool echo")
	var links int
	tab.do(chromedp.Evaluate(`document.querySelectorAll('main section.card a').length`, &links))
	assert.Zero(t, links, "what the card leads to is not for the approver")
	tab.click("button", "Edit")
	tab.click("button", "Keep the arguments")
	tab.click("button", "Approve")
	tab.see("No run waits for a human")
	tab.is(p, "/runs/"+first, "status", "completed")

	second := pause()
	tab.visit("#/")
	tab.see("for Olive")
	tab.visit("#/runs/" + second)
	tab.see("May the agent call echo?")
	tab.see("Olive")
	tab.click("button", "Reject")
	tab.is(p, "/runs/"+second, "status", "completed")
}
