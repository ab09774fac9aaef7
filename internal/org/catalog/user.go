package catalog

import (
	"strings"
	"time"

	"agentplatform/internal/store/record"
)

// User is an owner of keys and runs.
type User struct {
	ID           string         `json:"user_id"`
	Organization string         `json:"organization_id"`
	Email        string         `json:"email"`
	Name         string         `json:"name"`
	Role         string         `json:"role"`
	GroupIDs     []string       `json:"group_ids,omitzero"`
	Cap          int            `json:"concurrency_cap,omitzero"` // 0: the organization's
	Budget       *record.Budget `json:"budget,omitzero"`
	OperatorKeys *int           `json:"operator_keys,omitzero"` // how many operator keys it has; nil: never counted
	CreatedAt    time.Time      `json:"created_at"`
	UpdatedAt    time.Time      `json:"updated_at"`
}

// Placed implements [record.Resourceful].
func (u User) Placed() (string, string, string) { return "user", u.ID, u.Organization }

// Email reserves an e-mail address for a user of an organization. It is written and deleted with its user.
type Email struct {
	Address      string `json:"address"` // in the form in which addresses are compared
	Organization string `json:"organization_id"`
	UserID       string `json:"user_id"`
}

// Placed implements [record.Resourceful].
func (e Email) Placed() (string, string, string) {
	return "email", EmailID(e.Organization, e.Address), e.Organization
}

// EmailID is the id of the reservation of an address in an organization. It ignores the case of letters.
func EmailID(organization, address string) string {
	return record.DerivedID("email/"+strings.ToLower(address), organization)
}
