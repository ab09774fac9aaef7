package catalog

import (
	"time"

	"agentplatform/internal/store/record"
)

// APIKey is a key as it is stored: never its text.
type APIKey struct {
	ID            string         `json:"api_key_id"` // an identifier
	Public        string         `json:"public"`     // the 8 hex digits in the key's text
	Organization  string         `json:"organization_id"`
	UserID        string         `json:"user_id"`
	Name          string         `json:"name"`
	Level         string         `json:"level"`
	Sees          Visibility     `json:"sees,omitzero"` // empty: [SeesOwn], and what the organization and agents show
	Prefix        string         `json:"prefix"`
	Hash          string         `json:"hash"` // SHA-256 of the key's text, hex
	PreviousHash  string         `json:"previous_hash,omitzero"`
	PreviousUntil time.Time      `json:"previous_until,omitzero"`
	Earlier       []Earlier      `json:"earlier,omitempty"` // hashes before the previous one that are still good
	ExpiresAt     time.Time      `json:"expires_at,omitzero"`
	Budget        *record.Budget `json:"budget,omitzero"`
	CreatedAt     time.Time      `json:"created_at"`
	UpdatedAt     time.Time      `json:"updated_at"`
}

// Placed implements [record.Resourceful].
func (k APIKey) Placed() (string, string, string) { return "api_key", k.ID, k.Organization }

// Earlier is a value from before a rotation, and when it expires.
type Earlier struct {
	Value string    `json:"value"`
	Until time.Time `json:"until"`
}

// KeyCount counts the valid API keys of a user, or of an organization.
type KeyCount struct {
	ID           string    `json:"id"` // of the user or the organization
	Organization string    `json:"organization_id"`
	Count        int       `json:"count"`
	At           time.Time `json:"at"` // when a key was created, or all were counted, last
}

// Placed implements [record.Resourceful].
func (k KeyCount) Placed() (string, string, string) { return "key_count", k.ID, k.Organization }

// KeyPointer leads from the public part of a key's text to the key.
type KeyPointer struct {
	Public       string `json:"public"`
	Organization string `json:"organization_id"`
	KeyID        string `json:"api_key_id"`
}

// Placed implements [record.Resourceful].
func (p KeyPointer) Placed() (string, string, string) { return "key_pointer", p.Public, p.Organization }
