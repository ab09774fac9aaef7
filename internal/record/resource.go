package record

import (
	"context"
	"encoding/json"
	"strings"
	"time"

	"agentplatform/internal/problem"
	"agentplatform/internal/table"
)

// Resourceful is a thing with its own id that is listed by its organization: an agent, a user, a key.
type Resourceful interface {
	// placed returns the kind, the id and the owner of the resource.
	placed() (kind, id, owner string)
}

// headSort is the sort key of a thing itself, among the items that are kept with it.
const headSort = "head"

func resourceKey(kind, id string) table.Key { return table.Key{Part: kind + "/" + id, Sort: headSort} }

// IDOf is the id of a resource.
func IDOf[T Resourceful](v T) string {
	_, id, _ := v.placed()
	return id
}

// Resource reads a resource within the scope. It returns a problem of kind NotFound or Forbidden.
func Resource[T Resourceful](ctx context.Context, s Reader, scope Scope, id string) (Entity[T], error) {
	var none T
	kind, _, _ := none.placed()
	item, err := s.reads().get(ctx, scope, kind+" "+id, resourceKey(kind, id))
	if err != nil {
		return Entity[T]{}, err
	}
	return decode[T](item)
}

// Existing returns those of the ids whose resources exist within the scope.
func Existing[T Resourceful](ctx context.Context, s Reader, scope Scope, ids []string) ([]string, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	var none T
	kind, _, _ := none.placed()
	keys := make([]table.Key, 0, len(ids))
	for _, id := range ids {
		keys = append(keys, resourceKey(kind, id))
	}
	items, err := s.reads().read(ctx, keys...)
	if err != nil {
		return nil, err
	}
	var there []string
	for i, item := range items {
		if item != nil && scope.includes(item.Owner) {
			there = append(there, ids[i])
		}
	}
	return there, nil
}

// PutResource writes a resource and returns it as it is after the commit.
func PutResource[T Resourceful](tx *Tx, e Entity[T]) Entity[T] {
	kind, id, owner := e.Value.placed()
	item := table.Item{
		Key: resourceKey(kind, id), Owner: owner,
		Lists: []table.Listing{{Index: table.ByOwner, Part: listPart(kind, owner), Sort: id}},
	}
	if v, may := any(e.Value).(interface{ due() time.Time }); may {
		item.Due = v.due()
	}
	return put(tx, e, item)
}

// listPart is the partition of the listing of a resource. Organizations own themselves and are listed together.
func listPart(kind, owner string) string {
	if kind == "organization" {
		return "organizations"
	}
	return kind + "s/" + owner
}

// DeleteResource deletes a resource on condition that it is as it was read.
func DeleteResource[T Resourceful](tx *Tx, e Entity[T]) {
	deleteResource(tx, e.Value, table.VersionIs(e.version))
}

// Unchanged makes the commit require that a resource is still as it was read.
func Unchanged[T Resourceful](tx *Tx, e Entity[T]) {
	kind, id, _ := e.Value.placed()
	tx.add(table.Check(resourceKey(kind, id), table.VersionIs(e.version)))
}

// deleteResource names the owner, which the audit log needs.
func deleteResource[T Resourceful](tx *Tx, v T, cond table.Condition) {
	kind, id, owner := v.placed()
	op := table.Delete(resourceKey(kind, id), cond)
	op.Item.Owner = owner
	tx.add(op)
}

// Resources lists an organization's resources of one kind, newest first. after is Page.Next of the page before.
func Resources[T Resourceful](
	ctx context.Context, s *Store, scope Scope, after string, limit int,
) (Page[Entity[T]], error) {
	var none T
	kind, _, _ := none.placed()
	return listed[T](ctx, s, scope, listPart(kind, scope.organization), after, limit)
}

// OldestResources is Resources, oldest first.
func OldestResources[T Resourceful](
	ctx context.Context, s *Store, scope Scope, after string, limit int,
) (Page[Entity[T]], error) {
	var none T
	kind, _, _ := none.placed()
	return listedIn[T](ctx, s, scope, table.Range{Part: listPart(kind, scope.organization), After: after, Limit: limit})
}

// Organization is a tenant.
type Organization struct {
	ID        string `json:"organization_id"`
	Name      string `json:"name"`
	UserCap   int    `json:"user_cap,omitzero"`         // 0: the deployment's default
	Cap       int    `json:"organization_cap,omitzero"` // 0: the deployment's default
	RateLimit int    `json:"rate_limit,omitzero"`       // requests per minute and key; 0: the deployment's default
	RateBurst int    `json:"rate_burst,omitzero"`

	Ceilings Limits `json:"ceilings,omitzero"` // set by operators; 0: none

	RetentionDays int     `json:"run_retention_days,omitzero"` // 0: runs are kept
	Budget        *Budget `json:"budget,omitzero"`

	// Sealed for the organization.
	Secret         string    `json:"webhook_secret,omitzero"`
	PreviousSecret string    `json:"previous_webhook_secret,omitzero"`
	PreviousUntil  time.Time `json:"previous_until,omitzero"` // until then both secrets are in use

	Deleted   bool      `json:"deleted,omitzero"`
	CreatedAt time.Time `json:"created_at"`
	UpdatedAt time.Time `json:"updated_at"`
}

