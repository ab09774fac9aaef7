package tenant

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"agentplatform/internal/ai/tool"
	"agentplatform/internal/org/catalog"
	"agentplatform/internal/platform/host"
	"agentplatform/internal/platform/problem"
	"agentplatform/internal/platform/schema"
	"agentplatform/internal/store/record"
)

// Bounds of an agent's fields.
const (
	minActive = 10          // the least max_active_seconds
	maxActive = 4 * 60 * 60 // the most
	maxSchema = 64 << 10    // bytes of an agent's output schema

	maxName         = 200 // characters, as all below without a unit
	maxDescription  = 10_000
	maxInstructions = 256 << 10 // bytes
	maxProvider     = 64
	maxAddress      = 2048 // bytes
	maxApproval     = 2000 // tools
	maxToolkits     = 100
	maxBases        = 20
	maxPassages     = 20
	maxMetadata     = 16 // members
	maxMetadataName = 64
	maxMetadataText = 1024

	// maxSpec is how many bytes a whole spec may have as it is stored; JSON may spell a letter with six bytes. The
	// other fields of an agent need less than the rest of an item.
	maxSpec = record.MaxItemBytes - 16<<10
)

// DefaultSpec is the spec of an agent for which a client has set nothing.
func (t *Tenants) DefaultSpec(organization string) catalog.AgentSpec {
	return catalog.AgentSpec{
		Model:            catalog.AgentModel{Provider: "demo"},
		ToolkitIDs:       []string{catalog.BuiltinToolkit(organization)},
		KnowledgeBaseIDs: []string{},
		Knowledge:        catalog.DefaultKnowledge,
		Approval:         catalog.AgentApproval{Mode: "never", Tools: []string{}},
		CanAsk:           true,
		GroupIDs:         []string{},
		ApproverGroupIDs: []string{},
	}
}

// checkSpec returns a problem of kind Invalid that names the first wrong field of a spec, or the error of CheckModel.
// before is the present spec, nil for a new agent: an unchanged model is not checked again.
func (t *Tenants) checkSpec(
	ctx context.Context, organization string, before, s *catalog.AgentSpec, skipCheck bool,
) error {
	if err := checkBounds(s); err != nil {
		return err
	}
	same := before != nil && before.Model.Provider == s.Model.Provider && before.Model.Name == s.Model.Name
	if t.defaults.CheckModel != nil && !same {
		if err := t.defaults.CheckModel(ctx, s.Model.Provider, s.Model.Name, skipCheck); err != nil {
			return err
		}
	}
	builtin := []string{catalog.BuiltinToolkit(organization)}
	var kept catalog.AgentSpec
	if before != nil {
		kept = *before
	}
	active, tokens, steps := s.Limits.MaxActiveSeconds, s.Limits.MaxTokens, s.Limits.MaxSteps
	err := there[catalog.Toolkit](ctx, t.store, organization, "body.toolkit_ids", "toolkit", builtin, s.ToolkitIDs)
	if err != nil {
		return err
	}
	if err := t.checkKnowledge(ctx, organization, kept, s); err != nil {
		return err
	}
	if err := t.checkPolicy(ctx, organization, s); err != nil {
		return err
	}
	if err := t.CheckGroups(ctx, organization, "body.group_ids", kept.GroupIDs, s.GroupIDs); err != nil {
		return err
	}
	err = t.CheckGroups(ctx, organization, "body.approver_group_ids", kept.ApproverGroupIDs, s.ApproverGroupIDs)
	if err == nil {
		err = t.checkSelf(ctx, organization, kept, s)
	}
	if err != nil {
		return err
	}
	if s.ChatVisibility == catalog.SeesAll {
		s.ChatVisibility = "" // stored in one way, so that only a change looks like one
	}
	return cmp.Or(
		checkBudget(s.Budget),
		checkVisibility("body.chat_visibility", s.ChatVisibility),
		problem.InvalidIf(!slices.Contains([]string{"never", "always", "tools"}, s.Approval.Mode),
			"body.approval.mode", "must be never, always or tools"),
		problem.InvalidIf(active != nil && (*active < minActive || *active > maxActive),
			"body.limits.max_active_seconds", "must be between %d and %d", minActive, maxActive),
		checkOutput(s.OutputSchema),
		problem.InvalidIf(tokens != nil && *tokens < 1, "body.limits.max_tokens", "must be at least 1"),
		problem.InvalidIf(steps != nil && (*steps < 1 || *steps > 1000),
			"body.limits.max_steps", "must be between 1 and 1000"),
		checkWhole(s),
	)
}

