package schema

import "github.com/santhosh-tekuri/jsonschema/v6"

// Visits counts the visits of a schema's parts that the library completes, and returns the limit of them.
func Visits(s Schema) (made func() int, most int) {
	n := 0
	for part := range partsOf(s.compiled) {
		part.Extensions = append(part.Extensions, visit(func() { n++ }))
	}
	return func() int { return n }, maxSteps
}

type visit func()

func (v visit) Validate(*jsonschema.ValidatorContext, any) { v() }
