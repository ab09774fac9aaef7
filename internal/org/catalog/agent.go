package catalog

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"time"

	"agentplatform/internal/ai/tool"
	"agentplatform/internal/platform/problem"
	"agentplatform/internal/store/record"
)

// Agent is an agent in one of its versions.
type Agent struct {
	ID           string    `json:"agent_id"`
	Organization string    `json:"organization_id"`
	Version      int       `json:"version"`
	Published    int       `json:"published_version,omitzero"` // the version that new runs use; 0: the newest
	Spec         AgentSpec `json:"spec"`
	NamedAt      time.Time `json:"named_at,omitzero"` // when its name last changed; zero: never, or not noted
	CreatedAt    time.Time `json:"created_at"`
	UpdatedAt    time.Time `json:"updated_at"`
}

// Placed implements [record.Resourceful].
func (a Agent) Placed() (string, string, string) { return "agent", a.ID, a.Organization }

// Current is the version that new runs use.
func (a Agent) Current() int {
	if a.Published == 0 {
		return a.Version
	}
	return a.Published
}

// Standing reads an agent as it is now, in its newest version, with the published one noted. A deleted agent is read as
// it was at its deletion. It returns a problem of kind NotFound or Forbidden.
func Standing(ctx context.Context, s record.Reader, scope record.Scope, id string) (Agent, error) {
	e, err := record.Resource[Agent](ctx, s, scope, id)
	if !problem.Is(err, "not_found") {
		return e.Value, err
	}
	a, err := record.LastVersion[Agent](ctx, s, scope, id)
	if err != nil {
		return a, err
	}
	removed, err := record.Resource[RemovedAgent](ctx, s, scope, id)
	if problem.Is(err, "not_found") { // an earlier version deleted it
		err = nil
	}
	a.Published = cmp.Or(removed.Value.Published, a.Published)
	return a, err
}

// Published reads the version of an agent that new runs use, or used when it was deleted. It returns a problem of kind
// NotFound or Forbidden.
func Published(ctx context.Context, s record.Reader, scope record.Scope, id string) (Agent, error) {
	a, err := Standing(ctx, s, scope, id)
	if err == nil && a.Current() != a.Version {
		return record.Version[Agent](ctx, s, scope, id, a.Current())
	}
	return a, err
}

// AgentSpec is the part of an agent that a client may set.
type AgentSpec struct {
	Name             string            `json:"name"`
	Description      string            `json:"description"`
	Instructions     string            `json:"instructions"`
	Model            AgentModel        `json:"model"`
	ToolkitIDs       []string          `json:"toolkit_ids"`
	KnowledgeBaseIDs []string          `json:"knowledge_base_ids"`
	Knowledge        AgentKnowledge    `json:"knowledge"`
	Approval         AgentApproval     `json:"approval"`
	CanAsk           bool              `json:"can_ask"`
	Limits           AgentLimits       `json:"limits"`
	GroupIDs         []string          `json:"group_ids"`
	ApproverGroupIDs []string          `json:"approver_group_ids"`
	ChatVisibility   Visibility        `json:"chat_visibility,omitzero" enum:"own,organization"` // empty: [SeesAll]
	Budget           *record.Budget    `json:"budget,omitzero"`
	CallbackURL      string            `json:"callback_url"` // for webhooks when the request names no address
	Metadata         map[string]string `json:"metadata,omitempty"`
	OutputSchema     json.RawMessage   `json:"output_schema" shape:"object|null"` // the schema of structured answers; null: any text
}

// Offers reports whether the agent's model has a tool of the service (one of tool.ReservedNames): to question the user,
// or to search knowledge bases.
func (s AgentSpec) Offers(name string) bool {
	return name == "ask_user" && s.CanAsk || name == "search" && len(s.KnowledgeBaseIDs) > 0
}

// Unknown are the names in the agent's policy that none of its tools has. offers are the tools of its toolkits. While
// there are such names, each call of a toolkit's tool needs an approval.
func (s AgentSpec) Unknown(offers []tool.Offer) []string {
	if s.Approval.Mode != "tools" {
		return nil
	}
	return slices.DeleteFunc(tool.Unknown(offers, s.Approval.Tools), s.Offers)
}

// Policy is the approval policy of a version, with the names in it that none of the version's tools has.
type Policy struct {
	AgentApproval

	Unknown []string
}

// Policy is the spec's policy. offers are the tools of its toolkits.
func (s AgentSpec) Policy(offers []tool.Offer) Policy { return Policy{s.Approval, s.Unknown(offers)} }

// Asks reports whether the policy wants an approval of each call of a toolkit's tool. offers are the tools of the run,
// which may be of another version.
func (p Policy) Asks(offers []tool.Offer, o tool.Offer) bool {
	return p.Mode == "always" || len(p.Unknown) > 0 || p.Mode == "tools" && tool.Listed(offers, o, p.Tools)
}

// NamesSearch reports whether the policy wants an approval of searches. Searches change nothing, and find only
// documents that the run's user may read.
func (a AgentApproval) NamesSearch() bool {
	return a.Mode == "tools" && slices.Contains(a.Tools, "search")
}

