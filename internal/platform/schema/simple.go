package schema

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// Simple is a portable schema for providers that refuse much of JSON schema. It has types, members, items, lists of
// texts, choices and descriptions. Gemini refuses each other keyword. llama.cpp cannot make a grammar of some patterns
// and limits. Amazon Nova takes type, properties and required at the top, and no references: note is the description of
// the whole. The result may accept more, as that of [Portable].
func Simple(portable json.RawMessage) (simple json.RawMessage, note string) {
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(PlainNames(portable)))
	root := object(document)
	if err != nil || root == nil {
		return Anything, ""
	}
	m := &mender{root: root, left: maxSimple}
	note, _ = root["description"].(string)
	out := m.ofType("object", root, 0)
	simple, err = json.Marshal(out)
	if err != nil || len(simple) > 2*MaxSize {
		return Anything, note
	}
	return simple, note
}

// Bounds of resolved references: each reference is replaced by its target.
const (
	maxSimple = 3_000 // parts
	maxNested = 12    // levels
)

func (m *mender) simple(v any, depth int) map[string]any {
	if m.left--; m.left < 0 {
		return m.ofType(guessed(object(v)), nil, maxNested+1)
	}
	s, via := m.whole(object(v), 0)
	choices := m.choices(s)
	if len(choices) == 0 { // they become members of s
		for _, one := range alternatives(s) {
			_, more := m.whole(object(one), 0)
			via = append(via, more...)
		}
	}
	if slices.ContainsFunc(via, func(reference string) bool { return slices.Contains(m.open, reference) }) {
		depth = max(depth, maxNested+1) // it refers to itself: once is enough
	}
	opened := len(m.open)
	m.open = append(m.open, via...)
	defer func() { m.open = m.open[:opened] }()
	text, _ := s["description"].(string)
	if len(choices) == 0 || depth > maxNested+1 {
		return described(m.ofType(guessed(s), s, depth), text)
	}
	forms := m.forms(choices, depth)
	nullable := len(forms) < len(choices)
	var out map[string]any
	switch len(forms) {
	case 0:
		return described(m.ofType("string", nil, depth), text)
	case 1:
		out = forms[0]
	default:
		for _, one := range forms {
			described(one, text)
			if nullable {
				one["nullable"] = true
			}
		}
		return map[string]any{"anyOf": anyOf(forms)}
	}
	if nullable {
		out["nullable"] = true
	}
	return described(out, text)
}

func alternatives(s map[string]any) []any { return slices.Concat(list(s["anyOf"]), list(s["oneOf"])) }

// choices are alternatives that are sent in place of a part; none if the part has one type. Alternatives for the
// members of an object are merged into it.
func (m *mender) choices(s map[string]any) (choices []any) {
	of := func(one string) any {
		part := maps.Clone(s)
		part["type"] = one
		return part
	}
	types := typesOf(s["type"])
	for _, one := range types {
		choices = append(choices, of(one))
	}
	switch len(types) {
	case 0:
		choices = alternatives(s)
	case 1:
		return nil
	default:
		return choices
	}
	if len(choices) == 0 || guessed(s) != "object" {
		return choices
	}
	others := slices.DeleteFunc(choices, func(one any) bool {
		whole, _ := m.whole(object(one), 0)
		types := typesOf(whole["type"])
		return len(types) == 0 || slices.Contains(types, "object")
	})
	if len(others) == 0 {
		return nil
	}
	return append(others, of("object"))
}

func anyOf(forms []map[string]any) []any {
	all := make([]any, 0, len(forms))
	for _, one := range forms {
		all = append(all, one)
	}
	return all
}

// described is a part with a description, unless it has one.
func described(out map[string]any, text string) map[string]any {
	if _, there := out["description"]; !there && text != "" && out["anyOf"] == nil {
		out["description"] = text
	}
	return out
}

