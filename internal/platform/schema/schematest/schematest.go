// Package schematest knows which schemas of tools the providers of models refuse, from their documentation and from
// public reports of their errors.
package schematest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// Provider is a provider, or a set of providers, whose rules a schema must obey.
type Provider string

// The providers. All has the rules of the first two, for all of their models and all endpoints with their API.
const (
	All       Provider = "OpenAI and Anthropic" // openai/openai-agents-python#449, claude-code#586, mcp-graphql#14
	Anthropic Provider = "Anthropic"            // names of members, too
	Nova      Provider = "Amazon Nova"          // pydantic-ai#1623, zed#28521
	Gemini    Provider = "Gemini"               // zed#44875, AstrBot#7572, opencode#2687, openswarm#24
)

// Refused returns the reason why a provider refuses a schema; empty if it takes it.
func Refused(by Provider, raw json.RawMessage) string {
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	top, is := document.(map[string]any)
	switch {
	case err != nil || !is:
		return "it is not a JSON object"
	case top["type"] != "object":
		return "its type is not object"
	}
	for _, name := range []string{"oneOf", "anyOf", "allOf", "enum", "const", "not", "$ref"} {
		if _, there := top[name]; there {
			return name + " at the top"
		}
	}
	if why := notOfDraft(top); why != "" {
		return why
	}
	rules := rules{by, top}
	switch by {
	case Anthropic:
		return rules.anthropic()
	case Nova:
		for name := range top {
			if name != "type" && name != "properties" && name != "required" {
				return "extraneous key [" + name + "] is not permitted"
			}
		}
	}
	return rules.part(top, "it", 0)
}

// notOfDraft returns how a schema violates the draft 2020-12, whichever it names.
func notOfDraft(top map[string]any) string {
	if err := draft().Validate(top); err != nil {
		return "JSON schema is invalid: " + err.Error()
	}
	return ""
}

var draft = sync.OnceValue(func() *jsonschema.Schema {
	return jsonschema.NewCompiler().MustCompile("https://json-schema.org/draft/2020-12/schema")
})

type rules struct {
	by  Provider
	top map[string]any
}

var plainName = regexp.MustCompile(`^[a-zA-Z0-9_.-]{1,64}$`)

func (r rules) anthropic() string {
	properties, _ := r.top["properties"].(map[string]any)
	for name := range properties {
		if !plainName.MatchString(name) {
			return fmt.Sprintf("property keys should match pattern: %q", name)
		}
	}
	required, _ := r.top["required"].([]any)
	for _, name := range required {
		if _, there := properties[name.(string)]; !there && !plainName.MatchString(name.(string)) {
			return fmt.Sprintf("%q is required", name)
		}
	}
	return r.part(r.top, "it", 0)
}

// part returns why a part is refused.
func (r rules) part(v any, at string, depth int) string {
	s, is := v.(map[string]any)
	if !is {
		return fmt.Sprintf("%s: %v is not of type 'object'", at, v)
	}
	if why := r.own(s); why != "" {
		return at + ": " + why
	}
	parts := within(s)
	if reference, there := s["$ref"].(string); there && depth < 20 {
		target, known := resolved(r.top, reference)
		if !known {
			return fmt.Sprintf("%s: reference %q was not found", at, reference)
		}
		if reference != "#" {
			parts["->"+reference] = target
			depth += 10
		}
	}
	for _, name := range slices.Sorted(maps.Keys(parts)) {
		if why := r.part(parts[name], at+"."+name, depth+1); why != "" {
			return why
		}
	}
	return ""
}

// own returns why a part is refused for its own keywords.
func (r rules) own(s map[string]any) string {
	switch {
	case isOf(s["type"], "object") && s["properties"] == nil:
		return "object schema missing properties"
	case isOf(s["type"], "array") && s["items"] == nil:
		return "array schema missing items"
	}
	values, _ := s["enum"].([]any)
	for i, one := range values {
		if slices.ContainsFunc(values[:i], func(v any) bool { return reflect.DeepEqual(v, one) }) {
			return fmt.Sprintf("%v has non-unique elements", values)
		}
	}
	if pattern, _ := s["pattern"].(string); notPython.MatchString(pattern) {
		return fmt.Sprintf("%s is not a 'regex'", pattern)
	}
	of, _ := s["patternProperties"].(map[string]any)
	for pattern := range of {
		if notPython.MatchString(pattern) {
			return fmt.Sprintf("%s is not a 'regex'", pattern)
		}
	}
	switch r.by {
	case Gemini:
		return gemini(s)
	case Nova:
		if _, there := s["$ref"]; there {
			return "a reference: definitions are not permitted"
		}
	}
	return ""
}

