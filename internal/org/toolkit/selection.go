package toolkit

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"agentplatform/internal/ai/tool"
	"agentplatform/internal/org/catalog"
	"agentplatform/internal/platform/problem"
	"agentplatform/internal/store/record"
)

// checkSelection returns a problem of kind Invalid that names the entry that is wrong. at is the toolkit's field in the
// body.
func checkSelection(at string, s tool.Selection) error {
	var wrong *tool.Error
	if errors.As(s.Check(), &wrong) {
		return problem.InvalidField(at+"."+wrong.Field, "%s", wrong.Message)
	}
	return nil
}

// selectable returns a problem of kind Invalid for a kind whose tools cannot be chosen.
func selectable(kind string, s tool.Selection) error {
	return problem.InvalidIf(!s.IsAll() && kind != "openapi" && kind != "mcp", "body.include",
		"is only valid for kinds openapi and mcp")
}

// chosen are the tools of a server that a selection chooses, with their names. before are the tools of the list before.
// A document's operations are chosen before they are read.
func chosen(
	kind string, e tool.Endpoint, found []tool.Definition, before []Tool,
) ([]tool.Definition, error) {
	if kind == "http" { // its owner names it
		return found, nil
	}
	candidates := make([]tool.Candidate, len(found))
	for i, one := range found {
		candidates[i].Names = []string{one.Name}
		if own := identityOf(one.Own, one.Binding).own; own != "" {
			candidates[i].Names = append(candidates[i].Names, own)
		}
	}
	named(found, before)
	if kind == "openapi" {
		return found, nil
	}
	for i, one := range found {
		candidates[i].Names = append(candidates[i].Names, one.Name)
	}
	which, err := e.Selection.Choose(candidates, e.Requested)
	if err == nil && len(which) > tool.MaxTools {
		err = &tool.Error{Field: "include", Message: fmt.Sprintf("the server lists over %d tools (%d): "+
			"choose some with include, for example %s", tool.MaxTools, len(which), found[0].Name)}
	}
	list := make([]tool.Definition, 0, len(which))
	for _, i := range which {
		list = append(list, found[i])
	}
	return list, err
}

// Choice is an edit of a selection; nil leaves a list as it is.
type Choice struct {
	Include *[]string `json:"include,omitempty"`
	Exclude *[]string `json:"exclude,omitempty"`
}

// MarshalJSON writes an empty list as such: null would leave the list as it is.
func (c Choice) MarshalJSON() ([]byte, error) {
	for _, list := range []**[]string{&c.Include, &c.Exclude} {
		if *list != nil && **list == nil {
			*list = &[]string{}
		}
	}
	type plain Choice
	return json.Marshal(plain(c))
}

// Select changes which tools a toolkit takes from its endpoint, and requests them, in one commit. As after a refresh,
// added tools are not enabled. match is the version that the caller has seen. Its errors are those of Refresh. It also
// returns a problem of kind PreconditionFailed, or of kind Invalid that names the entry that is wrong or matches
// nothing. An unchanged list may have entries whose tools have gone.
func (s *Toolkits) Select(
	ctx context.Context, scope record.Scope, id string, match record.Match, c Choice,
) (Difference, error) {
	requested := &tool.Selection{}
	set(&requested.Include, c.Include)
	set(&requested.Exclude, c.Exclude)
	return s.refresh(ctx, scope, id, match, requested, func(t *catalog.Toolkit) error {
		set(&t.Selection.Include, c.Include)
		set(&t.Selection.Exclude, c.Exclude)
		if err := checkSelection("body", t.Selection); err != nil {
			return err
		}
		return selectable(t.Kind, t.Selection)
	})
}
