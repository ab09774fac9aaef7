package httpapi

import (
	"context"
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"agentplatform/events"
	"agentplatform/internal/host"
	"agentplatform/internal/problem"
	"agentplatform/internal/record"
	"agentplatform/internal/tenant"
)

// What the routes of resources share: answers, preconditions, pages, and whose a resource is.

// answer is the output of most endpoints.
type answer[T any] struct {
	ETag string `header:"ETag"`
	Body T
}

// Match is the If-Match header.
type Match struct {
	IfMatch string `header:"If-Match" doc:"Only if the resource still has this ETag"`
}

func (m Match) precondition() record.Match {
	v := strings.Trim(strings.TrimPrefix(m.IfMatch, "W/"), `"`)
	if v == "" || v == "*" {
		return 0
	}
	n, err := strconv.ParseInt(v, 10, 64)
	if err != nil || n <= 0 {
		return -1 // matches nothing
	}
	return record.Match(n)
}

func etag(version int64) string { return `"` + strconv.FormatInt(version, 10) + `"` }

// Paging is the query of lists.
type Paging struct {
	Limit  int    `query:"limit" minimum:"1" maximum:"100" default:"20"`
	Cursor string `query:"cursor" doc:"next_cursor of the page before"`
}

// maxPage is how many bytes a page of a list may have; its first row may have more by itself.
const maxPage = 1 << 20

// page counts the bytes of a page. A list of what may be large ends its pages by them, too: a hundred runs may have
// hundreds of megabytes.
type page struct{ rows, bytes int }

// takes says whether a row still has room on the page.
func (p *page) takes(row any) bool {
	b, err := json.Marshal(row)
	p.rows++
	p.bytes += len(b)
	return err != nil || p.rows == 1 || p.bytes <= maxPage
}

// IDPath is the path of a resource.
type IDPath struct {
	ID string `path:"id"`
}

func (in IDPath) check(what string) error {
	if !host.ValidID(in.ID) {
		return problem.Missing(what + " " + in.ID)
	}
	return nil
}

// resources reads a page of a listing.
func resources[T record.Resourceful](ctx context.Context, s *Server, scope record.Scope, in Paging) (record.Page[record.Entity[T]], error) {
	after, err := decodeCursor(in.Cursor)
	if err != nil {
		return record.Page[record.Entity[T]]{}, err
	}
	return record.Resources[T](ctx, s.Store, scope, after, in.Limit)
}

// own is the principal's organisation; there is none in the scope of none.
func own(p tenant.Principal) (string, error) {
	if p.Organization.ID == record.Nobody {
		return "", problem.New(problem.NotFound, "not_found", "this key belongs to no organization")
	}
	return p.Organization.ID, nil
}

type overlap struct {
	OverlapSeconds *int `json:"overlap_seconds,omitempty" minimum:"0" maximum:"2592000" doc:"how long the old one stays good; a day by default, 0 ends it at once"`
}

func (o *overlap) duration() time.Duration {
	if o == nil || o.OverlapSeconds == nil {
		return tenant.DefaultOverlap
	}
	return time.Duration(*o.OverlapSeconds) * time.Second
}

func optionalTime(t time.Time) *string {
	if t.IsZero() {
		return nil
	}
	s := events.Time(t)
	return &s
}

func optionalOwner(organization string) *string {
	if organization == record.Nobody {
		return nil
	}
	return &organization
}

// budgetIn is what a body says about a budget.
func budgetIn(body []byte) tenant.BudgetEdit {
	var raw struct {
		Budget json.RawMessage `json:"budget"`
	}
	_ = decode("body", body, &raw) // it has been read before
	return tenant.BudgetEdit(raw.Budget)
}

func isNull(body []byte, member string) bool {
	var raw map[string]json.RawMessage
	return decode("body", body, &raw) == nil && string(raw[member]) == "null"
}

// target is the organisation that a creation is for: the principal's own, or the one that an operator names.
func (s *Server) target(ctx context.Context, p tenant.Principal, named *string, body []byte) (string, error) {
	null := isNull(body, "organization_id")
	switch {
	case named == nil && !null:
		return p.Organization.ID, nil
	case named != nil && *named == "":
		return "", problem.InvalidField("body.organization_id", "must be an identifier, or null for none")
	}
	wanted := record.Nobody
	if !null {
		wanted = *named
		if !host.ValidID(wanted) {
			return "", problem.InvalidField("body.organization_id", "must be an identifier of 24 hex digits, or null for none")
		}
	}
	if wanted == p.Organization.ID {
		return wanted, nil
	}
	if !p.Level.Covers(tenant.LevelOperator) {
		return "", problem.Outside("organization")
	}
	if wanted == record.Nobody {
		return wanted, nil
	}
	_, err := s.Tenants.ReadOrganization(ctx, wanted)
	return wanted, err
}

// reach is the scope in which a principal may manage users and keys: operators manage those of all organisations.
func (s *Server) reach(p tenant.Principal) record.Scope {
	if p.Level.Covers(tenant.LevelOperator) {
		return record.System()
	}
	return p.Scope()
}