// notPython matches expressions in schemas that the re module of Python does not read.
var notPython = regexp.MustCompile(`\\[pPzZ]|\(\?<[a-z]|\\u\{`)

// geminis are the keywords of Gemini's Schema. Its parser refuses each other member: "Unknown name".
var geminis = []string{
	"type", "format", "title", "description", "nullable", "enum", "maxItems", "minItems", "properties", "required",
	"minProperties", "maxProperties", "minLength", "maxLength", "pattern", "example", "anyOf", "propertyOrdering",
	"default", "items", "minimum", "maximum",
}

func gemini(s map[string]any) string {
	for name := range s {
		if !slices.Contains(geminis, name) {
			return fmt.Sprintf("Unknown name %q: Cannot find field", name)
		}
	}
	typed, is := s["type"].(string)
	_, choice := s["anyOf"]
	switch {
	case s["type"] != nil && !is:
		return "Proto field is not repeating, cannot start list"
	case choice && len(s) > 1:
		return "when using any_of, it must be the only field set"
	case !choice && typed == "":
		return "didn't specify the schema type field"
	case !slices.Contains([]string{"", "array", "boolean", "integer", "number", "object", "string"}, typed):
		return "Invalid value at type"
	}
	values, listed := s["enum"].([]any)
	if listed && typed != "string" {
		return "enum: only allowed for STRING type"
	}
	for _, one := range values {
		if text, is := one.(string); !is || text == "" {
			return fmt.Sprintf("Invalid value at enum (TYPE_STRING), or cannot be empty: %v", one)
		}
	}
	if format, there := s["format"].(string); there && typed == "string" && format != "enum" && format != "date-time" {
		return "only 'enum' and 'date-time' are supported for STRING type"
	}
	properties, _ := s["properties"].(map[string]any)
	required, _ := s["required"].([]any)
	for _, name := range required {
		if _, there := properties[name.(string)]; !there {
			return fmt.Sprintf("required: property is not defined: %v", name)
		}
	}
	return ""
}

func isOf(types any, one string) bool {
	list, _ := types.([]any)
	return types == one || slices.Contains(list, any(one))
}

// within are the parts of a part, by their positions.
func within(s map[string]any) map[string]any {
	parts := map[string]any{}
	for _, name := range []string{"items", "not", "if", "then", "else", "contains", "propertyNames",
		"additionalProperties"} {
		_, rule := s[name].(bool)
		if one, there := s[name]; there && (!rule || name != "additionalProperties") {
			parts[name] = one
		}
	}
	for _, name := range []string{"properties", "$defs", "definitions", "patternProperties", "dependentSchemas"} {
		of, _ := s[name].(map[string]any)
		for member, one := range of {
			parts[name+"."+member] = one
		}
	}
	for _, name := range []string{"anyOf", "oneOf", "allOf", "prefixItems"} {
		list, _ := s[name].([]any)
		for n, one := range list {
			parts[fmt.Sprint(name, ".", n)] = one
		}
	}
	return parts
}

// resolved returns the target of a reference within a schema.
func resolved(top any, reference string) (any, bool) {
	if reference == "#" {
		return top, true
	}
	rest, is := strings.CutPrefix(reference, "#/")
	if !is {
		return nil, false
	}
	at := top
	for _, step := range strings.Split(rest, "/") {
		step = strings.NewReplacer("~1", "/", "~0", "~", "%25", "%", "%22", `"`).Replace(step)
		switch here := at.(type) {
		case map[string]any:
			var there bool
			if at, there = here[step]; !there {
				return nil, false
			}
		case []any:
			n := -1
			if _, err := fmt.Sscan(step, &n); err != nil || n < 0 || n >= len(here) {
				return nil, false
			}
			at = here[n]
		default:
			return nil, false
		}
	}
	return at, true
}
