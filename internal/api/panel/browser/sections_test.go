//go:build browser

package browser

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A document is uploaded and fails; it is mended, found, and cited by an answer that leads to the place.
func TestADocumentIsUploadedFailsIsMendedFoundAndCited(t *testing.T) {
	t.Parallel()
	there := false
	pages := site(t, sitePages, func(w http.ResponseWriter, _ *http.Request) {
		if !there {
			http.Error(w, "not yet", http.StatusNotFound)
			return
		}
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		_, _ = w.Write([]byte("Of leave.\n\nEverybody has twenty-six days of holiday in a year."))
	})
	p := start(t, "KNOWLEDGE_ALLOW_HOSTS="+strings.TrimPrefix(pages.URL, "http://"))
	tab := signedIn(t, p, "")
	tab.section("Knowledge")
	tab.fill("Name", "Handbook")
	tab.click("button", "Create base")
	tab.find("heading", "Handbook")

	file := filepath.Join(t.TempDir(), "notes.txt")
	require.NoError(t, os.WriteFile(file, []byte("The canteen opens at noon."), 0o600))
	broken := filepath.Join(t.TempDir(), "broken.pdf")
	require.NoError(t, os.WriteFile(broken, []byte("%PDF-1.7 and nothing more"), 0o600))
	tab.choosesFiles("#documents", file, broken)
	tab.click("button", "Upload")
	tab.find("link", "notes.txt")
	tab.find("link", "broken.pdf")
	tab.until("notes.txt ready", rowHas(tab, "notes.txt", "ready"))
	tab.until("the failure of broken.pdf", rowHas(tab, "broken.pdf", "failed"))

	tab.click("button", "Add document")
	tab.choose("From", "an address")
	tab.fill("Title", "Leave")
	tab.fill("URL", pages.URL+"/leave.txt")
	tab.clickInDialog("Add document")
	tab.find("link", "Leave")
	tab.until("the failure of Leave", rowHas(tab, "Leave", "failed"))
	there = true
	tab.clickIn("Leave", "Try again")
	tab.until("Leave ready", rowHas(tab, "Leave", "ready"))

	tab.fill("Search for", "days of holiday")
	tab.click("button", "Search")
	tab.find("article", "Hit in Leave")
	tab.see("score")

	base := p.send("GET", "/knowledge-bases", nil)["knowledge_bases"].([]any)[0].(object)["knowledge_base_id"]
	agent := p.send("POST", "/agents", object{"name": "Librarian", "knowledge_base_ids": []any{base}})
	tab.visit("#/chat?agent=" + agent["agent_id"].(string))
	tab.find("heading", "Chat")
	tab.fill("Message", "/search days of holiday")
	tab.click("button", "Send")
	tab.click("link", "Citation 1")
	tab.find("heading", "Leave")
	tab.see("twenty-six days of holiday")
}

// An agent is created, edited as a draft, published, compared and tried.
func TestAnAgentIsCreatedEditedPublishedAndCompared(t *testing.T) {
	t.Parallel()
	p := start(t)
	tab := signedIn(t, p, "")
	tab.section("Agents")
	tab.click("button", "Create agent")
	tab.find("heading", "New agent")
	tab.fill("Name", "Scribe")
	tab.fill("Instructions", "Write it down.")
	tab.click("button", "Create agent")
	tab.find("heading", "Scribe")
	tab.fill("Instructions", "Write it down.\nTwice.")
	tab.click("button", "Save")
	tab.see("Version 2 is a draft: new runs use version 1.")
	tab.click("button", "Publish")
	tab.gone("is a draft")
	tab.click("button", "Differences of version 2")
	tab.see("+ Twice.")
	tab.click("button", "Close")
	tab.click("link", "Try version 2")
	tab.find("heading", "Chat")
	tab.fill("Message", "hello")
	tab.click("button", "Send")
	tab.see("You said: hello")
}

