package toolkit

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"agentplatform/internal/ai/tool"
)

// alike is the problem of a tool without a name of its own. Earlier versions stored such tools; a refresh names them.
const alike = "another tool has the same name"

// identity identifies a tool at its server, under any name here. own is the server's own name of it. request is the
// request of a tool that is one; a tool of an earlier version may have it alone.
type identity struct {
	own     string
	known   bool // own is known
	request string
}

// pointer is the part of a binding that identifies the tool of a server.
type pointer struct {
	Name   *string `json:"name,omitempty"`
	Method string  `json:"method,omitempty"`
	URL    string  `json:"url,omitempty"`
}

func pointed(binding json.RawMessage) (p pointer) {
	_ = json.Unmarshal(binding, &p) // that of an unknown kind points nowhere
	return p
}

func identityOf(own string, binding json.RawMessage) identity {
	b := pointed(binding)
	is := identity{own: own, known: own != ""}
	if b.Name != nil {
		is.own, is.known = *b.Name, true
	}
	if b.URL != "" {
		is.request = b.Method + " " + b.URL
	}
	return is
}

// reserved is the remainder of a tool that its server offers no longer: its name, its rules, and its identity.
func (t Tool) reserved() Tool {
	rest := Tool{Own: t.Own, Approval: t.Approval, TimeoutMS: t.TimeoutMS, RetrySafe: t.RetrySafe, ReadOnly: t.ReadOnly}
	rest.Name, rest.Definition.RetrySafe = t.Name, t.Definition.RetrySafe
	rest.Binding, _ = json.Marshal(pointed(t.Binding))
	return rest
}

// reads reports whether a call of the tool changes nothing, as its server declares or HTTP defines. A tool with a name
// is called by its name: the method of an imported binding does not count.
func (t Tool) reads() bool {
	p := pointed(t.Binding)
	return t.ReadOnly || p.Name == nil && (p.Method == http.MethodGet || p.Method == http.MethodHead)
}

// first is the approval of a tool before its owner decides about it.
func (t Tool) first() tool.Approval {
	if t.reads() {
		return tool.Approval{}
	}
	return tool.Always
}

// tighten makes the tool begin again as a new one, unless its calls change nothing.
func (t *Tool) tighten() {
	if !t.reads() {
		t.Approval = tool.Always
	}
}

// turned reports whether the tool may change something now, and its owner decided about another tool. That one changed
// nothing, or its call went elsewhere. Older lists do not mark the tools that only read; all of these could be
// repeated.
func (t Tool) turned(was Tool) bool {
	is, before := identityOf(t.Own, t.Binding).request, identityOf(was.Own, was.Binding).request
	return !t.reads() && (was.reads() || was.Definition.RetrySafe && !t.Definition.RetrySafe || is != before)
}

// ruled reports whether a tool's owner has set rules for it.
func (t Tool) ruled() bool {
	return t.Approval != t.first() || t.TimeoutMS != 0 || t.Definition.RetrySafe && !t.RetrySafe
}

// remembered bounds the tools that a server offers no longer. Those without rules are forgotten first, then the oldest.
func remembered(gone []Tool) []Tool {
	over := len(gone) - maxGone
	gone = slices.DeleteFunc(gone, func(t Tool) bool {
		forget := over > 0 && !t.ruled()
		if forget {
			over--
		}
		return forget
	})
	return gone[max(0, over):]
}

// maxGone is how many tools a toolkit remembers after its server has stopped offering them.
const maxGone = 2 * tool.MaxTools

// named gives names to the tools that a server lists. Names that become alike get a number. A tool that had a name
// keeps it, and no other tool ever gets that name: agents, rules and paused calls refer to tools by their names.
func named(found []tool.Definition, before []Tool) {
	had := make([]identity, len(before))
	taken, claimed := map[string]bool{}, make([]bool, len(before))
	for i, one := range before {
		had[i] = identityOf(one.Own, one.Binding)
		taken[one.Name] = true
		claimed[i] = one.Problem == alike
	}
	is, has := make([]identity, len(found)), make([]bool, len(found))
	for i, d := range found {
		is[i] = identityOf(d.Own, d.Binding)
	}
	for _, same := range []func(f, b int) bool{
		func(f, b int) bool { return is[f].known && is[f] == had[b] },
		func(f, b int) bool { return is[f].known && had[b].known && is[f].own == had[b].own },
		func(f, b int) bool { return !had[b].known && had[b].request != "" && is[f].request == had[b].request },
		func(f, b int) bool { return !had[b].known && found[f].Name == before[b].Name },
	} {
		for f := range found {
			for b := range before {
				if !has[f] && !claimed[b] && same(f, b) {
					has[f], claimed[b] = true, true
					found[f].Name = before[b].Name
				}
			}
		}
	}
	next := map[string]int{}
	for f := range found {
		if !has[f] {
			found[f].Name = numbered(taken, next, found[f].Name)
		}
	}
}

// namesOf are the names of tools by the server's own names.
func namesOf(tools []Tool) tool.Names {
	names := tool.Names{}
	for _, one := range tools {
		if is := identityOf(one.Own, one.Binding); is.known {
			names[is.own] = append(names[is.own], one.Name)
		}
	}
	return names
}

// isNumbered reports whether [numbered] may have made one name from the other.
func isNumbered(name, from string) bool {
	at := strings.LastIndexByte(name, '_')
	n, err := strconv.Atoi(name[at+1:])
	suffix := fmt.Sprintf("_%d", n)
	return err == nil && n >= 2 && name == from[:min(len(from), tool.MaxName-len(suffix))]+suffix
}

// numbered returns a name that is not taken, and takes it. next are the numbers to begin with: a server may list
// thousands of names that become alike.
func numbered(taken map[string]bool, next map[string]int, name string) string {
	candidate, n := name, max(next[name], 2)
	for ; taken[candidate]; n++ {
		suffix := fmt.Sprintf("_%d", n)
		candidate = name[:min(len(name), tool.MaxName-len(suffix))] + suffix
	}
	next[name], taken[candidate] = n, true
	return candidate
}
