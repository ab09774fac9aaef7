// Package iam decides whether a role of the synthesized stacks may make a call of AWS. It decodes calls from the
// requests that the SDK sends (Decode). It reads policies from templates (Read), and evaluates a call against them
// (Stacks.Decide). It keeps a ledger of calls without a right and of grants without a call (Ledger). A Guard does all
// this between a program and a stand-in for AWS, which does not check rights.
//
// It must not know our programs, nor what a right is for. It knows the services, operations, template functions and
// conditions that our programs and stacks use. Anything else is an error, and is never ignored. It imports only the
// standard library.
//
// How AWS decides: https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_evaluation-logic.html
package iam

import (
	"slices"
	"strings"
)

// Call is a request in the terms of policies: an action on a resource.
type Call struct {
	Action   string              `json:"action"`            // service:Action
	Resource string              `json:"resource"`          // an ARN
	Context  map[string][]string `json:"context,omitempty"` // values by condition key; keys are in lower case
}

func (c Call) String() string { return c.Action + " on " + resourcePart(c.Resource) }

// resourcePart returns an ARN without the part that depends only on the location of the stage.
func resourcePart(arn string) string {
	if parts := strings.SplitN(arn, ":", 6); len(parts) == 6 {
		return parts[5]
	}
	return arn
}

// Names maps the names of a deployment's resources to their names in Stacks.
type Names map[string]string

// Names returns the Names of a deployment of the stacks. The argument has the physical ID of each resource by its
// logical ID, as CloudFormation gives them. A physical ID is a resource's name, or ends with it.
func (s *Stacks) Names(physical map[string]string) Names {
	n := Names{}
	for _, t := range s.stacks {
		for id, r := range t.Resources {
			if shapes[r.Type] != nil && physical[id] != "" { // policies name no others
				n[lastPart(physical[id])] = s.names[id]
			}
		}
	}
	return n
}

func lastPart(s string) string { return s[strings.LastIndexAny(s, ":/")+1:] }

// In returns a call with the name of its resource replaced. The name is the first part of the ARN that is known, so the
// keys of objects do not change.
func (n Names) In(c Call) Call {
	head, rest := "", c.Resource
	for rest != "" {
		end := strings.IndexAny(rest, ":/")
		if end < 0 {
			end = len(rest)
		}
		if name, known := n[rest[:end]]; known {
			c.Resource = head + name + rest[end:]
			return c
		}
		end = min(end+1, len(rest))
		head, rest = head+rest[:end], rest[end:]
	}
	return c
}

// like reports whether a string matches a pattern of IAM. * is any string, ? is any single character.
func like(pattern, text string) bool {
	p, t := []rune(pattern), []rune(text)
	i, star, again := 0, -1, 0 // where in p; the last star, and from where in t it has taken none yet
	for j := 0; j < len(t); {
		switch {
		case i < len(p) && p[i] == '*':
			star, again = i, j
			i++
		case i < len(p) && (p[i] == '?' || p[i] == t[j]):
			i++
			j++
		case star >= 0:
			again++
			i, j = star+1, again
		default:
			return false
		}
	}
	return !slices.ContainsFunc(p[i:], func(r rune) bool { return r != '*' })
}