// Loosens names the calls that need fewer approvals by s than by was, or whose approvers change: tools, and members of
// a body. all are the tools of the toolkits of both, also those that are off.
//
// If no groups are named, managers decide. The first groups then decide for the managers, so they loosen nothing,
// unless the run's own user may not approve.
func (s AgentSpec) Loosens(was AgentSpec, all []tool.Offer) (names []string) {
	if was.Approval.OthersOnly() && !s.Approval.OthersOnly() {
		names = append(names, "calls by the run's own user (body.approval.self)")
	}
	added := len(s.ApproverGroupIDs) == 0 || slices.ContainsFunc(s.ApproverGroupIDs, func(id string) bool {
		return !slices.Contains(was.ApproverGroupIDs, id)
	})
	if len(was.ApproverGroupIDs) == 0 {
		added = was.Approval.OthersOnly() && len(s.ApproverGroupIDs) > 0
	}
	if added {
		names = append(names, "calls by other approvers (body.approver_group_ids)")
	}
	searches := was.Offers("search") || s.Offers("search")
	if searches && was.Approval.NamesSearch() && !s.Approval.NamesSearch() {
		names = append(names, "search")
	}
	switch {
	case s.Approval.Mode == "always":
		return names
	case was.Approval.Mode == "always":
		return append(names, "every tool")
	}
	var now []string
	if s.Approval.Mode == "tools" {
		now = s.Approval.Tools
	}
	if was.Approval.Mode == "tools" {
		names = append(names, tool.Unlisted(all, was.Approval.Tools, now)...)
	}
	return names
}

// AgentModel names a model and its settings.
type AgentModel struct {
	Provider    string   `json:"provider"`
	Name        string   `json:"name"`
	Temperature *float64 `json:"temperature"`
	MaxTokens   *int     `json:"max_tokens"`
}

// AgentApproval selects the tool calls that need a human's approval.
type AgentApproval struct {
	Mode  string   `json:"mode" enum:"never,always,tools"`
	Tools []string `json:"tools"`
	// Self is nil in agents that have no such rule: true.
	Self *bool `json:"self,omitempty" doc:"false: the user of a run may reject its calls but not approve them, even as an admin"`
}

// OthersOnly reports whether the user of a run may not approve its calls.
func (a AgentApproval) OthersOnly() bool { return a.Self != nil && !*a.Self }

// MaxModelName bounds the full name of a model, in bytes: of an agent's model, and of one that has a price. So each
// model can have a price, a filter and a row of its own.
const MaxModelName = 300

// FullName is the model's name in the ledger and in prices. The provider demo has one model, of its own name, which may
// be left out.
func (m AgentModel) FullName() string { return m.Provider + "/" + cmp.Or(m.Name, m.Provider) }

// AgentKnowledge sets how an agent searches its knowledge bases.
type AgentKnowledge struct {
	// Mode is empty in agents of earlier versions: hybrid.
	Mode string `json:"mode" enum:"hybrid,semantic,keyword"`
	// Limit is how many passages a search finds, 1 to 20; 0 in agents of earlier versions: 6.
	Limit int `json:"limit"`
	// Always: the service searches for the user's message, with the one before it, before the first model call.
	Always bool `json:"always"`
	// MaxPerDocument is how many passages a search finds in one document, 1 to 20; 0 in agents of earlier versions: 3.
	MaxPerDocument int `json:"max_per_document"`
	// MinScore is the least score of a passage, 0 to 1; nil: any passage that matches the query by words or by meaning.
	MinScore *float64 `json:"min_score"`
}

// DefaultKnowledge is how an agent searches that does not set it.
var DefaultKnowledge = AgentKnowledge{Mode: "hybrid", Limit: 6, MaxPerDocument: 3}

// OrDefault fills in the values that an agent of an earlier version lacks.
func (k AgentKnowledge) OrDefault() AgentKnowledge {
	k.Mode, k.Limit = cmp.Or(k.Mode, DefaultKnowledge.Mode), cmp.Or(k.Limit, DefaultKnowledge.Limit)
	k.MaxPerDocument = cmp.Or(k.MaxPerDocument, DefaultKnowledge.MaxPerDocument)
	return k
}

// AgentLimits bounds an agent's runs; nil takes the deployment's default.
type AgentLimits struct {
	MaxActiveSeconds *int `json:"max_active_seconds"`
	MaxSteps         *int `json:"max_steps"`
	MaxTokens        *int `json:"max_tokens"` // of all model calls of a run, in and out; nil: no bound
}

// RemovedAgent marks that the versions of a deleted agent are kept, for the runs that began with them.
type RemovedAgent struct {
	ID           string `json:"agent_id"`
	Organization string `json:"organization_id"`
	Published    int    `json:"published_version,omitzero"` // when it was deleted; 0: not noted
}

// Placed implements [record.Resourceful].
func (a RemovedAgent) Placed() (string, string, string) { return "removed_agent", a.ID, a.Organization }
