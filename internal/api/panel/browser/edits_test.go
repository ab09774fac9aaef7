//go:build browser

package browser

import (
	"context"
	"fmt"
	"net/http"
	"testing"

	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/assert"
)

// is waits until a member of the API's answer has a value.
func (p *page) is(of *program, path, member string, value any) {
	p.t.Helper()
	p.until(fmt.Sprintf("%s of %s: %v", member, path, value), func(context.Context) error {
		if got := of.send("GET", path, nil)[member]; !assert.ObjectsAreEqual(value, got) {
			return fmt.Errorf("it is %v", got)
		}
		return nil
	})
}

// A save does not undo another user's change. Only edited fields are sent, and the page reports fields that both have
// changed.
func TestASaveUndoesNothingOfAnothers(t *testing.T) {
	t.Parallel()
	p := start(t)
	group := p.makes("group_id", "/groups", object{"name": "Readers"})
	user := "/users/" + p.send("POST", "/users", object{"email": "ada@example.com", "name": "Ada", "role": "member",
		"group_ids": []string{group}})["user_id"].(string)
	tab := signedIn(t, p, "#"+user)
	tab.find("checkbox", "Readers")
	tab.fill("Name", "Ada Lovelace")
	p.send("PATCH", user, object{"group_ids": []string{}, "email": "lovelace@example.com"})
	tab.until("the other's address", func(context.Context) error {
		if tab.value("textbox", "E-mail") != "lovelace@example.com" {
			return errNotThere
		}
		return nil
	})
	tab.click("button", "Save")
	tab.find("heading", "Ada Lovelace")
	assert.Equal(t, []any{}, p.send("GET", user, nil)["group_ids"])

	tab.fill("Name", "Countess")
	p.send("PATCH", user, object{"name": "A. Lovelace"})
	tab.see("Another user has changed")
	assert.Equal(t, "Countess", tab.value("textbox", "Name"))
	tab.click("button", "Take theirs")
	assert.Equal(t, "A. Lovelace", tab.value("textbox", "Name"))
	tab.gone("Another user has changed")
}

// A save that comes too late is refused, shows the conflict, and goes on from there.
func TestASaveThatComesTooLateGoesOn(t *testing.T) {
	t.Parallel()
	p := start(t)
	way := newBetween(t, p)
	group := "/groups/" + p.makes("group_id", "/groups", object{"name": "Readers"})
	tab := signedInThrough(t, way, p, "#"+group)
	tab.fill("Description", "who reads")
	once := false
	way.goesWrong(func(_ http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodPatch && !once {
			once = true
			p.send("PATCH", group, object{"name": "Readers of books"})
		}
		return false
	})
	tab.click("button", "Save")
	tab.find("alert", "")
	tab.find("heading", "Readers of books")
	assert.Equal(t, "who reads", tab.value("textbox", "Description"))
	tab.click("button", "Save")
	tab.is(p, group, "description", "who reads")
	assert.Equal(t, "Readers of books", p.send("GET", group, nil)["name"])
}

// An untouched field is not sent: a key keeps the second at which it ends.
func TestTheNameOfAKeyIsChangedAlone(t *testing.T) {
	t.Parallel()
	p := start(t)
	key := p.send("POST", "/api-keys", object{"name": "key", "level": "read", "expires_at": "2033-01-02T03:04:05.678Z"})
	at := "/api-keys/" + key["api_key_id"].(string)
	tab := signedIn(t, p, "#"+at)
	tab.fill("Name", "renamed")
	tab.click("button", "Save")
	tab.is(p, at, "name", "renamed")
	assert.Equal(t, "2033-01-02T03:04:05.678Z", p.send("GET", at, nil)["expires_at"])
}

