package schema_test

import (
	"encoding/json"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"agentplatform/internal/platform/schema"
)

// oddly makes values that occur in schemas of others, rightly or wrongly.
type oddly struct{ *rand.Rand }

func pick[T any](o oddly, list ...T) T { return list[o.IntN(len(list))] }

var oddKeywords = []string{
	"type", "type", "properties", "properties", "items", "items", "required", "enum", "const", "anyOf", "oneOf",
	"allOf",
	"not", "if", "then", "else", "$ref", "$ref", "$defs", "definitions", "additionalProperties", "patternProperties",
	"propertyNames", "prefixItems", "contains", "pattern", "format", "minimum", "exclusiveMinimum", "maxLength",
	"multipleOf", "description", "title", "default", "examples", "nullable", "$schema", "$id", "$anchor", "$comment",
	"dependencies", "dependentSchemas", "dependentRequired", "unevaluatedProperties", "additionalItems", "$dynamicRef",
	"$recursiveAnchor", "$vocabulary", "contentEncoding", "uniqueItems", "readOnly", "x-own", "discriminator", "id",
}

func (o oddly) schema(depth int) any {
	if depth == 0 || o.IntN(12) == 0 {
		return pick[any](o, true, false, nil, "string", 7, []any{}, map[string]any{}, map[string]any{"type": "string"})
	}
	s := map[string]any{}
	for range o.IntN(5) {
		name := pick(o, oddKeywords...)
		s[name] = o.value(name, depth-1)
	}
	return s
}

func (o oddly) value(keyword string, depth int) any {
	if o.IntN(10) == 0 {
		return pick[any](o, nil, true, 0, -1, 1.5, "", "x", []any{}, []any{"a", "a"}, map[string]any{"a": "b"},
			o.schema(depth))
	}
	names := []string{"a", "b", "$c", "d e", "type", "properties", "$ref", "items", "", "a/b", "100%"}
	switch keyword {
	case "type":
		return pick[any](o, "object", "object", "string", "array", "null", "Integer", "any", []any{"array", "null"},
			[]any{"string", "string"}, []any{"object", "string", 7})
	case "properties", "$defs", "definitions", "patternProperties", "dependentSchemas", "dependencies":
		all := map[string]any{}
		for range 1 + o.IntN(3) {
			all[pick(o, names...)] = o.schema(depth)
		}
		return all
	case "required", "enum", "examples":
		return []any{pick(o, names...), pick(o, names...), pick[any](o, 1, nil, "a", map[string]any{"$ref": "#/a"})}
	case "anyOf", "oneOf", "allOf", "prefixItems":
		return []any{o.schema(depth), o.schema(depth)}
	case "items":
		return pick[any](o, o.schema(depth), []any{o.schema(depth), o.schema(depth)})
	case "$ref":
		return pick(o, "#", "#/$defs/a", "#/properties/a", "#/properties/a/items/1", "#/items/0", "#/definitions/b",
			"#/properties/a~1b", "#/properties/100%25", "#/x-own", "#/properties/$ref", "#/properties/type",
			"other.json", "#a", "#/anyOf/0", "#/properties/", "#/properties/a/enum/0", "#/$defs/a/not")
	case "pattern":
		return pick(o, "^a$", `\p{L}`, "(?=x)", "[", `\u{1F600}`, `(?<n>a)`)
	case "minimum", "exclusiveMinimum", "maxLength", "multipleOf":
		return pick[any](o, 0, -1, 1.5, 1e300, 9007199254740993)
	case "description", "title", "$schema", "$id", "$anchor", "format", "$comment", "default", "const":
		return pick[any](o, "date-time", "#a", "http://json-schema.org/draft-04/schema#", 7, "1")
	}
	return o.schema(depth)
}

// FuzzPortable mends schemas that are as odd as those of servers, and odder.
func FuzzPortable(f *testing.F) {
	for seed := range uint64(60) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, seed uint64) {
		o := oddly{rand.New(rand.NewPCG(seed, 0))}
		for range 20 {
			is, err := json.Marshal(o.schema(5))
			require.NoError(t, err)
			got, err := schema.Portable(is)
			if err != nil {
				continue
			}
			require.Empty(t, refused(got), "%s\n%s", is, got)
			again, err := schema.Portable(got)
			require.NoError(t, err, "%s\n%s", is, got)
			require.JSONEq(t, string(got), string(again), "%s", is)
		}
	})
}

// checked makes schemas for small values. In their patterns X stands for ^(?=a).
func (o oddly) checked(depth int) map[string]any {
	if depth == 0 {
		return pick(o, map[string]any{"pattern": "X"}, map[string]any{"type": "string"}, map[string]any{"const": "a"},
			map[string]any{"$ref": "#/$defs/x"}, map[string]any{"patternProperties": map[string]any{"X": false}})
	}
	s := map[string]any{}
	for range 1 + o.IntN(3) {
		switch name := pick(o, oddKeywords...); name {
		case "properties", "patternProperties", "dependentSchemas":
			s[name] = map[string]any{pick(o, "a", "X"): o.checked(depth - 1), "b": o.checked(depth - 1)}
		case "anyOf", "oneOf", "allOf", "prefixItems":
			s[name] = []any{o.checked(depth - 1), o.checked(depth - 1)}
		case "not", "if", "then", "else", "additionalProperties", "unevaluatedProperties", "items", "contains",
			"propertyNames":
			s[name] = o.checked(depth - 1)
		case "required":
			s[name], s["maxContains"], s["unevaluatedItems"] = []any{"b"}, 1, false
		}
	}
	return s
}

// A value that fits a schema is not refused if a part of it is not checked.
func TestWhatIsNotCheckedOnlyTakesMore(t *testing.T) {
	values := []string{`"a"`, `"b"`, `{}`, `{"a":"a"}`, `{"a":"b"}`, `{"b":"a","ab":1}`,
		`{"a":{"a":"b"},"b":{"b":"a"}}`, `["a","b"]`, `["b",{"a":"a"},["a"]]`, `1`}
	fit, more := 0, 0
	for seed := range uint64(4_000) {
		o := oddly{rand.New(rand.NewPCG(seed, 1))}
		of := o.checked(3)
		of["$defs"] = map[string]any{"x": map[string]any{"properties": map[string]any{"a": map[string]any{
			"pattern": "X"}}}}
		text, err := json.Marshal(of)
		require.NoError(t, err)
		exact, err := schema.Compile(json.RawMessage(strings.ReplaceAll(string(text), "X", "^a")))
		require.NoError(t, err)
		unread, err := schema.Compile(json.RawMessage(strings.ReplaceAll(string(text), "X", "^(?=a)")))
		require.NoError(t, err, "%s", text)
		for _, one := range values {
			fits := unread.Check(t.Context(), json.RawMessage(one))
			if exact.Check(t.Context(), json.RawMessage(one)) == nil {
				fit++
				require.NoError(t, fits, "%s\n%s", text, one)
			} else if fits == nil {
				more++
			}
		}
	}
	require.Greater(t, fit, 2_000)
	require.Greater(t, more, 200)
}
