package schema

import (
	"encoding/json"
	"reflect"
	"regexp"
	"slices"
	"strconv"
)

// drafts are the values of $schema that are known.
var drafts = regexp.MustCompile(`^https?://json-schema\.org/draft(-0[467]|/2019-09|/2020-12)/schema#?$`)

// kind is the kind of value that a keyword has.
type kind int

const (
	aSchema     kind = iota + 1
	aRule            // a schema, or whether anything fits
	aCondition       // a schema that goes where it is not kept as it is: what fits more of it may fit less outside
	someSchemas      // by name
	aList            // of schemas
	aText
	aPattern
	somePatterns // schemas, by patterns
	aNumber
	aStep // a number above 0
	aCount
	aFlag
	names      // a list of texts
	someValues // a list of anything
	theTypes
	theReference
	theDraft
	unsent // it names parts in ways that are not resolved here, or depends on parts that may be gone
)

// keywords are the keywords of JSON schema whose values are checked. All other keywords are kept unchanged: a provider
// knows or ignores them. The targets of references are mended there, too.
var keywords = map[string]kind{
	"items": aSchema, "contains": aSchema, "propertyNames": aSchema, "contentSchema": aSchema, "not": aCondition,
	"if": aCondition, "then": aCondition, "else": aCondition, "additionalProperties": aRule,
	"unevaluatedItems": unsent, "unevaluatedProperties": unsent, "dependencies": unsent, "dependentRequired": unsent,
	"$id": unsent, "$anchor": unsent, "$dynamicAnchor": unsent, "$dynamicRef": unsent, "$recursiveAnchor": unsent,
	"$recursiveRef": unsent, "$vocabulary": unsent, "$schema": theDraft, "$comment": aText, "contentEncoding": aText,
	"contentMediaType": aText,
	"properties":       someSchemas, "patternProperties": somePatterns, "$defs": someSchemas,
	"definitions":      someSchemas,
	"dependentSchemas": someSchemas, "allOf": aList, "anyOf": aList, "oneOf": aList, "prefixItems": aList,
	"title": aText, "description": aText, "format": aText, "pattern": aPattern,
	"minimum": aNumber, "maximum": aNumber, "exclusiveMinimum": aNumber, "exclusiveMaximum": aNumber,
	"multipleOf": aStep, "minLength": aCount, "maxLength": aCount, "minItems": aCount, "maxItems": aCount,
	"minProperties": aCount, "maxProperties": aCount, "minContains": aCount, "maxContains": aCount,
	"uniqueItems": aFlag, "readOnly": aFlag, "writeOnly": aFlag, "deprecated": aFlag,
	"required": names, "enum": someValues, "examples": someValues, "type": theTypes, "$ref": theReference,
}

// part mends a part of a schema. A value that is not a schema becomes a schema that any value fits.
func (m *mender) part(v any, depth int) any {
	s, ok := v.(map[string]any)
	if m.left--; !ok || depth > maxWithin || m.left < 0 {
		return map[string]any{}
	}
	return m.object(s, depth)
}

func (m *mender) object(s map[string]any, depth int) map[string]any {
	out := make(map[string]any, len(s)+1)
	for name, v := range s {
		known := keywords[name]
		if name == "items" && list(v) != nil { // of an older JSON schema: one for each place
			v = m.tuple(list(v))
		}
		if known == 0 {
			out[name] = cloned(v)
		} else if mended, ok := m.value(known, v, depth); ok {
			out[name] = mended
		}
	}
	if one, there := out["oneOf"]; there && out["anyOf"] == nil && !reflect.DeepEqual(one, s["oneOf"]) {
		out["anyOf"] = one // several may fit now
		delete(out, "oneOf")
	}
	limit(s, out, "minimum", "exclusiveMinimum")
	limit(s, out, "maximum", "exclusiveMaximum")
	if theirs, _ := out["patternProperties"].(map[string]any); len(theirs) < len(object(s["patternProperties"])) {
		delete(out, "additionalProperties") // what fits a pattern that is gone is not forbidden
	}
	types := typesOf(out["type"])
	if _, there := out["items"]; !there && slices.Contains(types, "array") {
		out["items"] = map[string]any{}
	}
	if _, there := out["properties"]; !there && slices.Contains(types, "object") {
		out["properties"] = map[string]any{}
	}
	return out
}

// tuple returns a schema that a value fits if it fits one of the schemas of a list's positions.
func (m *mender) tuple(positions []any) any {
	if len(positions) == 0 {
		return map[string]any{}
	}
	item := positions[0]
	for _, one := range positions[1:] {
		item = either(item, one)
	}
	return item
}

