// Package iam says whether a role of the synthesized stacks may make a call of AWS. It reads calls out of the requests
// that the SDK sends (Decode), policies out of templates (Read), holds one against the other (Stacks.Decide), and keeps
// a ledger of both: what was called without a right to it, and what is granted and was not called (Ledger). A Guard
// does so between a program and what stands in for AWS, which knows no rights.
//
// It must not know our programs, nor what a right is for. It knows the services, the operations, the functions of
// templates and the conditions that our programs and stacks use; anything else is an error, and never ignored. It
// imports the standard library alone.
//
// How AWS decides: https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_evaluation-logic.html
package iam

import (
	"slices"
	"strings"
)

// Call is what a request asks for as policies say it: an action on a resource.
type Call struct {
	Action   string              `json:"action"`            // service:Action
	Resource string              `json:"resource"`          // an ARN
	Context  map[string][]string `json:"context,omitempty"` // values by condition key; keys are in lower case
}

func (c Call) String() string { return c.Action + " on " + place(c.Resource) }

// place is an ARN without the part that says only where the stage is.
func place(arn string) string {
	if parts := strings.SplitN(arn, ":", 6); len(parts) == 6 {
		return parts[5]
	}
	return arn
}

// Names are the names of a deployment's resources, each with the name that the resource has in Stacks.
type Names map[string]string

// Names are those of a deployment of the stacks, by the IDs that CloudFormation gives resources: the physical by the
// logical ones. A physical ID is a resource's name, or ends with it.
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

// In returns a call with the name of its resource replaced. The name is the first part of the ARN that is known, so
// what keys of objects say is left alone.
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

// like says whether a text matches a pattern of IAM: * is any text, ? is any one character.
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
