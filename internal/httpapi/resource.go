package httpapi

import (
	"strconv"
	"strings"
	"time"

	"agentplatform/events"
	"agentplatform/internal/host"
	"agentplatform/internal/problem"
	"agentplatform/internal/record"
)

// Answer is the output of most operations.
type Answer[T any] struct {
	ETag string `header:"ETag"`
	Body T
}

// ETagOf is the ETag of a resource's version.
func ETagOf(version int64) string { return `"` + strconv.FormatInt(version, 10) + `"` }

// Match is the If-Match header.
type Match struct {
	IfMatch string `header:"If-Match" doc:"Only if the resource still has this ETag"`
}

// Precondition is the version that the header asks for, as record has it: 0 for any, -1 for one that nothing has.
func (m Match) Precondition() record.Match {
	v := strings.Trim(strings.TrimPrefix(m.IfMatch, "W/"), `"`)
	if v == "" || v == "*" {
		return 0
	}
	n, err := strconv.ParseInt(v, 10, 64)
	if err != nil || n <= 0 {
		return -1
	}
	return record.Match(n)
}

// IDPath is the path of a resource.
type IDPath struct {
	ID string `path:"id"`
}

// Check returns a problem not_found when the path has what is no identifier, so that there is no such thing.
func (in IDPath) Check(what string) error {
	if !host.ValidID(in.ID) {
		return problem.Missing(what + " " + in.ID)
	}
	return nil
}

// OptionalTime is a time as answers have it; nil for none.
func OptionalTime(t time.Time) *string {
	if t.IsZero() {
		return nil
	}
	s := events.Time(t)
	return &s
}

// OptionalOwner is the organization that owns something; nil for none.
func OptionalOwner(organization string) *string {
	if organization == record.NoOrganization {
		return nil
	}
	return &organization
}