// Every button that removes something names it and asks.
func TestWhatTakesSomethingAwayAsks(t *testing.T) {
	t.Parallel()
	p := start(t)
	group := p.makes("group_id", "/groups", object{"name": "Readers"})
	p.send("POST", "/users", object{"email": "ada@example.com", "role": "member", "group_ids": []string{group}})
	run := p.makes("run_id", "/chat", formOf("agent_id", p.demo(), "wait", "false", "message", "/sleep 60s"))
	p.send("POST", "/runs/"+run+"/followups", object{"message": "and then this"})
	tab := signedIn(t, p, "#/groups/"+group)
	tab.find("link", "ada@example.com")
	tab.click("button", "Remove")
	tab.find("dialog", "Remove ada@example.com?")
	tab.click("button", "Keep")
	assert.Len(t, p.send("GET", "/groups/"+group+"/members", nil)["members"], 1)
	tab.click("button", "Remove")
	tab.click("button", "Confirm")
	tab.see("The group has no members.")

	tab.visit("#/runs/" + run)
	tab.click("button", "Withdraw")
	tab.find("dialog", "Withdraw this message?")
	tab.click("button", "Confirm")
	tab.gone("and then this")

	tab.visit("#/webhooks")
	tab.choose("Both stay valid", "not at all")
	tab.click("button", "Rotate secret")
	tab.find("dialog", "Replace the secret immediately?")
	tab.click("button", "Confirm")
	tab.find("button", "Copy secret")
	tab.click("button", "Done")
}

// An agent's page shows which of its tools need an approval.
func TestAnAgentShowsWhichToolsNeedApproval(t *testing.T) {
	t.Parallel()
	p := start(t)
	tab := signedIn(t, p, "#/agents/"+careful(p))
	tab.until("the approval", rowHas(tab, "calculate", "always"))
}

// A currency that is emptied is the default again.
func TestACurrencyIsTakenBack(t *testing.T) {
	t.Parallel()
	p := start(t)
	usual := p.send("GET", "/organization", nil)["currency"]
	p.send("PATCH", "/organization", object{"currency": "CHF"})
	tab := signedIn(t, p, "#/settings")
	tab.types("textbox", "Currency", kb.Backspace)
	tab.click("button", "Save")
	tab.is(p, "/organization", "currency", usual)
}

// A refusal that ends in days has the time in days.
func TestABudgetThatIsUsedUpShowsWhenItEnds(t *testing.T) {
	t.Parallel()
	p := start(t)
	p.send("PATCH", "/organization", object{"budget": object{"period": "month", "max_runs": 1}})
	tab := signedIn(t, p, "#/chat?agent="+p.demo())
	for _, message := range []string{"one", "two"} {
		tab.fill("Message", message)
		tab.click("button", "Send")
		if message == "one" {
			tab.see("You said: one")
		}
	}
	tab.see("is used up")
	assert.Regexp(t, `Try again in \d{1,2} (d|h|min|s)`, tab.text())
}

// The visibility of chats is set for the organization, for an agent and for a key. A key of a level that always sees
// all chats has no such field.
func TestWhoSeesChatsIsSet(t *testing.T) {
	t.Parallel()
	p := start(t)
	agent := "/agents/" + p.demo()
	key := "/api-keys/" + p.makes("api_key_id", "/api-keys", object{"name": "monitor", "level": "read"})
	wide := "/api-keys/" + p.makes("api_key_id", "/api-keys", object{"name": "wide", "level": "manage"})
	p.send("PATCH", "/organization", object{"chat_visibility": "organization"})
	tab := signedIn(t, p, "#/settings")
	tab.choose("Who sees chats", "Only their user and managers")
	tab.click("button", "Save")
	tab.is(p, "/organization", "chat_visibility", "own")
	tab.visit("#" + agent)
	tab.choose("Who sees chats", "Only their user and managers")
	tab.click("button", "Save")
	tab.is(p, agent, "chat_visibility", "own")
	tab.visit("#" + key)
	tab.choose("Sees chats", "All users, for monitoring")
	tab.click("button", "Save")
	tab.is(p, key, "sees", "organization")
	tab.see("of everybody")
	tab.visit("#" + wide)
	tab.find("button", "Save")
	tab.gone("Sees chats")
}
