package schema

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// Simple is a portable schema for providers that refuse much of JSON schema: it has types, members, items, lists of
// texts, choices and descriptions. Gemini refuses each other keyword. llama.cpp cannot make a grammar of some patterns
// and limits. Amazon Nova takes type, properties and required at the top, and no references: note is the
// description of the whole. The result may accept more, as that of [Portable].
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

// Bounds of what references become: each is replaced by what it points to.
const (
	maxSimple = 3_000 // parts
	maxNested = 12    // levels
)

// simple is a part as a simple one.
func (m *mender) simple(v any, depth int) map[string]any {
	if m.left--; m.left < 0 {
		return map[string]any{"type": "string"}
	}
	s := m.whole(object(v), 0)
	if reference, is := object(v)["$ref"].(string); is {
		if slices.Contains(m.open, reference) { // it refers to itself: once is enough
			depth = maxNested + 1
		}
		m.open = append(m.open, reference)
		defer func() { m.open = m.open[:len(m.open)-1] }()
	}
	types := typesOf(s["type"])
	choices := slices.Concat(list(s["anyOf"]), list(s["oneOf"]))
	switch {
	case len(types) == 0 && (len(choices) == 0 || depth > maxNested):
		choices = nil
		types = []string{guessed(s)}
	case len(types) == 0:
	case len(types) > 1:
		choices = nil
		for _, one := range types {
			part := map[string]any{"type": one}
			for name, v := range s {
				if name != "type" {
					part[name] = v
				}
			}
			choices = append(choices, part)
		}
	default:
		choices = nil // they are about members that the part itself has
	}
	forms := m.forms(choices, depth)
	text, _ := s["description"].(string)
	nullable := len(forms) < len(choices)
	var out map[string]any
	switch {
	case len(choices) == 0:
		out = m.ofType(types[0], s, depth)
	case len(forms) == 0:
		return described(m.ofType("string", nil, depth), text)
	case len(forms) == 1:
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
		s := m.whole(object(one), 0)
		if types := typesOf(s["type"]); len(types) == 1 && types[0] == "null" {
			continue
		}
		form := m.simple(s, depth+1)
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

// whole is a part merged with its reference and its allOf.
func (m *mender) whole(s map[string]any, depth int) map[string]any {
	parts := list(s["allOf"])
	if target, there := Target(m.root, s["$ref"]); there {
		parts = append([]any{target}, parts...)
	}
	if len(parts) == 0 || depth > maxFlat || m.left < 0 {
		return s
	}
	own := map[string]any{}
	for name, v := range s {
		if name != "$ref" && name != "allOf" {
			own[name] = v
		}
	}
	var all any = map[string]any{}
	for _, one := range parts {
		if m.left--; m.left < 0 {
			break
		}
		all = m.both(all, m.whole(object(one), depth+1))
	}
	return object(m.both(all, own))
}

// guessed is the type of a part that names none.
func guessed(s map[string]any) string {
	switch {
	case s["properties"] != nil, s["additionalProperties"] != nil:
		return "object"
	case s["items"] != nil:
		return "array"
	}
	for _, one := range values(s) {
		switch one.(type) {
		case bool:
			return "boolean"
		case json.Number:
			return "number"
		}
	}
	return "string"
}

// ofType is a part of one type.
func (m *mender) ofType(of string, s map[string]any, depth int) map[string]any {
	out := map[string]any{"type": of}
	deep := depth > maxNested
	switch of {
	case "null":
		return map[string]any{"type": "string", "nullable": true}
	case "object":
		properties := map[string]any{}
		out["properties"] = properties
		var required []string
		own := object(s["properties"])
		for _, name := range slices.Sorted(maps.Keys(own)) {
			if !deep {
				properties[name] = m.simple(own[name], depth+1)
			}
		}
		for _, name := range texts(s["required"]) {
			if properties[name] != nil {
				required = append(required, name)
			}
		}
		if len(required) > 0 {
			out["required"] = anys(required)
		}
	case "array":
		out["items"] = map[string]any{"type": "string"}
		if !deep {
			out["items"] = m.simple(s["items"], depth+1)
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
