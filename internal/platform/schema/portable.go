package schema

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// Anything is the schema of an object with any members.
var Anything = json.RawMessage(`{"type":"object","properties":{}}`)

// Portable turns the schema of a tool's arguments into one that every model provider takes. A provider refuses a whole
// request for one tool that it does not take. The result may accept more values: arguments are checked against the
// original schema.
//
// At the top, the result has the type object, members and no alternatives: their members become one list. Below, each
// array has items, each object has members, and each keyword has a value of its type. A schema that has all this is
// returned unchanged. The error is the reason why no object fits.
func Portable(raw json.RawMessage) (json.RawMessage, error) {
	if text := bytes.TrimSpace(raw); len(text) == 0 || string(text) == "null" || string(text) == "true" {
		return Anything, nil
	}
	if len(raw) > MaxSize {
		return Anything, nil
	}
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		return nil, fmt.Errorf("it is not JSON: %w", plain(err))
	}
	root, ok := document.(map[string]any)
	if !ok {
		return nil, errors.New("it is not a JSON object")
	}
	if form, err := survey(document); err != nil || form.schemas > maxSchemas {
		return Anything, nil //nolint:nilerr // the tool can be called, whatever its schema says
	}
	m := &mender{root: root, left: maxMended}
	top, fits := m.members(root, 0)
	if !fits {
		return nil, errors.New("it allows no object, but arguments are always an object")
	}
	out := m.flat(root, top)
	m.root = out
	mended := m.object(out, 0)
	m.targets(mended)
	if reflect.DeepEqual(root, mended) {
		return raw, nil
	}
	portable, err := json.Marshal(mended)
	if err != nil || m.left < 0 || len(portable) > 2*MaxSize {
		return Anything, nil //nolint:nilerr // as above
	}
	return portable, nil
}

// Bounds of mending.
const (
	maxMended = 20_000 // objects and names that are looked at
	maxWithin = 32     // levels of members that are kept
	maxFlat   = 8      // levels of alternatives and references at the top
	maxForms  = 16     // forms of one member
	maxValues = 200    // values of one member
	maxNote   = 500    // bytes of the note about alternatives
)

// topOnly are keywords that providers refuse at the top.
var topOnly = []string{"allOf", "anyOf", "oneOf", "not", "enum", "const", "$ref"}

type mender struct {
	root map[string]any
	left int // of maxMended

	referred []any    // the references that were kept
	open     []string // the references that are being replaced
}

// members are the rules of one part for the members of an object.
type members struct {
	properties map[string]any
	required   []string
	words      map[string]any // keywords of the target of the part's reference
	groups     []string       // the members of each alternative
}

// members reads a part of the schema at the top, with the parts that apply to the same object. fits is false if no
// object fits it.
func (m *mender) members(part any, depth int) (of members, fits bool) {
	of = members{properties: map[string]any{}}
	s, ok := part.(map[string]any)
	if m.left--; !ok || depth > maxFlat || m.left < 0 {
		return of, part != false
	}
	if types := typesOf(s["type"]); len(types) > 0 && !slices.Contains(types, "object") {
		return of, false
	}
	own, _ := s["properties"].(map[string]any)
	maps.Copy(of.properties, own)
	of.required = texts(s["required"])
	m.left -= len(own) + len(of.required)
	parts := list(s["allOf"])
	if target, ok := Target(m.root, s["$ref"]); ok {
		of.words, _ = target.(map[string]any)
		parts = append([]any{target}, parts...)
	}
	for _, one := range parts {
		more, fits := m.members(one, depth+1)
		if !fits {
			return of, false
		}
		m.and(&of, more)
	}
	for _, name := range []string{"anyOf", "oneOf"} {
		forms, fits := m.alternatives(list(s[name]), depth)
		if !fits {
			return of, false
		}
		m.and(&of, forms)
	}
	return of, true
}

// alternatives reads parts of which an object fits one.
func (m *mender) alternatives(parts []any, depth int) (of members, fits bool) {
	for _, one := range parts {
		more, ok := m.members(one, depth+1)
		switch {
		case !ok:
			continue
		case !fits:
			of = members{properties: more.properties, required: more.required}
		default:
			m.or(&of, more)
		}
		fits = true
		of.groups = append(of.groups, strings.Join(more.required, ", "))
	}
	return of, fits || len(parts) == 0
}

// and adds rules that must hold, too.
func (m *mender) and(of *members, more members) {
	for name, other := range more.properties {
		of.properties[name] = m.both(of.properties[name], other)
	}
	m.left -= len(more.properties) + len(of.required)
	of.required = texts(anys(append(of.required, more.required...)))
	if len(more.groups) > 1 {
		of.groups = more.groups
	}
}

// or adds rules that may hold instead.
func (m *mender) or(of *members, more members) {
	for name, other := range more.properties {
		if own, known := of.properties[name]; known {
			other = either(own, other)
		}
		of.properties[name] = other
	}
	known := make(map[string]bool, len(more.required))
	for _, name := range more.required {
		known[name] = true
	}
	m.left -= len(more.properties) + len(of.required)
	of.required = slices.DeleteFunc(slices.Clone(of.required), func(name string) bool { return !known[name] })
}

