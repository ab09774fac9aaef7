//go:build browser

package browser

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
)

// The overview counts active work, and names the work that needs a user.
func TestTheOverviewShowsActiveAndWaitingWork(t *testing.T) {
	t.Parallel()
	p := start(t)
	base := p.send("POST", "/knowledge-bases", object{"name": "Handbook"})["knowledge_base_id"].(string)
	p.send("POST", "/knowledge-bases/"+base+"/documents", fileOf("scan.pdf", "%PDF-1.7 and nothing more"))
	_, _ = p.request("POST", "/chat", formOf("agent_id", p.demo(), "message", "/fail the printer is on fire"))
	p.send("POST", "/chat", formOf("agent_id", p.demo(), "message", "/ask Which city?"))
	p.send("POST", "/chat", formOf("agent_id", p.demo(), "wait", "false", "message", "/sleep 60s"))
	tab := signedIn(t, p, "")
	tab.find("link", "1 active now, of at most 1,000")
	tab.find("link", "1 waiting for people")
	tab.find("link", "1 failures of the last day")
	tab.see("Which city?")
	tab.see("ends in 71 hours") // of 72, which are not two days
	tab.click("link", "1 document failed")
	tab.find("heading", "Failed documents")
	tab.find("link", "scan.pdf")
}

// An operator acts in another organization, and comes back.
func TestAnOperatorActsInAnotherOrganization(t *testing.T) {
	t.Parallel()
	p := needsOperator(t)
	p.send("POST", "/organizations", object{"name": "Tenant"})
	tab := signedIn(t, p, "#/groups")
	tab.find("heading", "Groups")
	tab.choose("Organization", "Tenant")
	tab.section("Settings")
	tab.until("the name of the other organization", func(ctx context.Context) error {
		_, err := tab.query(ctx, "heading", "Organization")
		return err
	})
	tab.see("Tenant")
	tab.section("Groups")
	tab.fill("Name", "Of the tenant")
	tab.click("button", "Create group")
	tab.find("link", "Of the tenant")
	assert.Empty(t, p.send("GET", "/groups", nil)["groups"])
	tab.choose("Organization", "local")
	tab.gone("Of the tenant")
}
