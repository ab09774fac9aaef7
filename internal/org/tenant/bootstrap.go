package tenant

import (
	"context"

	"agentplatform/internal/org/catalog"
	"agentplatform/internal/store/record"
)

// First is the result of the first start of a deployment.
type First struct {
	Organization catalog.Organization
	Agent        catalog.Agent
	Key          string // its text
}

// Bootstrap creates the organization "local", a user, an operator key and the agent Demo. It makes several commits.
// After an error the earlier commits stay.
func (t *Tenants) Bootstrap(ctx context.Context) (First, error) {
	var f First
	name := "local"
	organization, err := t.CreateOrganization(ctx, OrganizationEdit{Name: &name})
	if err != nil {
		return f, err
	}
	f.Organization = organization.Value
	email, person, role := "operator@localhost", "Operator", string(Admin)
	user, err := t.CreateUser(ctx, Platform(), f.Organization.ID, UserEdit{Email: &email, Name: &person, Role: &role})
	if err != nil {
		return f, err
	}
	spec := t.DefaultSpec(f.Organization.ID)
	spec.Name = "Demo"
	spec.Description = "Repeats its input, deterministically and without a network, and follows /directions."
	agent, err := t.CreateAgent(ctx, f.Organization.ID, spec, true)
	if err != nil {
		return f, err
	}
	f.Agent = agent.Value
	_, f.Key, err = t.CreateKey(ctx, Platform(), record.Of(f.Organization.ID),
		NewKey{Name: "operator", UserID: user.Value.ID, Level: LevelOperator})
	return f, err
}