// limit writes a limit in the form of today's JSON schema. In an older form, the schema has only a flag that the limit
// is excluded.
func limit(s, out map[string]any, name, excluded string) {
	if s[excluded] == true && out[name] != nil {
		out[excluded] = out[name]
		delete(out, name)
	}
}

// value mends the value of a keyword; ok is false if the keyword must be left out.
func (m *mender) value(of kind, v any, depth int) (mended any, ok bool) {
	switch of {
	case aSchema:
		return m.part(v, depth+1), v != nil
	case aRule:
		if _, is := v.(bool); is {
			return v, true
		}
		return m.part(v, depth+1), v != nil
	case someSchemas:
		return m.named(v, depth, nil)
	case somePatterns:
		return m.named(v, depth, portablePattern)
	case aList:
		all := make([]any, 0, len(list(v)))
		for _, one := range list(v) {
			all = append(all, m.part(one, depth+1))
		}
		return all, len(all) > 0
	case aCondition:
		mended = m.part(v, depth+1)
		return mended, reflect.DeepEqual(mended, v)
	case aText:
		_, ok = v.(string)
	case theDraft:
		draft, is := v.(string)
		ok = is && drafts.MatchString(draft)
	case aPattern:
		pattern, is := v.(string)
		ok = is && portablePattern(pattern)
	case aNumber, aStep, aCount:
		n, is := v.(json.Number)
		value, err := n.Float64()
		ok = is && err == nil && (of != aStep || value > 0) &&
			(of != aCount || value >= 0 && value == float64(int64(value)))
	case aFlag:
		_, ok = v.(bool)
	case names:
		return anys(texts(v)), list(v) != nil
	case someValues:
		return distinct(list(v)), len(list(v)) > 0
	case theTypes:
		return types(v)
	case theReference:
		if _, ok = Target(m.root, v); ok {
			m.referred = append(m.referred, v)
		}
	}
	return v, ok
}

// named mends schemas by name. It leaves out a member that is not allowed, and one with an unfit name.
func (m *mender) named(v any, depth int, fit func(string) bool) (any, bool) {
	s, is := v.(map[string]any)
	if !is {
		return nil, false
	}
	all := make(map[string]any, len(s))
	for name, one := range s {
		if one != false && (fit == nil || fit(name)) {
			all[name] = m.part(one, depth+1)
		}
	}
	return all, true
}

// types is the value of type: one type or a list of them.
func types(v any) (any, bool) {
	known := typesOf(v)
	switch len(known) {
	case 0:
		return nil, false
	case 1:
		return known[0], true
	}
	return anys(known), true
}

// targets mends the targets of the references of a mended schema, since these may stand under unknown keywords.
func (m *mender) targets(mended map[string]any) {
	done := map[any]bool{"#": true}
	for len(m.referred) > 0 && m.left >= 0 {
		reference := m.referred[0]
		m.referred = m.referred[1:]
		m.root = mended
		if steps, within := pointer(reference); within && len(steps) > 0 && !done[reference] {
			if at, ok := follow(mended, steps[:len(steps)-1]); ok {
				m.replace(at, steps[len(steps)-1])
			}
		}
		done[reference] = true
	}
	walk(mended, 0, func(v any, _ int) { // older drafts have lists that are mended to one schema
		s, _ := v.(map[string]any)
		if text, _ := s["$ref"].(string); done[text] {
			if _, there := Target(mended, text); !there {
				delete(s, "$ref")
			}
		}
	})
}

// replace mends one value of an object or a list.
func (m *mender) replace(within any, step string) {
	one, ok := follow(within, []string{step})
	if !ok {
		return
	}
	switch within := within.(type) {
	case map[string]any:
		within[step] = m.part(one, 1)
	case []any:
		n, _ := strconv.Atoi(step) // follow has read it
		within[n] = m.part(one, 1)
	}
}

// cloned is a copy of a value that shares no part with another.
func cloned(v any) any {
	switch v := v.(type) {
	case map[string]any:
		all := make(map[string]any, len(v))
		for name, one := range v {
			all[name] = cloned(one)
		}
		return all
	case []any:
		all := make([]any, 0, len(v))
		for _, one := range v {
			all = append(all, cloned(one))
		}
		return all
	}
	return v
}

func object(v any) map[string]any {
	o, _ := v.(map[string]any)
	return o
}