// A toolkit is made by its form; a tool of it is tried, and switched off.
func TestAToolkitIsMadeTriedAndRuled(t *testing.T) {
	t.Parallel()
	weather := site(t, siteWeather, func(w http.ResponseWriter, r *http.Request) {
		_, _ = w.Write([]byte("Rain in " + r.FormValue("city")))
	})
	p := start(t, "TOOL_ALLOW_HOSTS="+strings.TrimPrefix(weather.URL, "http://"))
	tab := signedIn(t, p, "")
	tab.section("Toolkits")
	tab.click("button", "Create toolkit")
	tab.choose("Kind", "one HTTP request")
	tab.fill("Name", "Weather")
	tab.fill("URL", weather.URL+"/now")
	tab.fill("Tool name", "weather")
	tab.fill("Query arguments", "city")
	tab.fill("Parameters", `{"type":"object","properties":{"city":{"type":"string"}},"required":["city"]}`)
	tab.click("button", "Create toolkit")
	tab.find("heading", "Weather")
	at := toolkitCalled(p, "Weather")
	require.NoError(t, enabled(p, at, "weather", true)(t.Context()))
	tab.click("button", "Try weather")
	tab.fill("city", "Lisbon")
	tab.click("button", "Try")
	tab.see("Rain in Lisbon")
	tab.click("switch", "Enable weather")
	tab.until("a tool that is off", enabled(p, at, "weather", false))
	tab.see("off")
}

// A refresh shows its changes, and makes them when the user confirms.
func TestARefreshIsSeenBeforeItIsTaken(t *testing.T) {
	t.Parallel()
	const operation = `"get":{"operationId":"%s","responses":{"200":{"description":"ok"}}}`
	paths := fmt.Sprintf(`"/now":{`+operation+`}`, "now")
	described := site(t, siteDescribed, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = fmt.Fprintf(w, `{"openapi":"3.1.0","info":{"title":"w","version":"1"},"paths":{%s}}`, paths)
	})
	p := start(t, "TOOL_ALLOW_HOSTS="+strings.TrimPrefix(described.URL, "http://"))
	made := p.send("POST", "/toolkits", object{"kind": "openapi", "name": "Weather",
		"url": described.URL + "/openapi.json"})
	tab := signedIn(t, p, "#/toolkits/"+made["toolkit_id"].(string))
	tab.find("heading", "Weather")
	paths += fmt.Sprintf(`,"/tomorrow":{`+operation+`}`, "tomorrow")
	tab.click("button", "Refresh")
	tab.see("tomorrow added")
	tab.click("button", "Confirm")
	tab.find("button", "Rules of tomorrow")
	at := "/toolkits/" + made["toolkit_id"].(string)
	require.NoError(t, enabled(p, at, "now", true)(t.Context()))
	require.NoError(t, enabled(p, at, "tomorrow", false)(t.Context()), "what a refresh finds is off")
	assert.Equal(t, "false", tab.of("switch", "Enable tomorrow", `function() { return String(this.checked) }`))
}

// toolkitCalled is where the toolkit with a name is.
func toolkitCalled(p *program, name string) string {
	for _, k := range p.send("GET", "/toolkits", nil)["toolkits"].([]any) {
		if k.(object)["name"] == name {
			return "/toolkits/" + k.(object)["toolkit_id"].(string)
		}
	}
	return ""
}

// enabled checks that a tool is on, or off, as the API has it.
func enabled(p *program, toolkit, tool string, on bool) func(context.Context) error {
	return func(context.Context) error {
		for _, t := range p.send("GET", toolkit+"/tools", nil)["tools"].([]any) {
			if t.(object)["name"] == tool && t.(object)["enabled"] == on {
				return nil
			}
		}
		return fmt.Errorf("there is no tool%s that is so", tool)
	}
}