// checkSelf returns a problem of kind Invalid (body.approval.self) for an agent without possible approvers. The run's
// user may not approve the agent's calls, and no other user could. It reads users and groups as they are now: admins
// can always be made.
func (t *Tenants) checkSelf(
	ctx context.Context, organization string, kept catalog.AgentSpec, s *catalog.AgentSpec,
) error {
	if !s.Approval.OthersOnly() || kept.Approval.OthersOnly() && slices.Equal(kept.GroupIDs, s.GroupIDs) &&
		slices.Equal(kept.ApproverGroupIDs, s.ApproverGroupIDs) {
		return nil
	}
	who, err := t.approvers(ctx, organization, catalog.Agent{Spec: *s})
	if err != nil {
		return err
	}
	return problem.InvalidIf(!who[0].others(), "body.approval.self",
		"must be true, because nobody else may approve calls of this agent: choose approver groups "+
			"with other members, or create another manager or admin")
}

// approvers are the approvers of an agent's calls, as users and groups are now, as far as they have been searched.
type approvers struct {
	agent         catalog.Agent
	groups        []string // its approver groups that exist
	members       bool     // these groups have a member, or none are named
	uses, decides []string // users who may begin a run, and who may approve its calls; two of each are enough
}

// others reports whether some run has another user who may approve its calls, if its own user may not.
func (a *approvers) others() bool {
	return !a.agent.Spec.Approval.OthersOnly() || len(a.uses) > 0 && len(a.decides) > 0 &&
		(len(a.uses)+len(a.decides) > 2 || a.uses[0] != a.decides[0])
}

func (a *approvers) add(u catalog.User) {
	p := Principal{User: u.ID, Level: Role(u.Role).Level(), Groups: u.GroupIDs}
	if len(a.uses) < 2 && p.MayUse(a.agent) == nil {
		a.uses = append(a.uses, p.User)
	}
	if len(a.decides) < 2 && p.mayApprove(a.agent, a.agent, ApprovalRequest{}) == nil {
		a.decides = append(a.decides, p.User)
	}
	for _, id := range a.groups {
		a.members = a.members || slices.Contains(p.Groups, id)
	}
}

// approvers searches an organization's users once for the approvers of some agents' calls.
func (t *Tenants) approvers(ctx context.Context, organization string, of ...catalog.Agent) ([]*approvers, error) {
	var list []*approvers
	for _, a := range of {
		named := a.Spec.ApproverGroupIDs
		groups, err := record.Existing[catalog.Group](ctx, t.store, record.Of(organization), named)
		if err != nil {
			return nil, err
		}
		list = append(list, &approvers{agent: a, groups: groups, members: len(named) == 0})
	}
	lacking := func(a *approvers) bool { return !a.members || !a.others() }
	if !slices.ContainsFunc(list, lacking) {
		return list, nil
	}
	for u, err := range record.All[catalog.User](ctx, t.store, record.Of(organization), 100) {
		if err != nil {
			return nil, err
		}
		for _, a := range list {
			a.add(u.Value)
		}
		if !slices.ContainsFunc(list, lacking) {
			break
		}
	}
	return list, nil
}