func (o Organization) placed() (string, string, string) { return "organization", o.ID, o.ID }

// Limits are an organization's limits; 0 is not set.
type Limits struct {
	UserCap   int `json:"user_cap,omitzero"`
	Cap       int `json:"organization_cap,omitzero"`
	RateLimit int `json:"rate_limit,omitzero"`
	RateBurst int `json:"rate_burst,omitzero"`
}

// User is an owner of keys and runs.
type User struct {
	ID           string    `json:"user_id"`
	Organization string    `json:"organization_id"`
	Email        string    `json:"email"`
	Name         string    `json:"name"`
	Role         string    `json:"role"`
	GroupIDs     []string  `json:"group_ids,omitzero"`
	Cap          int       `json:"concurrency_cap,omitzero"` // 0: the organization's
	Budget       *Budget   `json:"budget,omitzero"`
	OperatorKeys *int      `json:"operator_keys,omitzero"` // how many operator keys it has; nil: never counted
	CreatedAt    time.Time `json:"created_at"`
	UpdatedAt    time.Time `json:"updated_at"`
}

func (u User) placed() (string, string, string) { return "user", u.ID, u.Organization }

// Email reserves an e-mail address for a user of an organization. It is written and deleted with its user.
type Email struct {
	Address      string `json:"address"` // in the form in which addresses are compared
	Organization string `json:"organization_id"`
	UserID       string `json:"user_id"`
}

func (e Email) placed() (string, string, string) {
	return "email", EmailID(e.Organization, e.Address), e.Organization
}

// EmailID is the id of the reservation of an address in an organization. Letters' case makes no difference.
func EmailID(organization, address string) string {
	return DerivedID("email/"+strings.ToLower(address), organization)
}

// Group is some of an organization's users. Each user names its groups.
type Group struct {
	ID           string    `json:"group_id"`
	Organization string    `json:"organization_id"`
	Name         string    `json:"name"`
	Description  string    `json:"description"`
	Budget       *Budget   `json:"budget,omitzero"`
	CreatedAt    time.Time `json:"created_at"`
	UpdatedAt    time.Time `json:"updated_at"`
}

func (g Group) placed() (string, string, string) { return "group", g.ID, g.Organization }

// APIKey is a key as it is stored: never its text.
type APIKey struct {
	ID            string    `json:"api_key_id"` // an identifier
	Public        string    `json:"public"`     // the 8 hex digits in the key's text
	Organization  string    `json:"organization_id"`
	UserID        string    `json:"user_id"`
	Name          string    `json:"name"`
	Level         string    `json:"level"`
	Prefix        string    `json:"prefix"`
	Hash          string    `json:"hash"` // SHA-256 of the key's text, hex
	PreviousHash  string    `json:"previous_hash,omitzero"`
	PreviousUntil time.Time `json:"previous_until,omitzero"`
	ExpiresAt     time.Time `json:"expires_at,omitzero"`
	Budget        *Budget   `json:"budget,omitzero"`
	CreatedAt     time.Time `json:"created_at"`
	UpdatedAt     time.Time `json:"updated_at"`
}

func (k APIKey) placed() (string, string, string) { return "api_key", k.ID, k.Organization }

// KeyPointer leads from the public part of a key's text to the key.
type KeyPointer struct {
	Public       string `json:"public"`
	Organization string `json:"organization_id"`
	KeyID        string `json:"api_key_id"`
}

func (p KeyPointer) placed() (string, string, string) { return "key_pointer", p.Public, p.Organization }

// KeyUse says when a key was last used. It is an item of its own that is seldom written, without a condition.
type KeyUse struct {
	At time.Time `json:"at"`
}

func keyUseKey(id string) table.Key { return table.Key{Part: "api_key/" + id, Sort: "use"} }

// keyUseTime is how long a request may be delayed by writing the use of its key.
const keyUseTime = time.Second

// NoteKeyUse writes when a key was last used. It tries once and ignores errors, because a request waits for it.
func (s *Store) NoteKeyUse(ctx context.Context, k APIKey, at time.Time) {
	op, err := blind(KeyUse{At: at}, table.Item{Key: keyUseKey(k.ID), Owner: k.Organization, WriteID: "use"})
	if err != nil {
		return
	}
	ctx, cancel := s.host.WithTimeout(context.WithoutCancel(ctx), keyUseTime)
	defer cancel()
	_ = s.table.Commit(ctx, "use", op)
}

// DeleteKeyUse deletes a key's last use.
func (tx *Tx) DeleteKeyUse(id string) { tx.delete(keyUseKey(id), table.Always()) }

// KeyUses reads when keys were last used; zero for never.
func (s *Store) KeyUses(ctx context.Context, ids ...string) ([]time.Time, error) {
	keys := make([]table.Key, 0, len(ids))
	for _, id := range ids {
		keys = append(keys, keyUseKey(id))
	}
	items, err := s.readAll(ctx, keys)
	if err != nil {
		return nil, err
	}
	at := make([]time.Time, len(ids))
	for i, item := range items {
		if item == nil {
			continue
		}
		e, err := decode[KeyUse](item)
		if err != nil {
			return nil, err
		}
		at[i] = e.Value.At
	}
	return at, nil
}

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