// People, groups and settings are made and changed.
func TestPeopleAreManaged(t *testing.T) {
	t.Parallel()
	p := start(t)
	tab := signedIn(t, p, "")
	tab.section("Groups")
	tab.fill("Name", "Readers")
	tab.click("button", "Create group")
	tab.find("link", "Readers")
	tab.section("Users")
	tab.fill("E-mail", "ada@example.com")
	tab.fill("Name", "Ada")
	tab.choose("Role", "manager")
	tab.click("button", "Create user")
	tab.find("link", "ada@example.com")
	tab.fill("E-mail", "bob@example.com")
	tab.evaluate(`document.querySelector('main form details').open = true`, nil)
	tab.click("checkbox", "Readers")
	tab.types("spinbutton", "Cap of active runs", "3")
	tab.click("button", "Create user")
	tab.find("link", "bob@example.com")
	tab.until("his group and cap", rowHas(tab, "bob@example.com", "Readers"))
	tab.until("his group and cap", rowHas(tab, "bob@example.com", "3"))
	tab.click("link", "ada@example.com")
	tab.find("heading", "Ada")
	tab.click("checkbox", "Readers")
	tab.click("button", "Save")
	tab.section("Groups")
	tab.click("link", "Readers")
	tab.find("link", "ada@example.com")
	tab.section("Settings")
	tab.fill("Name", "Renamed")
	tab.click("button", "Save")
	tab.until("the new name", func(context.Context) error {
		if p.send("GET", "/organization", nil)["name"] != "Renamed" {
			return errNotThere
		}
		return nil
	})
	tab.section("Audit log")
	tab.see("create user")
}

// A push that no receiver accepts is listed with its attempts, and sent again.
func TestADeliveryIsSeenAndSentAgain(t *testing.T) {
	t.Parallel()
	taken := make(chan string, 10)
	var attempts atomic.Int64
	receiver := site(t, siteReceiver, func(w http.ResponseWriter, r *http.Request) {
		taken <- r.Header.Get("Webhook-Id")
		if attempts.Add(1) == 3 {
			time.Sleep(time.Second) // it is slow, so that the page is read while the try is under way
		}
		w.WriteHeader(http.StatusTeapot)
	})
	p := start(t, "WEBHOOK_ALLOW_HOSTS="+strings.TrimPrefix(receiver.URL, "https://"),
		"WEBHOOK_CA_FILE="+trusted(t, receiver))
	p.send("POST", "/chat", formOf("agent_id", p.demo(), "message", "hello", "callback_url", receiver.URL))
	tab := signedIn(t, p, "")
	tab.section("Webhooks")
	tab.see("418")
	first := <-taken
	tab.click("button", "Redeliver")
	assert.Equal(t, first, <-taken)
	tab.click("link", "terminal")
	tab.see("status 418")
	tab.reload()
	tab.see("status 418")
	tab.click("button", "Redeliver")
	assert.Equal(t, first, <-taken)
	tab.until("three tries", func(context.Context) error {
		var shown int
		if tab.evaluate(`document.querySelectorAll('main ol > li').length`, &shown); shown != 3 {
			return fmt.Errorf("%d tries", shown)
		}
		return nil
	})
	tab.click("link", "Back to Webhooks")
	tab.fill("Callback URL", receiver.URL)
	tab.click("button", "Send test")
	tab.see("status 418")
}

// A run is seen with its steps in time, and cancelled with a reason.
func TestARunIsSeenAndCancelled(t *testing.T) {
	t.Parallel()
	p := start(t)
	sent := formOf("agent_id", p.demo(), "wait", "false", "message", "/sleep 60s")
	run := p.makes("run_id", "/chat", sent)
	tab := signedIn(t, p, "")
	tab.section("Runs")
	tab.click("link", run)
	tab.find("heading", run)
	tab.click("button", "Cancel run")
	tab.fill("Reason", "no longer needed")
	tab.click("button", "Confirm")
	tab.see("no longer needed")
	tab.is(p, "/runs/"+run, "status", "cancelled")
	tab.until("the status", factIs(tab, "Status", "cancelled"))
	tab.see("Queued")
}

// Many runs are stopped in one step, after the number of them was shown.
func TestManyRunsAreStopped(t *testing.T) {
	t.Parallel()
	p := start(t)
	var runs []string
	for range 3 {
		sent := formOf("agent_id", p.demo(), "wait", "false", "message", "/sleep 60s")
		runs = append(runs, p.makes("run_id", "/chat", sent))
	}
	tab := signedIn(t, p, "#/runs")
	tab.click("button", "Stop")
	tab.click("button", "Count")
	tab.see("This stops 3 active runs.")
	tab.click("button", "Confirm")
	tab.see("3 runs stopped.")
	tab.click("button", "Done")
	for _, run := range runs {
		tab.until(run+" cancelled", rowHas(tab, run, "cancelled"))
	}
}

