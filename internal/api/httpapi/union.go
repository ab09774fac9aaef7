package httpapi

import (
	"reflect"

	"github.com/danielgtaylor/huma/v2"
)

// UnionMember is one of the types of a [Union].
type UnionMember struct {
	of     reflect.Type
	values []string
}

// Member is a type that some values of the union's discriminator name.
func Member[T any](values ...string) UnionMember { return UnionMember{reflect.TypeFor[T](), values} }

// Union is the schema of one of several types, which the member named by says.
func Union(r huma.Registry, by, description string, members ...UnionMember) *huma.Schema {
	s := &huma.Schema{
		Description: description, Discriminator: &huma.Discriminator{PropertyName: by, Mapping: map[string]string{}},
	}
	for _, m := range members {
		one := r.Schema(m.of, true, "")
		s.OneOf = append(s.OneOf, one)
		for _, value := range m.values {
			s.Discriminator.Mapping[value] = one.Ref
		}
	}
	return s
}
