package iam

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Grant is a right that a role has by its own policies: an action on a resource, in the words of its policies.
type Grant struct{ Role, Action, Resource string }

func (g Grant) String() string { return g.Role + ": " + g.Action + " on " + resourcePart(g.Resource) }

// grants returns the grants of a statement, one for each action and resource. An excluded action or resource has "not"
// before it.
func (st statement) grants(role string) (list []Grant) {
	if !st.allow {
		return nil
	}
	not := map[bool]string{true: "not "}
	for _, action := range st.actions {
		for _, target := range st.targets {
			list = append(list, Grant{role, not[st.notAction] + action, not[st.notTarget] + target})
		}
	}
	return list
}

// Grants returns all grants of the roles' own policies, in the order of the roles.
func (s *Stacks) Grants() (list []Grant) {
	for _, role := range slices.Sorted(maps.Keys(s.policies)) {
		for _, d := range s.policies[role] {
			for _, st := range d.statements {
				list = append(list, st.grants(role)...)
			}
		}
	}
	return slices.Compact(list)
}

// Without returns the stacks without one grant of a role, to show that something needs it.
func (s *Stacks) Without(g Grant) *Stacks {
	less := *s
	less.policies = maps.Clone(s.policies)
	less.policies[g.Role] = nil
	for _, d := range s.policies[g.Role] {
		var kept []statement
		for _, st := range d.statements {
			if !st.allow || st.notAction || st.notTarget {
				kept = append(kept, st)
				continue
			}
			for _, action := range st.actions { // one statement for each action and resource
				for _, target := range st.targets {
					if one := (Grant{g.Role, action, target}); one != g {
						single := st
						single.actions, single.targets = []string{action}, []string{target}
						kept = append(kept, single)
					}
				}
			}
		}
		less.policies[g.Role] = append(less.policies[g.Role], document{d.at, kept})
	}
	return &less
}

// Decision is the result of evaluating the policies for a call.
type Decision struct {
	Allowed bool
	By      []Grant // the role's grants that allow it
	Why     string  // the reason, if it is refused
}

// Decide reports whether a role may make a call. A statement that denies it counts before all others. Otherwise the
// role's own policies or that of the resource must allow it. A key's policy must always allow it: for the role, or for
// the account. In the second case the role's own policies must allow it, too.
func (s *Stacks) Decide(role string, c Call) Decision {
	if arn := s.unread[role]; arn != "" {
		return Decision{Why: fmt.Sprintf("the policy %s of %s is not known: add it to infra/iam/policy.go", arn, role)}
	}
	var d Decision
	for _, document := range s.policies[role] {
		for _, st := range document.statements {
			if !st.applies(c) {
				continue
			}
			if !st.allow {
				return Decision{Why: fmt.Sprintf("%s denies %s to %s", document.at, c, role)}
			}
			for _, g := range st.grants(role) {
				if st.notAction || st.notTarget || like(strings.ToLower(g.Action), strings.ToLower(c.Action)) &&
					like(g.Resource, c.Resource) {
					d.By = append(d.By, g)
				}
			}
		}
	}
	self, root := "arn:aws:iam::"+s.account+":role/"+role, "arn:aws:iam::"+s.account+":root"
	shared, delegated := false, !strings.HasPrefix(c.Action, "kms:")
	for _, document := range s.shared {
		for _, st := range document.statements {
			if !st.applies(c) {
				continue
			}
			named := slices.Contains(st.principals, "*") || slices.Contains(st.principals, self)
			account := slices.Contains(st.principals, root)
			switch {
			case !st.allow && (named || account):
				return Decision{Why: fmt.Sprintf("%s denies %s to %s", document.at, c, role)}
			case st.allow:
				shared, delegated = shared || named, delegated || account
			}
		}
	}
	switch {
	case shared || len(d.By) > 0 && delegated:
		d.Allowed = true
	case len(d.By) > 0:
		d = Decision{Why: fmt.Sprintf("the policy of the key does not leave %s to %s", c, role)}
	default:
		d.Why = fmt.Sprintf("no policy allows %s to %s", c, role)
	}
	return d
}

// applies reports whether a statement is about a call. It ignores the principal.
func (st statement) applies(c Call) bool {
	action := slices.ContainsFunc(st.actions, func(a string) bool {
		return like(strings.ToLower(a), strings.ToLower(c.Action))
	})
	if action == st.notAction || anyLike(st.targets, c.Resource) == st.notTarget {
		return false
	}
	return !slices.ContainsFunc(st.conditions, func(one condition) bool {
		return !operators[one.operator](c.Context[one.key], one.values)
	})
}
