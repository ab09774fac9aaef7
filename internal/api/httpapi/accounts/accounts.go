// Package accounts is the area of the API for organizations, users, groups and API keys.
//
// It holds no rule about rights over these; the rules are tenant's. It imports the framework above it and no other
// area.
package accounts

import (
	"context"
	"time"

	"agentplatform/internal/api/httpapi"
	"agentplatform/internal/org/tenant"
	"agentplatform/internal/platform/host"
	"agentplatform/internal/platform/problem"
	"agentplatform/internal/store/record"
)

// answer is short for signatures.
type answer[T any] = httpapi.Answer[T]

// handlers are the operations of the area.
type handlers struct {
	*httpapi.Server

	Store *record.Store
}

// Routes adds the area's operations to a server.
func Routes(s *httpapi.Server, store *record.Store) {
	h := &handlers{Server: s, Store: store}
	h.organizationRoutes()
	h.userRoutes()
	h.keyRoutes()
	h.groupRoutes()
	h.budgetRoutes()
	h.activityRoutes()
	meta := httpapi.Routes{Server: s, Tag: "meta", Read: tenant.LevelRead}
	httpapi.Route(meta, "GET /me", "me", "Read the owner, level and limits of this key", h.me)
}

// admins has the common settings of the operations of admins on a kind of resource.
func (h *handlers) admins(tag, what string) httpapi.Routes {
	return httpapi.Routes{Server: h.Server, Tag: tag, What: what, Read: tenant.LevelAdmin, Write: tenant.LevelAdmin}
}

// own is the principal's organisation. It returns a problem not_found for a principal without one.
func own(p tenant.Principal) (string, error) {
	if p.Organization == record.NoOrganization {
		return "", problem.New(problem.NotFound, "not_found",
			"this key has no organization: use another key, or send X-Organization with a key of level operator")
	}
	return p.Organization, nil
}

// overlap is the body of a request that gives a secret or a key a new text.
type overlap struct {
	OverlapSeconds *int `json:"overlap_seconds,omitempty" minimum:"0" maximum:"2592000" doc:"how long the old secret stays valid; one day by default; 0 revokes it immediately"`
}

func (o *overlap) duration() time.Duration {
	if o == nil || o.OverlapSeconds == nil {
		return tenant.DefaultOverlap
	}
	return time.Duration(*o.OverlapSeconds) * time.Second
}

// target is the organisation that a creation is for: the principal's own, or the one that an operator names.
func (h *handlers) target(ctx context.Context, p tenant.Principal, named httpapi.Nullable[string]) (string, error) {
	if !named.Present {
		return p.Organization, nil
	}
	wanted := record.NoOrganization
	if named.Value != nil {
		if wanted = *named.Value; wanted == "" {
			return "", problem.InvalidField("body.organization_id", "must be an identifier, or null for none")
		}
		if !host.ValidID(wanted) {
			return "", problem.InvalidField(
				"body.organization_id", "must be an identifier of 24 hex digits, or null for none",
			)
		}
	}
	if wanted == p.Organization {
		return wanted, nil
	}
	if !p.Level.Covers(tenant.LevelOperator) {
		return "", problem.Outside("organization")
	}
	if wanted == record.NoOrganization {
		return wanted, nil
	}
	_, err := h.Tenants.ReadOrganization(ctx, wanted)
	return wanted, err
}

// reach is the scope in which a principal may manage users and keys: operators manage those of all organisations.
func (h *handlers) reach(p tenant.Principal) record.Scope {
	if p.Level.Covers(tenant.LevelOperator) {
		return record.System()
	}
	return p.Scope()
}
