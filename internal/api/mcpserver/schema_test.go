package mcpserver

import (
	"encoding/json"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/platform/schema"
)

func TestSchemasHaveNoBooleans(t *testing.T) {
	for given, want := range map[string]string{
		`true`:  `{}`,
		`false`: `{"not":{}}`,
		`{"type":"object","properties":{"z":true,"a":false,"m":{"items":true}}}`: `{"type":"object","properties":` +
			`{"z":{},"a":{"not":{}},"m":{"items":{}}}}`,
		`{"$defs":{"d":true},"definitions":{"d":false}}`: `{"$defs":{"d":{}},"definitions":{"d":{"not":{}}}}`,
		`{"patternProperties":{"^x":true},"dependentSchemas":{"a":true}}`: `{"patternProperties":{"^x":{}},` +
			`"dependentSchemas":{"a":{}}}`,
		`{"dependencies":{"a":true,"b":["c"]},"items":[true,{"not":true}],"prefixItems":[false]}`: `{"dependencies":` +
			`{"a":{},"b":["c"]},"items":[{},{"not":{}}],"prefixItems":[{"not":{}}]}`,
		`{"allOf":[true],"if":true,"then":false,"contains":true,"unevaluatedProperties":false}`: `{"allOf":[{}],` +
			`"if":{},"then":{"not":{}},"contains":{},"unevaluatedProperties":{"not":{}}}`,
		`{"additionalProperties":{"properties":{"a":true}}}`: `{"additionalProperties":{"properties":{"a":{}}}}`,
		// A property may be called as a keyword is.
		`{"properties":{"properties":true,"const":true,"items":{"const":true}}}`: `{"properties":{"properties":{},` +
			`"const":{},"items":{"const":true}}}`,
	} {
		got, err := schema.WithoutBooleans(json.RawMessage(given))
		require.NoError(t, err)
		assert.Equal(t, want, string(got), "%s", given)
	}
}

// What is no schema stays, and so do the booleans of old.
func TestOtherBooleansOfSchemasStay(t *testing.T) {
	for _, given := range []string{
		`{"additionalProperties":false,"additionalItems":true}`,
		`{"const":true,"enum":[true,{"items":true}],"default":false,"examples":[{"not":true}]}`,
		`{"uniqueItems":true,"deprecated":true,"x-mine":{"properties":{"a":true}}}`,
		`{"maximum":1e400,"minimum":12345678901234567890}`,
		`{"properties":7,"items":null,"allOf":{"x":true}}`,
	} {
		got, err := schema.WithoutBooleans(json.RawMessage(given))
		require.NoError(t, err)
		assert.Equal(t, given, string(got))
	}
}

// grow makes a schema by chance, of booleans wherever one may be.
func grow(r *rand.Rand, depth int) any {
	switch {
	case r.IntN(3) == 0:
		return r.IntN(2) == 0
	case depth == 0:
		return []any{map[string]any{"const": r.IntN(2) == 0}, map[string]any{"type": "integer"},
			map[string]any{"enum": []any{true, 1, "a"}}}[r.IntN(3)]
	}
	one := func() any { return grow(r, depth-1) }
	some := func() any { return []any{one(), one()} }
	by := func() any { return map[string]any{"a": one(), "items": one(), "const": one()} }
	s := map[string]any{}
	keywords := map[string]func() any{
		"properties": by, "patternProperties": by, "dependentSchemas": by, "additionalProperties": one, "items": one,
		"prefixItems": some, "contains": one, "allOf": some, "anyOf": some, "oneOf": some, "not": one, "if": one,
		"then": one, "else": one, "propertyNames": one,
		"const": func() any { return r.IntN(2) == 0 }, "enum": func() any { return []any{true, false, 1} },
	}
	for _, keyword := range slices.Sorted(maps.Keys(keywords)) { // in an order that the seed decides alone
		if r.IntN(5) == 0 {
			s[keyword] = keywords[keyword]()
		}
	}
	return s
}

// instance makes a value by chance.
func instance(r *rand.Rand, depth int) any {
	switch n := r.IntN(6); {
	case n == 0 && depth > 0:
		return []any{instance(r, depth-1), instance(r, depth-1)}
	case n < 4 && depth > 0:
		v := map[string]any{}
		for _, name := range []string{"a", "items", "const"} {
			if r.IntN(2) == 0 {
				v[name] = instance(r, depth-1)
			}
		}
		return v
	}
	return []any{true, false, 1, "a"}[r.IntN(4)]
}

// A schema without booleans takes what the schema takes, and no member of any properties is a boolean.
func TestSchemasWithoutBooleansMeanTheSame(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	taken, refused := 0, 0
	for range 500 {
		raw, err := json.Marshal(map[string]any{"allOf": []any{grow(r, 3)}})
		require.NoError(t, err)
		got, err := schema.WithoutBooleans(raw)
		require.NoError(t, err)
		again, err := schema.WithoutBooleans(got)
		require.NoError(t, err)
		require.Equal(t, string(got), string(again))
		before, err := schema.Compile(raw)
		require.NoError(t, err, "%s", raw)
		after, err := schema.Compile(got)
		require.NoError(t, err, "%s", got)
		for range 5 {
			v, err := json.Marshal(instance(r, 3))
			require.NoError(t, err)
			fits := before.Check(t.Context(), v) == nil
			require.Equal(t, fits, after.Check(t.Context(), v) == nil, "%s\n%s\n%s", raw, got, v)
			if fits {
				taken++
			} else {
				refused++
			}
		}
	}
	assert.Greater(t, min(taken, refused), 200, "both happen")
}
