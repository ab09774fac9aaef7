package schema

import (
	"maps"
	"slices"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// foreign is a regular expression that is not checked: see [isForeign].
type foreign string

func (f foreign) String() string        { return string(f) }
func (foreign) MatchString(string) bool { return true }

// loosen removes the foreign patterns from a compiled schema. Their parts then accept more: they are loose, and so is
// each part that leads to one. Keywords that would accept less because of that are removed, too.
func loosen(parts map[*jsonschema.Schema]*part) {
	loose := map[*jsonschema.Schema]bool{}
	var waiting []*jsonschema.Schema
	users := map[*jsonschema.Schema][]*jsonschema.Schema{}
	for s, p := range parts {
		if withoutForeign(s) {
			waiting = append(waiting, s)
		}
		for _, one := range slices.AppendSeq(slices.Concat(p.here, p.below), maps.Values(s.Properties)) {
			users[one] = append(users[one], s)
		}
	}
	for len(waiting) > 0 {
		s := waiting[0]
		if waiting = waiting[1:]; !loose[s] {
			loose[s] = true
			waiting = append(waiting, users[s]...)
		}
	}
	is := func(s *jsonschema.Schema) bool { return loose[s] }
	for s := range loose {
		if is(s.Not) {
			s.Not = nil
		}
		if is(s.Contains) {
			s.MaxContains = nil
		}
		if slices.ContainsFunc(parts[s].here, is) { // it may not see what they have seen
			s.UnevaluatedProperties, s.UnevaluatedItems = nil, nil
		}
		if is(s.If) {
			s.If, s.Then, s.Else = nil, nil, nil
		}
		if slices.ContainsFunc(s.OneOf, is) { // several may fit now
			s.AllOf = append(s.AllOf, &jsonschema.Schema{
				DraftVersion: s.DraftVersion, Location: s.Location, AnyOf: s.OneOf,
			})
			s.OneOf = nil
		}
	}
}

// withoutForeign removes the foreign patterns from one part. Members may fit those that were removed.
func withoutForeign(s *jsonschema.Schema) (had bool) {
	if _, had = s.Pattern.(foreign); had {
		s.Pattern = nil
	}
	for pattern := range s.PatternProperties {
		if _, is := pattern.(foreign); is {
			had = true
			delete(s.PatternProperties, pattern)
			s.AdditionalProperties, s.UnevaluatedProperties = nil, nil
		}
	}
	return had
}