// Job is work that goes on after the request that stored it: it is due until it is done.
type Job struct {
	ID           string    `json:"job_id"`
	Organization string    `json:"organization_id"`
	Kind         JobKind   `json:"kind"`
	Subject      string    `json:"subject"` // the id of a chat, a user, a run, ..., or a blob's key
	OwnID        bool      `json:"own_id,omitzero"`
	Epoch        int       `json:"epoch,omitzero"` // of the deleted chat
	Cursor       string    `json:"cursor,omitzero"`
	Due          time.Time `json:"-"`
}

// JobKind says what a job does.
type JobKind string

// The kinds of job.
const (
	RemoveChat         JobKind = "remove_chat"
	RemoveUser         JobKind = "remove_user"
	RemoveOrganization JobKind = "remove_organization"
	RemoveGroup        JobKind = "remove_group"
	RemoveToolkit      JobKind = "remove_toolkit"
	RemoveBlob         JobKind = "remove_blob" // of a toolkit that does not name it, or no longer
	RemoveBody         JobKind = "remove_body" // of a message that became no run, or of a deleted run
	Retention          JobKind = "retention"   // due every day
)

// JobEntity is a job with what is needed to write it again.
type JobEntity = Entity[Job]

func jobKey(id string) table.Key { return table.Key{Part: "job/" + id, Sort: headSort} }

// PutJob writes a job and returns it as it is after the commit.
func (tx *Tx) PutJob(e JobEntity) JobEntity {
	return put(tx, e, table.Item{Key: jobKey(e.Value.ID), Owner: e.Value.Organization, Due: e.Value.Due})
}

// DeleteJob ends a job on condition that it is as it was read.
func (tx *Tx) DeleteJob(e JobEntity) {
	tx.delete(jobKey(e.Value.ID), table.VersionIs(e.version))
}

// Job reads a job; found is false when it is done.
func (s *Store) Job(ctx context.Context, id string) (e JobEntity, found bool, err error) {
	items, err := s.read(ctx, jobKey(id))
	if err != nil || items[0] == nil {
		return e, false, err
	}
	e, err = decode[Job](items[0])
	e.Value.Due = items[0].Due
	return e, err == nil, err
}

// RunToken is a token that is valid for one run, as it is stored: never its text. Its item expires with it.
type RunToken struct {
	RunID        string    `json:"run_id"`
	Organization string    `json:"-"`
	KeyID        string    `json:"api_key_id"`
	KeyHash      string    `json:"key_hash"` // of the key's text with which it was asked for
	End          time.Time `json:"end"`
}

func runTokenKey(hash string) table.Key { return table.Key{Part: "run_token/" + hash, Sort: headSort} }

// PutRunToken writes a token under the hash of its text.
func (tx *Tx) PutRunToken(hash string, t RunToken) {
	put(tx, Fresh(t), table.Item{Key: runTokenKey(hash), Owner: t.Organization, Expires: t.End})
}

// RunToken reads the token with a hash. It returns a problem of kind NotFound.
func (s *Store) RunToken(ctx context.Context, hash string) (RunToken, error) {
	item, err := s.get(ctx, System(), "run token", runTokenKey(hash))
	if err != nil {
		return RunToken{}, err
	}
	e, err := decode[RunToken](item)
	e.Value.Organization = item.Owner
	return e.Value, err
}

// deployment says when the deployment began.
type deployment struct {
	CreatedAt time.Time `json:"created_at"`
}

func deploymentKey() table.Key { return table.Key{Part: "deployment", Sort: "began"} }

// oldSecretKey is where versions before stored run tokens keep the secret that signs them, and when the deployment
// began. The item is deleted: such a version, when it runs again, makes a new one.
func oldSecretKey() table.Key { return table.Key{Part: "deployment", Sort: "secret"} }

// EnsureDeployment stores, the first time, when the deployment began, and deletes the secret that once signed run
// tokens. The errors are those of a read and of [Tx.Commit]; where the begin is stored already, a failed write is no
// error.
func (s *Store) EnsureDeployment(ctx context.Context) error {
	for range 3 {
		items, err := s.read(ctx, deploymentKey(), oldSecretKey())
		if err != nil {
			return err
		}
		began, old := Fresh(deployment{CreatedAt: s.host.Now()}), items[1]
		tx := s.Begin(s.host.NewID())
		if old != nil {
			e, err := decode[deployment](old)
			if err != nil {
				return err
			}
			began.Value = e.Value
			tx.delete(oldSecretKey(), table.VersionIs(old.Version))
		}
		if items[0] == nil {
			put(tx, began, table.Item{Key: deploymentKey(), Owner: NoOrganization})
		}
		err = tx.Commit(ctx)
		if items[0] != nil {
			return nil //nolint:nilerr // not every process may write; another one deletes it
		}
		if !isStale(err) {
			return err
		}
	}
	return problem.Retry(nil)
}