// ApproversProblems lists the approvers that the policies of versions of an agent lack. The agent goes on, and calls
// wait for admins. Its error is the store's.
func (t *Tenants) ApproversProblems(ctx context.Context, of ...catalog.Agent) (problems []string, err error) {
	list, err := t.approvers(ctx, of[0].Organization, of...)
	for _, a := range list {
		if !a.members {
			problems = append(problems, fmt.Sprintf("Version %d: its approver groups have no members, so only admins "+
				"decide about its tool calls.", a.agent.Version))
		} else if !a.others() {
			problems = append(problems, fmt.Sprintf("Version %d: no run has another user who may approve its tool "+
				"calls, until another admin is made.", a.agent.Version))
		}
	}
	return problems, err
}

// CheckTools returns a problem of kind Invalid at the field when an agent's model would get more tools than providers
// take. more is how many tools the agent's client adds.
func (t *Tenants) CheckTools(
	ctx context.Context, organization string, s catalog.AgentSpec, field string, more int,
) error {
	if t.defaults.Tools == nil {
		return nil
	}
	on, _, err := t.defaults.Tools(ctx, organization, s.ToolkitIDs)
	return cmp.Or(err, countTools(s, on, field, more))
}

func countTools(s catalog.AgentSpec, on []tool.Offer, field string, more int) error {
	n := len(on)
	for _, name := range tool.ReservedNames {
		if s.Offers(name) {
			n++
		}
	}
	if n+more <= tool.MaxOffered {
		return nil
	}
	own := "the agent would have"
	if more > 0 {
		own = "the agent and its client have"
	}
	return problem.InvalidField(field, "%s %d tools, but the limit is %d: disable some tools of its toolkits",
		own, n+more, tool.MaxOffered)
}

// checkPolicy checks the tools of an agent, and that it has those that its policy names. The error is a problem of kind
// Invalid, or the store's.
func (t *Tenants) checkPolicy(ctx context.Context, organization string, s *catalog.AgentSpec) error {
	if t.defaults.Tools == nil {
		return nil
	}
	on, _, err := t.defaults.Tools(ctx, organization, s.ToolkitIDs)
	return cmp.Or(err, countTools(*s, on, "body.toolkit_ids", 0), CheckPolicy(*s, on))
}

// CheckPolicy returns a problem of kind Invalid that names the first tool in an agent's policy which the agent does not
// have. The problem lists the tools that it has. on are the tools of its toolkits.
func CheckPolicy(s catalog.AgentSpec, on []tool.Offer) error {
	unknown := s.Unknown(on)
	if len(unknown) == 0 {
		return nil
	}
	var has []string
	for _, o := range on {
		has = append(has, o.Name)
	}
	for _, name := range tool.ReservedNames {
		if s.Offers(name) {
			has = append(has, name)
		}
	}
	slices.Sort(has)
	return problem.InvalidField(fmt.Sprintf("body.approval.tools[%d]", slices.Index(s.Approval.Tools, unknown[0])),
		"the agent has no tool %q; it has %s", unknown[0], cmp.Or(strings.Join(has, ", "), "none"))
}

// mayLoosen returns nil when the principal may replace spec was with s. Only an admin may remove the need for an
// approval, or let more users approve. The error is a problem of kind Forbidden, or the store's.
func (t *Tenants) mayLoosen(ctx context.Context, p Principal, organization string, was, s catalog.AgentSpec) error {
	if p.Authorize(LevelAdmin) == nil {
		return nil
	}
	var all []tool.Offer
	if t.defaults.Tools != nil && was.Approval.Mode == "tools" {
		for _, ids := range [][]string{was.ToolkitIDs, s.ToolkitIDs} {
			on, off, err := t.defaults.Tools(ctx, organization, ids)
			if err != nil {
				return err
			}
			all = slices.Concat(all, on, off)
		}
	}
	if names := s.Loosens(was, all); len(names) > 0 {
		return p.MayLoosen(tool.Clip(strings.Join(names, ", "), tool.EnoughText))
	}
	return nil
}

