package record

import (
	"context"
	"encoding/json"
	"time"

	"agentplatform/internal/problem"
	"agentplatform/internal/table"
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

func (a Agent) placed() (string, string, string) { return "agent", a.ID, a.Organization }

// Current is the version that new runs use.
func (a Agent) Current() int {
	if a.Published == 0 {
		return a.Version
	}
	return a.Published
}

// AgentSpec is what a client may set of an agent.
type AgentSpec struct {
	Name             string            `json:"name"`
	Description      string            `json:"description"`
	Instructions     string            `json:"instructions"`
	Model            AgentModel        `json:"model"`
	ToolkitIDs       []string          `json:"toolkit_ids"`
	KnowledgeBaseIDs []string          `json:"knowledge_base_ids"`
	Approval         AgentApproval     `json:"approval"`
	CanAsk           bool              `json:"can_ask"`
	Limits           AgentLimits       `json:"limits"`
	GroupIDs         []string          `json:"group_ids"`
	ApproverGroupIDs []string          `json:"approver_group_ids"`
	Budget           *Budget           `json:"budget,omitzero"`
	CallbackURL      string            `json:"callback_url"` // for webhooks when the request names no address
	Metadata         map[string]string `json:"metadata,omitempty"`
	OutputSchema     json.RawMessage   `json:"output_schema"` // the schema of structured answers; null: any text
}

// AgentModel names a model and its settings.
type AgentModel struct {
	Provider    string   `json:"provider"`
	Name        string   `json:"name"`
	Temperature *float64 `json:"temperature"`
	MaxTokens   *int     `json:"max_tokens"`
}

// AgentApproval says which tool calls need a human's approval.
type AgentApproval struct {
	Mode  string   `json:"mode"` // never, always or tools
	Tools []string `json:"tools"`
}

// AgentLimits bounds an agent's runs; nil takes the deployment's default.
type AgentLimits struct {
	MaxActiveSeconds *int `json:"max_active_seconds"`
	MaxSteps         *int `json:"max_steps"`
	MaxTokens        *int `json:"max_tokens"` // of all model calls of a run, in and out; nil: no bound
}

// agentVersionKey is the key of a version of an agent.
func agentVersionKey(id string, version int) table.Key {
	return table.Key{Part: "agent/" + id, Sort: versionSort(version)}
}

// PutAgentVersion writes a version of an agent, for the runs that use it.
func (tx *Tx) PutAgentVersion(a Agent) {
	put(tx, Fresh(a), table.Item{Key: agentVersionKey(a.ID, a.Version), Owner: a.Organization})
}

// EraseAgentVersions deletes all versions of an agent. The errors are those of [Tx.Commit].
func (s *Store) EraseAgentVersions(ctx context.Context, id string) error {
	for {
		items, err := s.query(ctx, table.Range{Part: "agent/" + id, Prefix: "version/", Limit: table.MaxOps})
		if err != nil || len(items) == 0 {
			return err
		}
		tx := s.Begin(s.host.NewID())
		for _, item := range items {
			tx.delete(item.Key, table.Always())
		}
		if err := tx.Commit(ctx); err != nil {
			return err
		}
	}
}

// RemovedAgent says that the versions of a deleted agent are kept, for the runs that began with them.
type RemovedAgent struct {
	ID           string `json:"agent_id"`
	Organization string `json:"organization_id"`
}

func (a RemovedAgent) placed() (string, string, string) { return "removed_agent", a.ID, a.Organization }

// AgentVersion reads a version of an agent, also of a deleted one. It returns a problem of kind NotFound or Forbidden.
func (s *Store) AgentVersion(ctx context.Context, scope Scope, id string, version int) (Agent, error) {
	item, err := s.get(ctx, scope, "agent "+id, agentVersionKey(id, version))
	if err != nil {
		return Agent{}, err
	}
	e, err := decode[Agent](item)
	return e.Value, err
}

// StandingAgent reads an agent as it is now or, when it was deleted, in its newest version. It returns a problem of
// kind NotFound or Forbidden.
func (s *Store) StandingAgent(ctx context.Context, scope Scope, id string) (Agent, error) {
	e, err := Resource[Agent](ctx, s, scope, id)
	if problem.Is(err, "not_found") {
		return s.LastAgent(ctx, scope, id)
	}
	return e.Value, err
}

// LastAgent reads an agent in its newest version, also a deleted one. Each edit makes a version, published or not, so
// the newest one is the agent as it is, or was. It returns a problem of kind NotFound or Forbidden.
func (s *Store) LastAgent(ctx context.Context, scope Scope, id string) (Agent, error) {
	page, err := s.AgentVersions(ctx, id, "", 1)
	switch {
	case err != nil:
		return Agent{}, err
	case len(page.Rows) == 0:
		return Agent{}, problem.Missing("agent " + id)
	case !scope.includes(page.Rows[0].Organization):
		return Agent{}, problem.Outside("agent " + id)
	}
	return page.Rows[0], nil
}

// StillLast makes the commit require that no version came after the given one.
func (tx *Tx) StillLast(a Agent) {
	tx.add(table.Check(agentVersionKey(a.ID, a.Version+1), table.Absent()))
}

// AgentVersions lists an agent's versions, newest first. after is Page.Next of the page before.
func (s *Store) AgentVersions(ctx context.Context, id, after string, limit int) (Page[Agent], error) {
	items, err := s.query(ctx,
		table.Range{Part: "agent/" + id, Prefix: "version/", After: after, Reverse: true, Limit: limit + 1})
	if err != nil {
		return Page[Agent]{}, err
	}
	var page Page[Agent]
	if len(items) > limit {
		items = items[:limit]
		page.Next = items[limit-1].Sort
	}
	for _, item := range items {
		e, err := decode[Agent](item)
		if err != nil {
			return page, err
		}
		page.Rows = append(page.Rows, e.Value)
	}
	return page, nil
}
