package knowledge

import (
	"cmp"
	"encoding/json"
	"slices"

	"agentplatform/internal/org/catalog"
	"agentplatform/internal/platform/problem"
	"agentplatform/internal/text/index"
)

// Filter narrows a search to some documents; the zero filter admits all.
type Filter struct {
	DocumentIDs []string // nil: any
	Metadata    map[string]Condition
}

// Condition is a condition on the value of a member of the metadata. A document without the member does not meet it.
type Condition struct {
	In          []any // one of these; nil: any
	Least, Most any   // a string or a number; nil: no bound
}

// maxConditions and maxIn bound a filter.
const (
	maxConditions = 20
	maxIn         = 100
)

// ParseCondition reads a condition: a value, {in: […]}, or {gte, lte}. field is where it is in the request. It returns
// a problem of kind Invalid that names the field.
func ParseCondition(field string, raw json.RawMessage) (Condition, error) {
	var v any
	if err := json.Unmarshal(raw, &v); err != nil {
		return Condition{}, problem.InvalidField(field, "must be a value, {in: […]} or {gte, lte}")
	}
	object, is := v.(map[string]any)
	if !is {
		return Condition{In: []any{v}}, checkValues(field, []any{v})
	}
	var c Condition
	if len(object) == 0 {
		return c, problem.InvalidField(field, "must be a value, {in: […]} or {gte, lte}")
	}
	for name, v := range object {
		at := field + "." + name
		switch name {
		case "in":
			list, is := v.([]any)
			if !is || len(list) > maxIn {
				return c, problem.InvalidField(at, "must be a list of at most %d values", maxIn)
			}
			c.In = append([]any{}, list...)
			if err := checkValues(at, list); err != nil {
				return c, err
			}
		case "gte", "lte":
			switch v.(type) {
			case string, float64:
			default:
				return c, problem.InvalidField(at, "must be a string or a number")
			}
			if name == "gte" {
				c.Least = v
			} else {
				c.Most = v
			}
		default:
			return c, problem.InvalidField(at, "must be in, gte or lte")
		}
	}
	return c, nil
}

func checkValues(field string, values []any) error {
	for _, v := range values {
		switch v.(type) {
		case string, float64, bool:
		default:
			return problem.InvalidField(field, "must be a string, a number or a boolean")
		}
	}
	return nil
}

// check returns a problem of kind Invalid that names the field.
func (f Filter) check() error {
	if len(f.DocumentIDs) > index.MaxDocuments {
		return problem.InvalidField("body.filter.document_ids", "must name at most %d documents", index.MaxDocuments)
	}
	if err := checkIDs("body.filter.document_ids", f.DocumentIDs); err != nil {
		return err
	}
	if len(f.Metadata) > maxConditions {
		return problem.InvalidField("body.filter.metadata", "must have at most %d members", maxConditions)
	}
	for name := range f.Metadata {
		if !metadataName.MatchString(name) {
			return problem.InvalidField("body.filter.metadata", "names have 1 to 64 characters of A-Z, a-z, 0-9, _ . -")
		}
	}
	return nil
}

// admits reports whether a document passes.
func (f Filter) admits(d catalog.Document) bool {
	if f.DocumentIDs != nil && !slices.Contains(f.DocumentIDs, d.ID) {
		return false
	}
	for name, c := range f.Metadata {
		raw, there := d.Metadata[name]
		var v any
		if !there || json.Unmarshal(raw, &v) != nil || !c.admits(v) {
			return false
		}
	}
	return true
}

func (c Condition) admits(v any) bool {
	if c.In != nil && !slices.Contains(c.In, v) {
		return false
	}
	return (c.Least == nil || within(c.Least, v)) && (c.Most == nil || within(v, c.Most))
}

// within reports whether two values are of one type, strings or numbers, and in order.
func within(low, high any) bool {
	switch low := low.(type) {
	case string:
		high, is := high.(string)
		return is && low <= high
	case float64:
		high, is := high.(float64)
		return is && cmp.Compare(low, high) <= 0
	}
	return false
}
