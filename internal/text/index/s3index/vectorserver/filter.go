package vectorserver

import (
	"slices"
	"strings"
)

// admits says whether a filter is true of a vector's metadata.
type admits func(metadata map[string]any) bool

// filter reads a filter as it is documented:
// https://docs.aws.amazon.com/AmazonS3/latest/userguide/s3-vectors-metadata-filtering.html
func (c *collection) filter(given any) (admits, error) {
	if given == nil {
		return func(map[string]any) bool { return true }, nil
	}
	if n := constraints(given); n > mostConstraints {
		return nil, invalid("filter: %d constraints", n)
	}
	object, is := given.(map[string]any)
	if !is || len(object) == 0 {
		return nil, invalid("filter: %v is no object with members", given)
	}
	var all []admits
	for name, value := range object {
		one, err := c.member(name, value)
		if err != nil {
			return nil, err
		}
		all = append(all, one)
	}
	return every(all), nil
}

// constraints are the values that something is compared with.
func constraints(given any) int {
	n := 0
	switch given := given.(type) {
	case map[string]any:
		for _, v := range given {
			n += constraints(v)
		}
	case []any:
		for _, v := range given {
			n += constraints(v)
		}
	default:
		return 1
	}
	return n
}

func every(all []admits) admits {
	return func(m map[string]any) bool {
		return !slices.ContainsFunc(all, func(f admits) bool { return !f(m) })
	}
}

// member is one member of a filter: $and, $or, or the name of metadata with a value or with operators.
func (c *collection) member(name string, value any) (admits, error) {
	if name == "$and" || name == "$or" {
		list, is := value.([]any)
		if !is || len(list) == 0 {
			return nil, invalid("filter: %s needs a list of filters", name)
		}
		var all []admits
		for _, each := range list {
			one, err := c.filter(each)
			if err != nil {
				return nil, err
			}
			all = append(all, one)
		}
		if name == "$and" {
			return every(all), nil
		}
		return func(m map[string]any) bool {
			return slices.ContainsFunc(all, func(f admits) bool { return f(m) })
		}, nil
	}
	if strings.HasPrefix(name, "$") {
		return nil, invalid("filter: the operator %s", name)
	}
	if slices.Contains(c.apart, name) {
		return nil, invalid("filter: %s is not filterable", name)
	}
	operators, is := value.(map[string]any)
	if !is {
		operators = map[string]any{"$eq": value}
	}
	var all []admits
	for operator, operand := range operators {
		holds, err := compare(operator, operand)
		if err != nil {
			return nil, err
		}
		all = append(all, func(m map[string]any) bool { return holds(m[name]) })
	}
	if len(all) == 0 {
		return nil, invalid("filter: %s has no operator", name)
	}
	return every(all), nil
}

// compare is an operator with its operand. Those that s3index does not use are refused. What it is given is nil where
// the metadata has no such name.
func compare(operator string, operand any) (func(value any) bool, error) {
	wrong := invalid("filter: %s of %v", operator, operand)
	switch operator {
	case "$eq":
		if !primitive(operand) {
			return nil, wrong
		}
		return func(v any) bool { return equal(v, operand) }, nil
	case "$in":
		list, is := operand.([]any)
		if !is || len(list) == 0 || slices.ContainsFunc(list, func(v any) bool { return !primitive(v) }) {
			return nil, wrong
		}
		// Whether a list of metadata is in it, is not documented: here it is not.
		return func(v any) bool { return primitive(v) && slices.Contains(list, v) }, nil
	}
	return nil, wrong
}

func primitive(v any) bool {
	switch v.(type) {
	case string, float64, bool:
		return true
	}
	return false
}

// equal is true of a list when one of its elements is equal.
func equal(v, operand any) bool {
	if list, is := v.([]any); is {
		return slices.Contains(list, operand)
	}
	return primitive(v) && v == operand
}
