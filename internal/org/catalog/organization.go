package catalog

import (
	"time"

	"agentplatform/internal/store/record"
)

// Organization is a tenant.
type Organization struct {
	ID        string `json:"organization_id"`
	Name      string `json:"name"`
	UserCap   int    `json:"user_cap,omitzero"`         // 0: the deployment's default
	Cap       int    `json:"organization_cap,omitzero"` // 0: the deployment's default
	RateLimit int    `json:"rate_limit,omitzero"`       // requests per minute and key; 0: the deployment's default
	RateBurst int    `json:"rate_burst,omitzero"`

	// Of all keys together; 0: the deployment's default.
	OrganizationRate  int `json:"organization_rate_limit,omitzero"`
	OrganizationBurst int `json:"organization_rate_burst,omitzero"`

	Ceilings Limits `json:"ceilings,omitzero"` // set by operators; 0: none

	ChatVisibility Visibility `json:"chat_visibility,omitzero"` // empty: [SeesAll]
	// ListedByUser: all runs, chats and deliveries are in the listings by user. Earlier versions kept none.
	ListedByUser bool `json:"listed_by_user,omitzero"`

	RetentionDays int            `json:"run_retention_days,omitzero"` // 0: runs are kept
	Budget        *record.Budget `json:"budget,omitzero"`

	Prices   []Price `json:"prices,omitzero"` // one for each model; none: costs are not shown
	Currency string  `json:"currency,omitzero"`

	// Sealed for the organization.
	Secret         string    `json:"webhook_secret,omitzero"`
	PreviousSecret string    `json:"previous_webhook_secret,omitzero"`
	PreviousUntil  time.Time `json:"previous_until,omitzero"`           // until then both secrets are in use
	EarlierSecrets []Earlier `json:"earlier_webhook_secrets,omitempty"` // before the previous one, the newest first

	Deleted   bool      `json:"deleted,omitzero"`
	CreatedAt time.Time `json:"created_at"`
	UpdatedAt time.Time `json:"updated_at"`
}

// Placed implements [record.Resourceful].
func (o Organization) Placed() (string, string, string) { return "organization", o.ID, o.ID }

// Visibility selects the users who see chats, with their runs and files, among those that may reach their agents.
type Visibility string

// The visibilities.
const (
	SeesOwn Visibility = "own"          // the user of the chat, and managers
	SeesAll Visibility = "organization" // the whole organization
)

// Price is the price of a model's tokens, per million, in the organization's currency.
type Price struct {
	Model  string  `json:"model"` // provider/name
	Input  float64 `json:"input"`
	Output float64 `json:"output"`
}

// DefaultCurrency is that of prices for which none is named.
const DefaultCurrency = "USD"

// Limits are an organization's limits; 0 is not set.
type Limits struct {
	UserCap   int `json:"user_cap,omitzero"`
	Cap       int `json:"organization_cap,omitzero"`
	RateLimit int `json:"rate_limit,omitzero"`
	RateBurst int `json:"rate_burst,omitzero"`

	OrganizationRate  int `json:"organization_rate_limit,omitzero"`
	OrganizationBurst int `json:"organization_rate_burst,omitzero"`
}