// mayShow returns nil when the principal may replace spec was, the newest one of an agent, with s. Only an admin may
// show chats that only their users see to the organization. Otherwise it returns a problem of kind Forbidden.
func (p Principal) mayShow(was, s catalog.AgentSpec) error {
	if was.ChatVisibility != catalog.SeesOwn || s.ChatVisibility == catalog.SeesOwn || p.Authorize(LevelAdmin) == nil {
		return nil
	}
	return problem.New(problem.Forbidden, "insufficient_permission", "this change shows private chats of users "+
		"to the organization (body.chat_visibility): it needs an API key of level %s; this one has %s", LevelAdmin,
		p.Level).With("level_needed", LevelAdmin)
}

// mayFollow is mayLoosen for the spec of new runs: s instead of the agent's published version.
func (t *Tenants) mayFollow(ctx context.Context, p Principal, a catalog.Agent, s catalog.AgentSpec) error {
	was, err := catalog.Published(ctx, t.store, p.Scope(), a.ID)
	if err != nil {
		return err
	}
	return t.mayLoosen(ctx, p, a.Organization, was.Spec, s)
}

func checkOutput(wanted json.RawMessage) error {
	if len(wanted) == 0 || string(wanted) == "null" {
		return nil
	}
	_, err := schema.Compile(wanted)
	return problem.InvalidIf(err != nil || len(wanted) > maxSchema, "body.output_schema",
		"must be a JSON schema of at most %d KiB: %v", maxSchema>>10, err)
}

// checkKnowledge checks the knowledge bases of a spec and its settings for the search. A base that the spec named
// before may have been deleted since. The error is a problem of kind Invalid, or the store's.
func (t *Tenants) checkKnowledge(
	ctx context.Context, organization string, before catalog.AgentSpec, s *catalog.AgentSpec,
) error {
	if len(s.KnowledgeBaseIDs) > maxBases {
		return problem.InvalidField("body.knowledge_base_ids", "must be at most %d", maxBases)
	}
	s.Knowledge = s.Knowledge.OrDefault()
	least := s.Knowledge.MinScore
	return cmp.Or(
		there[catalog.KnowledgeBase](ctx, t.store, organization, "body.knowledge_base_ids", "knowledge base",
			before.KnowledgeBaseIDs, s.KnowledgeBaseIDs),
		problem.InvalidIf(!slices.Contains([]string{"hybrid", "semantic", "keyword"}, s.Knowledge.Mode),
			"body.knowledge.mode", "must be hybrid, semantic or keyword"),
		problem.InvalidIf(s.Knowledge.Limit < 1 || s.Knowledge.Limit > maxPassages,
			"body.knowledge.limit", "must be between 1 and %d", maxPassages),
		problem.InvalidIf(s.Knowledge.MaxPerDocument < 1 || s.Knowledge.MaxPerDocument > maxPassages,
			"body.knowledge.max_per_document", "must be between 1 and %d", maxPassages),
		problem.InvalidIf(least != nil && (*least < 0 || *least > 1), "body.knowledge.min_score",
			"must be between 0 and 1"),
	)
}

// checkBounds checks lengths and ranges of a spec's fields; the error is a problem of kind Invalid.
func checkBounds(s *catalog.AgentSpec) error {
	temperature, most := s.Model.Temperature, s.Model.MaxTokens
	return cmp.Or(
		checkName(s.Name),
		checkDescription(s.Description),
		problem.InvalidIf(len(s.Instructions) > maxInstructions,
			"body.instructions", "must have at most %d KiB", maxInstructions>>10),
		problem.InvalidIf(utf8.RuneCountInString(s.Model.Provider) > maxProvider,
			"body.model.provider", "must have at most %d characters", maxProvider),
		problem.InvalidIf(len(s.Model.FullName()) > catalog.MaxModelName, "body.model.name",
			"must have at most %d bytes with its provider, as in %s/name", catalog.MaxModelName, s.Model.Provider),
		problem.InvalidIf(len(s.CallbackURL) > maxAddress,
			"body.callback_url", "must have at most %d characters", maxAddress),
		problem.InvalidIf(len(s.Approval.Tools) > maxApproval,
			"body.approval.tools", "must be at most %d", maxApproval),
		checkApproval(s.Approval.Tools),
		problem.InvalidIf(temperature != nil && (*temperature < 0 || *temperature > 2),
			"body.model.temperature", "must be between 0 and 2"),
		problem.InvalidIf(most != nil && *most < 1, "body.model.max_tokens", "must be at least 1"),
		problem.InvalidIf(len(s.ToolkitIDs) > maxToolkits, "body.toolkit_ids", "must be at most %d", maxToolkits),
		CheckMetadata("body.metadata", s.Metadata),
	)
}