// A message may have files, and they come back unchanged, in the chat and on the page of the run.
func TestAMessageTakesFilesAlong(t *testing.T) {
	t.Parallel()
	p := start(t)
	way := newBetween(t, p)
	tab := signedInThrough(t, way, p, "#/chat?agent="+p.demo())
	file := filepath.Join(t.TempDir(), "notes.txt")
	require.NoError(t, os.WriteFile(file, []byte("The canteen opens at noon."), 0o600))
	tab.find("heading", "Chat")
	tab.choosesFiles("#files", file)
	tab.fill("Message", "look at this")
	tab.click("button", "Send")
	tab.see("You said: look at this")
	tab.saves()
	run := p.send("GET", "/runs", nil)["runs"].([]any)[0].(object)["run_id"].(string)
	for n, path := range []string{"", "#/runs/" + run} {
		if path != "" {
			tab.visit(path)
			tab.find("heading", run)
		}
		tab.click("button", "Download notes.txt")
		assert.Equal(t, "The canteen opens at noon.", tab.saved(n+1))
	}
}

// A member sees on every page the level that it needs, and the page does not break.
func TestAMemberSeesWhichLevelAPageNeeds(t *testing.T) {
	t.Parallel()
	p := start(t)
	user := p.send("POST", "/users", object{"email": "m@example.com", "role": "member"})
	key := p.send("POST", "/api-keys", object{"name": "m", "level": "run", "user_id": user["user_id"]})
	tab := signedIn(t, p.as(key["key"].(string)), "")
	tab.see("These are your own runs")
	for _, section := range []string{"Users", "Groups", "API keys", "Audit log", "Settings"} {
		tab.section(section)
		tab.see("needs a key of level admin; yours has run.")
	}
	for _, section := range []string{
		"Chat", "Runs", "Inbox", "Agents", "Toolkits", "Knowledge", "Webhooks", "Analytics",
	} {
		tab.section(section)
	}
}

// The address has the user's place: it survives reload, and the way back.
func TestADeepLinkSurvivesReload(t *testing.T) {
	t.Parallel()
	p := start(t)
	run := p.makes("run_id", "/chat", formOf("agent_id", p.demo(), "message", "hello"))
	tab := signedIn(t, p, "#/runs/"+run)
	tab.find("heading", run)
	tab.reload()
	tab.find("heading", run)
	tab.click("link", "Runs")
	tab.find("heading", "Runs")
	tab.click("button", "Forget key")
	tab.find("textbox", "API key")
}

// A part of a document is chosen when its toolkit is made, and later; the page counts the chosen tools.
func TestAPartOfAToolkitIsChosen(t *testing.T) {
	t.Parallel()
	var paths []string
	for i := range 600 {
		paths = append(paths, fmt.Sprintf(`"/p/%d":{"get":{"operationId":"op_%d","tags":["t%d"]}}`, i, i, i%200))
	}
	described := site(t, siteLarge, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = fmt.Fprintf(w, `{"openapi":"3.1.0","info":{"title":"w","version":"1"},"paths":{%s}}`,
			strings.Join(paths, ","))
	})
	p := start(t, "TOOL_ALLOW_HOSTS="+strings.TrimPrefix(described.URL, "http://"))
	tab := signedIn(t, p, "#/toolkits/new")
	tab.choose("Kind", "OpenAPI document")
	tab.fill("Name", "Large")
	tab.fill("URL", described.URL+"/openapi.json")
	tab.click("button", "Create toolkit")
	tab.see("over 500 operations (600): choose some with include")
	tab.fill("Include", "tag:t1, op_7")
	tab.click("button", "Create toolkit")
	tab.find("heading", "Large")
	tab.see("tag:t1, op_7")
	at := toolkitCalled(p, "Large")
	require.NoError(t, enabled(p, at, "op_7", true)(t.Context()))
	tab.fill("Exclude", "op_1")
	tab.click("button", "Choose tools")
	tab.see("Chosen.")
	tab.until("a tool that stays", enabled(p, at, "op_201", true))
	assert.InEpsilon(t, 3, p.send("GET", at, nil)["tool_count"], 0)
}
