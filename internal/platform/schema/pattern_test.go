package schema_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/platform/schema"
)

// OpenAI refuses a request for a pattern that Python does not read.
func TestAPatternThatSomeProvidersCannotReadIsDropped(t *testing.T) {
	for pattern, stays := range map[string]bool{
		`^[a-z]+$`: true, `^\d{4}-\d{2}-\d{2}$`: true, `[^?*+{]`: true, `^\(?\d+\)?$`: true, `[\w.-]+@[\w.-]+`: true,
		`^(?:a|b)$`: true, `[\x20-\x7e]`: true, `\.\/\-`: true, ``: true, `[]a]`: true, `é+`: true, `\bx`: true,
		`^\p{L}+$`: false, `(?<n>x)`: false, `\z`: false, `x\Q`: false, `[\w-.]`: false, `(?i)x`: false,
		`a(?i)b`: false,
		`\x{41}`: false, `^*`: false, `\b+`: false, `(?P<1>x)`: false, `(`: false, `[`: false, `*`: false, `\C`: false,
		`[[:alpha:]\pN]`: false, `a{,2}{,3}`: false, `\u0041`: false, `\cA`: false, `\12`: false,
	} {
		is, err := json.Marshal(map[string]any{"type": "object", "properties": map[string]any{
			"a": map[string]any{"pattern": pattern},
			"b": map[string]any{"patternProperties": map[string]any{pattern: map[string]any{}},
				"additionalProperties": false},
		}})
		require.NoError(t, err)
		got, err := schema.Portable(is)
		require.NoError(t, err)
		var of struct{ Properties struct{ A, B map[string]any } }
		require.NoError(t, json.Unmarshal(got, &of))
		if stays {
			assert.JSONEq(t, string(is), string(got), pattern)
			continue
		}
		assert.NotContains(t, of.Properties.A, "pattern", pattern)
		assert.Equal(t, map[string]any{"patternProperties": map[string]any{}}, of.Properties.B, "it forbids nothing")
	}
}

// Two parts that describe one member lost the first part's members of that member, and then forbade it.
func TestMembersOfMembersAreMerged(t *testing.T) {
	const (
		x = `{"properties":{"o":{"properties":{"x":{"type":"string"},"y":{"minimum":1}},"required":["x"],` +
			`"additionalProperties":false}}}`
		y = `{"properties":{"o":{"properties":{"y":{"type":"number"}},"required":["y"]}}}`
	)
	for _, parts := range []string{x + "," + y, y + "," + x} {
		got, err := schema.Portable(json.RawMessage(fmt.Sprintf(`{"allOf":[%s]}`, parts)))
		require.NoError(t, err)
		var of struct {
			Properties struct {
				O struct {
					Properties map[string]any
					Required   []string
				}
			}
		}
		require.NoError(t, json.Unmarshal(got, &of))
		assert.Equal(t, map[string]any{
			"x": map[string]any{"type": "string"}, "y": map[string]any{"type": "number", "minimum": 1.0},
		}, of.Properties.O.Properties, "%s", got)
		assert.ElementsMatch(t, []string{"x", "y"}, of.Properties.O.Required)
	}
}

// The target of a reference is mended at every position.
func TestTheTargetsOfReferencesAreMended(t *testing.T) {
	const is = `{"type":"object","properties":{"a":{"$ref":"#/components/schemas/X"},"b":{"$ref":"#/x~1y/0/z%20"}},` +
		`"components":{"schemas":{"X":{"type":"array"},"Y":{"type":"object","properties":{"c":true}},` +
		`"Z":{"type":"array"}},"note":7},"x/y":[{"z ":{"items":[{"$ref":"#/components/schemas/Y"}]}}]}`
	got, err := schema.Portable(json.RawMessage(is))
	require.NoError(t, err)
	assert.JSONEq(t, `{"type":"object","properties":{"a":{"$ref":"#/components/schemas/X"},`+
		`"b":{"$ref":"#/x~1y/0/z%20"}},"components":{"schemas":{"X":{"type":"array",`+
		`"items":{}},"Y":{"type":"object","properties":{"c":{}}},`+
		`"Z":{"type":"array"}},"note":7},"x/y":[{"z ":{"items":{"$ref":"#/components/schemas/Y"}}}]}`, string(got))
}
