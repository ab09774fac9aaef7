package catalog

import (
	"time"

	"agentplatform/internal/store/record"
)

// Group is a set of an organization's users. Each user names its groups.
type Group struct {
	ID           string         `json:"group_id"`
	Organization string         `json:"organization_id"`
	Name         string         `json:"name"`
	Description  string         `json:"description"`
	Budget       *record.Budget `json:"budget,omitzero"`
	CreatedAt    time.Time      `json:"created_at"`
	UpdatedAt    time.Time      `json:"updated_at"`
}

// Placed implements [record.Resourceful].
func (g Group) Placed() (string, string, string) { return "group", g.ID, g.Organization }