// forms are choices as simple parts, without null and without choices of their own.
func (m *mender) forms(choices []any, depth int) (forms []map[string]any) {
	for _, one := range choices {
		whole, _ := m.whole(object(one), 0)
		if types := typesOf(whole["type"]); len(types) == 1 && types[0] == "null" {
			continue
		}
		form := m.simple(one, depth+1)
		inner := list(form["anyOf"])
		if inner == nil {
			inner = []any{form}
		}
		for _, one := range inner {
			forms = append(forms, object(one))
		}
	}
	return forms
}

// whole is a part merged with its references and its allOf. via are the references so far.
func (m *mender) whole(s map[string]any, depth int) (all map[string]any, via []string) {
	parts := list(s["allOf"])
	if target, there := Target(m.root, s["$ref"]); there {
		reference, _ := s["$ref"].(string)
		via, parts = append(via, reference), append([]any{target}, parts...)
	}
	if len(parts) == 0 || depth > maxFlat || m.left < 0 {
		return s, via
	}
	var merged any = map[string]any{}
	for _, one := range parts {
		if m.left--; m.left < 0 {
			break
		}
		more, others := m.whole(object(one), depth+1)
		merged, via = m.both(merged, more), append(via, others...)
	}
	own := maps.Clone(s)
	delete(own, "$ref")
	delete(own, "allOf")
	return object(m.both(merged, own)), via
}

// ofObjects and ofArrays are keywords that only limit values of one type.
var (
	ofObjects = []string{"properties", "additionalProperties", "patternProperties", "required", "minProperties"}
	ofArrays  = []string{"items", "prefixItems", "contains", "minItems", "maxItems"}
)

// guessed is the type of a part: the first that it names, or that of its keywords and values.
func guessed(s map[string]any) string {
	has := func(name string) bool { return s[name] != nil }
	switch types := typesOf(s["type"]); {
	case len(types) > 0:
		return types[0]
	case slices.ContainsFunc(ofObjects, has):
		return "object"
	case slices.ContainsFunc(ofArrays, has):
		return "array"
	}
	for _, one := range values(s) {
		switch one.(type) {
		case bool:
			return "boolean"
		case json.Number:
			return "number"
		case map[string]any:
			return "object"
		case []any:
			return "array"
		}
	}
	return "string"
}

func (m *mender) ofType(of string, s map[string]any, depth int) map[string]any {
	out := map[string]any{"type": of}
	deep := depth > maxNested
	switch of {
	case "null":
		return map[string]any{"type": "string", "nullable": true}
	case "object":
		properties := map[string]any{}
		out["properties"] = properties
		if deep {
			break
		}
		own, fits := m.members(s, 0)
		if !fits || m.left < 0 { // choices of other types, or too many
			own = members{properties: object(s["properties"]), required: texts(s["required"])}
		}
		for _, name := range slices.Sorted(maps.Keys(own.properties)) {
			properties[name] = m.simple(own.properties[name], depth+1)
		}
		required := slices.DeleteFunc(own.required, func(name string) bool { return properties[name] == nil })
		if len(required) > 0 {
			out["required"] = anys(required)
		}
	case "array":
		out["items"] = map[string]any{"type": "string"}
		if !deep {
			out["items"] = m.simple(m.items(s), depth+1)
		}
	case "string":
		named := slices.DeleteFunc(texts(values(s)), func(one string) bool { return one == "" })
		if len(named) > 0 && len(named) == len(values(s)) {
			out["enum"] = anys(named)
		} else if s["format"] == "date-time" {
			out["format"] = "date-time"
		}
	}
	return out
}

// items returns a schema for the items of an array, from its items, its positions, or the items of its choices.
func (m *mender) items(s map[string]any) any {
	items := list(s["prefixItems"])
	for _, one := range alternatives(s) {
		if whole, _ := m.whole(object(one), 0); whole["items"] != nil {
			items = append(items, whole["items"])
		}
	}
	if own := object(s["items"]); len(own) > 0 || len(items) == 0 {
		return own
	}
	return m.tuple(items)
}