// both merges two parts for one member: the keywords of both, with the members that each names.
func (m *mender) both(a, b any) any {
	own, isOwn := a.(map[string]any)
	more, isMore := b.(map[string]any)
	switch {
	case !isOwn:
		return b
	case !isMore:
		return a
	}
	together := maps.Clone(own)
	maps.Copy(together, more)
	m.left -= len(together)
	for _, name := range []string{"properties", "patternProperties"} {
		these, those := object(own[name]), object(more[name])
		if m.left < 0 || these == nil || those == nil {
			continue
		}
		all := maps.Clone(these)
		for member, one := range those {
			all[member] = m.both(these[member], one)
		}
		together[name] = all
		m.left -= len(all)
	}
	if needed := append(texts(own["required"]), texts(more["required"])...); len(needed) > 0 {
		together["required"] = anys(needed)
		m.left -= len(needed)
	}
	return together
}

// either is a member that has one form or another.
func either(a, b any) any {
	if reflect.DeepEqual(a, b) {
		return a
	}
	own, isOwn := a.(map[string]any)
	more, isMore := b.(map[string]any)
	if !isOwn || !isMore {
		return map[string]any{}
	}
	if these, those := values(own), values(more); these != nil && those != nil && len(these) < maxValues {
		one := map[string]any{"enum": distinct(slices.Concat(these, those))}
		if reflect.DeepEqual(own["type"], more["type"]) && own["type"] != nil {
			one["type"] = own["type"]
		}
		return one
	}
	forms := []any{a}
	if inner, ok := own["anyOf"].([]any); ok && len(own) == 1 {
		forms = slices.Clone(inner)
	}
	if slices.ContainsFunc(forms, func(one any) bool { return reflect.DeepEqual(one, b) }) {
		return a
	}
	if len(forms) == maxForms {
		return map[string]any{}
	}
	return map[string]any{"anyOf": append(forms, b)}
}

// distinct are the values of a list, each once.
func distinct(list []any) []any {
	all, known := make([]any, 0, len(list)), make(map[string]bool, len(list))
	for _, one := range list {
		text, _ := json.Marshal(one) // it was read from JSON
		if !known[string(text)] {
			all, known[string(text)] = append(all, one), true
		}
	}
	return all
}

// values are the allowed values of a member; nil: any.
func values(s map[string]any) []any {
	if only, is := s["const"]; is {
		return []any{only}
	}
	return list(s["enum"])
}

// flat is the schema without alternatives at its top.
func (m *mender) flat(root map[string]any, top members) map[string]any {
	out := maps.Clone(root)
	for name, v := range top.words {
		if _, there := out[name]; !there {
			out[name] = v
		}
	}
	for _, name := range topOnly {
		delete(out, name)
	}
	out["type"], out["properties"] = "object", top.properties
	delete(out, "required")
	if len(top.required) > 0 {
		out["required"] = anys(top.required)
	} else if own, ok := root["required"].([]any); ok && len(own) == 0 {
		out["required"] = own
	}
	if note := top.note(); note != "" {
		if description, ok := out["description"].(string); ok && description != "" {
			note = description + "\n" + note
		}
		out["description"] = note
	}
	return out
}

// note describes, in words, the members that alternatives need.
func (of members) note() string {
	groups := texts(anys(of.groups))
	note := "Needs the members of one of these groups: " + strings.Join(groups, "; ") + "."
	if len(groups) < 2 || slices.Contains(groups, "") || len(note) > maxNote {
		return ""
	}
	return note
}

// Target is the part of a document to which a reference (#/a/0/b) within it points.
func Target(root, reference any) (_ any, there bool) {
	steps, within := pointer(reference)
	if !within {
		return nil, false
	}
	return follow(root, steps)
}

// pointer is the path to the target of a reference within the schema: names of members and indexes of lists.
func pointer(reference any) (steps []string, within bool) {
	text, _ := reference.(string)
	rest, within := strings.CutPrefix(text, "#")
	if !within || rest == "" {
		return nil, within
	}
	rest, within = strings.CutPrefix(rest, "/")
	for _, step := range strings.Split(rest, "/") {
		if plain, err := url.PathUnescape(step); err == nil {
			step = plain
		}
		steps = append(steps, strings.ReplaceAll(strings.ReplaceAll(step, "~1", "/"), "~0", "~"))
	}
	return steps, within
}

func follow(at any, steps []string) (_ any, there bool) {
	for _, step := range steps {
		switch here := at.(type) {
		case map[string]any:
			if at, there = here[step]; !there {
				return nil, false
			}
		case []any:
			n, err := strconv.Atoi(step)
			if err != nil || n < 0 || n >= len(here) {
				return nil, false
			}
			at = here[n]
		default:
			return nil, false
		}
	}
	return at, true
}

func list(v any) []any {
	l, _ := v.([]any)
	return l
}

// texts are the texts of a list, each once.
func texts(v any) (all []string) {
	known := map[string]bool{}
	for _, one := range list(v) {
		if text, ok := one.(string); ok && !known[text] {
			all, known[text] = append(all, text), true
		}
	}
	return all
}

func anys(texts []string) []any {
	all := make([]any, 0, len(texts))
	for _, text := range texts {
		all = append(all, text)
	}
	return all
}

// theirs are the types of JSON schema.
var theirs = []string{"array", "boolean", "integer", "null", "number", "object", "string"}

// typesOf are the types that a schema names. Types that JSON schema does not have are left out.
func typesOf(v any) (types []string) {
	named := texts(v)
	if one, ok := v.(string); ok {
		named = []string{one}
	}
	for _, one := range named {
		one = strings.ToLower(one)
		if slices.Contains(theirs, one) && !slices.Contains(types, one) {
			types = append(types, one)
		}
	}
	return types
}