func checkApproval(tools []string) error {
	for i, name := range tools {
		if utf8.RuneCountInString(name) > maxName {
			return problem.InvalidField(fmt.Sprintf("body.approval.tools[%d]", i),
				"must have at most %d characters", maxName)
		}
	}
	return nil
}

// CheckMetadata checks the metadata of an agent or a run; the error is a problem of kind Invalid that names the field.
func CheckMetadata(field string, metadata map[string]string) error {
	if len(metadata) > maxMetadata {
		return problem.InvalidField(field, "must have at most %d members", maxMetadata)
	}
	for name, text := range metadata {
		if utf8.RuneCountInString(name) > maxMetadataName || utf8.RuneCountInString(text) > maxMetadataText {
			return problem.InvalidField(field, "names may have %d and values %d characters",
				maxMetadataName, maxMetadataText)
		}
	}
	return nil
}

// checkWhole refuses a spec that is larger than can be stored, with a problem of kind Invalid that names the largest
// member.
func checkWhole(s *catalog.AgentSpec) error {
	all, err := json.Marshal(s)
	if err != nil {
		return problem.InvalidField("body.output_schema", "must be a JSON schema")
	}
	if len(all) <= maxSpec {
		return nil
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(all, &members); err != nil {
		return err
	}
	name, size := "", 0
	for member, text := range members {
		if len(text) > size {
			name, size = member, len(text)
		}
	}
	return problem.InvalidField("body."+name,
		"has %d stored bytes, and the whole agent %d: the limit is %d", size, len(all), maxSpec)
}

// checkName checks the length of the name of anything; the error is a problem of kind Invalid.
func checkName(name string) error {
	return problem.InvalidIf(name == "" || utf8.RuneCountInString(name) > maxName,
		"body.name", "must have 1 to %d characters", maxName)
}

func checkDescription(text string) error {
	return problem.InvalidIf(utf8.RuneCountInString(text) > maxDescription,
		"body.description", "must have at most %d characters", maxDescription)
}

// there returns nil when the resources that a body's member names exist in the organization. Those of known need not
// exist. Else it returns a problem of kind Invalid that names the first one. The ids are a client's texts.
func there[T record.Resourceful](
	ctx context.Context, store *record.Store, organization, member, what string, known, ids []string,
) error {
	for i, id := range ids {
		if slices.Contains(known, id) {
			continue
		}
		at := fmt.Sprintf("%s[%d]", member, i)
		if !host.ValidID(id) {
			return problem.InvalidField(at, "must be the id of an existing %s", what)
		}
		if _, err := record.Resource[T](ctx, store, record.Of(organization), id); isGone(err) {
			return problem.InvalidField(at, "%s %s does not exist", what, id)
		} else if err != nil {
			return err
		}
	}
	return nil
}

// ActiveLimit is how much active time a run of the agent may use: the agent's own limit, else the deployment's.
func (t *Tenants) ActiveLimit(a catalog.Agent) time.Duration {
	if n := a.Spec.Limits.MaxActiveSeconds; n != nil {
		return time.Duration(*n) * time.Second
	}
	return t.defaults.ActiveLimit
}

// CheckAgent returns the error that [Tenants.CreateAgent] would return for the spec, and stores nothing. It is a
// problem of kind Invalid that names the field, or the error of Defaults.CheckModel. skipCheck leaves out the call to
// the model's provider.
func (t *Tenants) CheckAgent(ctx context.Context, organization string, spec catalog.AgentSpec, skipCheck bool) error {
	return t.checkSpec(ctx, organization, nil, &spec, skipCheck)
}

// CreateAgent creates an agent in version 1, which is published. Unless skipCheck is set, it calls the model's provider
// to check that the model exists. It returns a problem of kind Invalid that names the field, or the error of
// Defaults.CheckModel.
func (t *Tenants) CreateAgent(
	ctx context.Context, organization string, spec catalog.AgentSpec, skipCheck bool,
) (record.Entity[catalog.Agent], error) {
	return t.createAgent(ctx, organization, nil, spec, skipCheck)
}

// DuplicateAgent creates an agent with the spec of another one, which the caller may have edited. Its model is not
// checked again. It returns a problem of kind Invalid that names the field.
func (t *Tenants) DuplicateAgent(
	ctx context.Context, of catalog.Agent, spec catalog.AgentSpec,
) (record.Entity[catalog.Agent], error) {
	return t.createAgent(ctx, of.Organization, &of.Spec, spec, true)
}

// NoteExport writes into the audit log that the principal has exported an agent, if the request has an author. Its
// errors are those of the store.
func (t *Tenants) NoteExport(ctx context.Context, p Principal, agent string) error {
	return t.store.NoteDeed(ctx, p.Organization, "agent", agent)
}

func (t *Tenants) createAgent(
	ctx context.Context, organization string, before *catalog.AgentSpec, spec catalog.AgentSpec, skipCheck bool,
) (record.Entity[catalog.Agent], error) {
	a := catalog.Agent{ID: t.host.NewID(), Organization: organization, CreatedAt: t.host.Now()}
	if err := t.checkSpec(ctx, organization, before, &spec, skipCheck); err != nil {
		return record.Entity[catalog.Agent]{}, err
	}
	tx := t.store.Begin(a.ID)
	t.nextVersion(tx, &a, spec, true)
	return record.PutResource(tx, record.Fresh(a)), tx.Commit(ctx)
}

// nextVersion makes a spec the agent's next version and adds the write of the version's own row. Unless publish is set,
// new runs go on to use the version that was published before.
func (t *Tenants) nextVersion(tx *record.Tx, a *catalog.Agent, spec catalog.AgentSpec, publish bool) {
	published := a.Current()
	if a.Version > 0 && spec.Name != a.Spec.Name {
		a.NamedAt = t.host.Now()
	}
	a.Spec, a.UpdatedAt = spec, t.host.Now()
	a.Version++
	if a.Published = published; publish {
		a.Published = a.Version
	}
	record.PutVersion(tx, *a, a.Version)
}

// Agent reads an agent in its newest version, strongly. It returns a problem of kind NotFound. The kind is Forbidden
// when the agent belongs to another organization or the principal may not use it.
func (t *Tenants) Agent(ctx context.Context, p Principal, id string) (record.Entity[catalog.Agent], error) {
	e, err := record.Resource[catalog.Agent](ctx, t.store, p.Scope(), id)
	if err == nil {
		err = p.MayUse(e.Value)
	}
	return e, err
}

// Runnable returns the agent for a principal's new run: in its published version, or in the given version when that is
// above 0. An edit of the last seconds may be missing.
//
// It returns a problem of kind NotFound, and of kind Invalid (agent_version) when there is no such version. It returns
// one of kind Forbidden when the agent belongs to another organization or the principal may not use it.
func (t *Tenants) Runnable(ctx context.Context, p Principal, id string, version int) (catalog.Agent, error) {
	scope := p.Scope()
	e, err := record.Resource[catalog.Agent](ctx, t.known, scope, id)
	if err == nil {
		err = p.MayUse(e.Value)
	}
	if err != nil {
		return e.Value, err
	}
	wanted := e.Value.Current()
	if version > 0 {
		wanted = version
	}
	if wanted == e.Value.Version {
		return e.Value, nil
	}
	a, err := record.Version[catalog.Agent](ctx, t.known, scope, id, wanted)
	a.Spec.Budget = e.Value.Spec.Budget // like the groups, the budget is that of the agent as it is now
	if isGone(err) && version > 0 {
		return a, problem.InvalidField("agent_version", "the agent has no version %d", version)
	}
	return a, err
}

// PublishAgent makes a version of the agent, newer or older, the one that new runs use. Only admins may publish one
// that needs fewer approvals than the published one. It returns a problem of kind NotFound or Forbidden, and of kind
// PreconditionFailed when match is not the resource's version. If there is no such version, the problem is of kind
// Invalid (body.version).
func (t *Tenants) PublishAgent(
	ctx context.Context, p Principal, id string, match record.Match, version int,
) (record.Entity[catalog.Agent], error) {
	return record.Change(ctx, t.store, p.Scope(), id, match, func(a *catalog.Agent, _ *record.Tx) error {
		if err := p.MayUse(*a); err != nil {
			return err
		}
		of, err := record.Version[catalog.Agent](ctx, t.store, p.Scope(), id, version)
		if isGone(err) {
			return problem.InvalidField("body.version", "the agent has no version %d", version)
		}
		if err == nil {
			err = t.mayFollow(ctx, p, *a, of.Spec)
		}
		if err != nil {
			return err
		}
		a.Published, a.UpdatedAt = version, t.host.Now()
		return nil
	})
}

// EditAgent makes the result of edit, which gets the newest spec, the agent's next version. edit may be called more
// than once, when another request changes the agent meanwhile. publish makes new runs use the version; skipCheck leaves
// out the call to the model's provider.
//
// Only an admin may remove the need for an approval from the newest version, or from the published one if publish is
// set. Only an admin may show chats that only their users see to the organization. It returns edit's error as it is. It
// returns a problem of kind NotFound or Forbidden, of kind PreconditionFailed when match is not the resource's version,
// and of kind Invalid that names the field. Or it returns the error of Defaults.CheckModel.
func (t *Tenants) EditAgent(
	ctx context.Context, p Principal, id string, match record.Match, skipCheck, publish bool,
	edit func(catalog.AgentSpec) (catalog.AgentSpec, error),
) (record.Entity[catalog.Agent], error) {
	return record.Change(ctx, t.store, p.Scope(), id, match, func(a *catalog.Agent, tx *record.Tx) error {
		if err := p.MayUse(*a); err != nil {
			return err
		}
		spec, err := edit(a.Spec)
		if err != nil {
			return err
		}
		if err := t.checkSpec(ctx, a.Organization, &a.Spec, &spec, skipCheck); err != nil {
			return err
		}
		if err := p.mayShow(a.Spec, spec); err != nil {
			return err
		}
		if err = t.mayLoosen(ctx, p, a.Organization, a.Spec, spec); err == nil && publish {
			err = t.mayFollow(ctx, p, *a, spec)
		}
		if err != nil {
			return err
		}
		t.nextVersion(tx, a, spec, publish)
		return nil
	})
}

// RemoveAgent deletes an agent. Its versions stay as long as its organization does. Runs that began with them need
// them, also for the groups that may reach these runs. It returns a problem of kind NotFound or Forbidden.
func (t *Tenants) RemoveAgent(ctx context.Context, p Principal, id string) error {
	_, err := record.Remove(ctx, t.store, p.Scope(), id, func(e record.Entity[catalog.Agent], tx *record.Tx) error {
		if err := p.MayUse(e.Value); err != nil {
			return err
		}
		record.PutResource(tx, record.Fresh(catalog.RemovedAgent{
			ID: id, Organization: e.Value.Organization, Published: e.Value.Current(),
		}))
		return nil
	})
	return err
}
