package vectorserver

import (
	"slices"
	"strings"
)

// constraints returns the number of values that a filter compares with.
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

// admits reports whether a filter is true for a vector's metadata. The whole filter is read, for any metadata:
// https://docs.aws.amazon.com/AmazonS3/latest/userguide/s3-vectors-metadata-filtering.html
func (c *collection) admits(given any, metadata map[string]any) (bool, error) {
	object, is := given.(map[string]any)
	if !is || len(object) == 0 {
		return false, invalid("filter: %v is no object with members", given)
	}
	all := true
	for name, value := range object {
		matches, err := c.member(name, value, metadata)
		if err != nil {
			return false, err
		}
		all = all && matches
	}
	return all, nil
}

// member evaluates one member of a filter: $and, $or, or the name of metadata with a value or with operators. Operators
// that s3index does not use are refused.
func (c *collection) member(name string, value any, metadata map[string]any) (bool, error) {
	if name == "$and" || name == "$or" {
		list, is := value.([]any)
		if !is || len(list) == 0 {
			return false, invalid("filter: %s needs a list of filters", name)
		}
		n := 0
		for _, each := range list {
			matches, err := c.admits(each, metadata)
			if err != nil {
				return false, err
			}
			if matches {
				n++
			}
		}
		return n == len(list) || name == "$or" && n > 0, nil
	}
	if strings.HasPrefix(name, "$") || slices.Contains(c.apart, name) {
		return false, invalid("filter: %s is no operator here, or is not filterable", name)
	}
	operators, is := value.(map[string]any)
	if !is {
		operators = map[string]any{"$eq": value}
	}
	if len(operators) == 0 {
		return false, invalid("filter: %s has no operator", name)
	}
	all, v := true, metadata[name]
	for operator, operand := range operators {
		switch values, _ := operand.([]any); {
		case operator == "$eq" && primitive(operand):
			of, is := v.([]any) // equal is a list when one of its elements is
			all = all && (is && slices.Contains(of, operand) || primitive(v) && v == operand)
		case operator == "$in" && len(values) > 0 && !slices.ContainsFunc(values, compound):
			// Whether a list of metadata is in it, is not documented: here it is not.
			all = all && primitive(v) && slices.Contains(values, v)
		default:
			return false, invalid("filter: %s of %v", operator, operand)
		}
	}
	return all, nil
}

func primitive(v any) bool {
	switch v.(type) {
	case string, float64, bool:
		return true
	}
	return false
}

func compound(v any) bool { return !primitive(v) }
