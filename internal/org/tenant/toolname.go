package tenant

import (
	"context"
	"maps"
	"regexp"
	"slices"

	"agentplatform/internal/ai/tool"
	"agentplatform/internal/org/catalog"
	"agentplatform/internal/store/record"
)

// maxToolNames is how many names of tools an organization's agents may keep. An agent beyond it is named by its id.
const maxToolNames = 2000

// ToolNames returns the names under which an organization's agents are offered as tools, in their order. Each name is
// stored with its first agent and never passes to another one. Agents without a stored name take theirs in the order
// given. reserved are names of other tools. The error is one of the store.
func (t *Tenants) ToolNames(
	ctx context.Context, organization string, agents []catalog.Agent, reserved ...string,
) ([]string, error) {
	read := func(from record.Reader) (e record.Entity[catalog.ToolNames], names []string, whole bool, err error) {
		e, err = record.Resource[catalog.ToolNames](
			ctx, from, record.Of(organization), catalog.ToolNamesID(organization))
		if isGone(err) {
			e = record.Fresh(catalog.ToolNames{Organization: organization})
		} else if err != nil {
			return e, nil, false, err
		}
		before := len(e.Value.Agents)
		if e.Value.Agents = maps.Clone(e.Value.Agents); e.Value.Agents == nil {
			e.Value.Agents = map[string]string{}
		}
		for _, a := range agents {
			names = append(names, toolName(e.Value.Agents, a, reserved))
		}
		return e, names, len(e.Value.Agents) == before, nil
	}
	// Names are only added: an old copy that has them all has the present ones.
	if _, names, whole, err := read(t.known); whole || err != nil {
		return names, err
	}
	return record.DespiteConflicts(ctx, t.store, func() ([]string, error) {
		e, names, whole, err := read(t.store)
		if whole || err != nil {
			return names, err
		}
		tx := t.store.Begin(t.host.NewID())
		record.PutResource(tx, e)
		return names, tx.Commit(ctx)
	})
}

// namesAnID matches names that end with an id. No agent keeps such a name, since it is that of the agent with the id.
var namesAnID = regexp.MustCompile(`_[0-9a-f]{24}$`)

// toolName is the tool name of an agent. It is the agent's own name, or that with the end of its id: the first that is
// the agent's by taken or may become so. Else the name ends with the whole id.
func toolName(taken map[string]string, a catalog.Agent, reserved []string) string {
	name := tool.Name(a.Spec.Name)
	with := func(suffix string) string { return name[:min(len(name), tool.MaxName-len(suffix))] + suffix }
	for _, wanted := range []string{name, with("_" + a.ID[len(a.ID)-8:])} {
		if taken[wanted] == a.ID {
			return wanted
		}
		free := taken[wanted] == "" && !slices.Contains(reserved, wanted) && !namesAnID.MatchString(wanted)
		if free && len(taken) < maxToolNames {
			taken[wanted] = a.ID
			return wanted
		}
	}
	return with("_" + a.ID)
}
