//go:build !race

package schema_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/platform/schema"
)

func TestExpensiveSchemaEndsAtTheStepBudget(t *testing.T) {
	numbers := "[" + strings.Repeat("1,", 20_000) + "1]"
	for name, c := range map[string]struct{ schema, value string }{
		"anyOf doubles":        {doubled(40, `{"anyOf":[X,X]}`, `{"type":"string"}`), `1`},
		"oneOf doubles":        {doubled(40, `{"oneOf":[X,X]}`, `{"type":"string"}`), `1`},
		"allOf doubles":        {doubled(40, `{"allOf":[X,X]}`, `{"type":"integer"}`), `1`},
		"allOf doubles, unfit": {doubled(40, `{"allOf":[X,X]}`, `{"type":"string"}`), `1`},
		"not doubles":          {doubled(40, `{"not":{"anyOf":[X,X]}}`, `{"type":"string"}`), `1`},
		"if doubles":           {doubled(40, `{"if":X,"then":X,"else":X}`, `{"type":"string"}`), `1`},
		"dependentSchemas doubles": {doubled(40, `{"dependentSchemas":{"a":X,"b":X}}`, `{"type":"string"}`),
			`{"a":1,"b":1}`},
		"dependencies doubles": {seventh(40), `{"a":1,"b":1}`},
		"unevaluated and anyOf": {doubled(40, `{"anyOf":[X,X],"unevaluatedProperties":false}`,
			`{"type":"object"}`), `{"a":1}`},
		"two ways to each member": {`{"properties":{"a":{"$ref":"#"}},"patternProperties":{"a":{"$ref":"#"}},` +
			`"type":"object"}`, nested(100, `{"a":X}`, `1`)},
		"two ways, where faults are not kept": {`{"not":{"$ref":"#/$defs/x"},` +
			`"$defs":{"x":{"properties":{"a":{"$ref":"#/$defs/x"}},` +
			`"patternProperties":{"a":{"$ref":"#/$defs/x"}},"type":"object"}}}`, nested(100, `{"a":X}`, `1`)},
		"items and contains": {`{"items":{"$ref":"#"},"contains":{"$ref":"#"},"type":"array"}`,
			nested(100, `[X]`, `1`)},
		"many items by many parts": {`{"allOf":[` + strings.Repeat(`{"items":{"type":"string"}},`, 1000) + `true]}`,
			numbers},
		"a large enum for each item": {`{"items":{"enum":[` + strings.Repeat(`"x",`, 10_000) + `"y"]}}`, numbers},
		"a long pattern for each": {`{"items":{"pattern":"^(a|b|ab){1,200}$"}}`,
			"[" + strings.Repeat(`"`+strings.Repeat("ab", 200)+`",`, 400) + `""]`},
		"names by patterns": {`{"patternProperties":{"(a|b|ab){1,200}$":true}}`,
			`{"` + strings.Repeat("ab", 40_000) + `":1}`},
		"unique items at each level": {`{"uniqueItems":true,"items":{"$ref":"#"}}`,
			nested(100, `[X,`+strings.Repeat(`"a",`, 300)+`1]`, `1`)},
		"names of each member": {`{"propertyNames":{"allOf":[` + strings.Repeat(`{"maxLength":1},`, 1500) +
			`true]}}`, members(1000)},
		"many required members": {`{"items":{"required":[` + names(3000) + `]}}`,
			"[" + strings.Repeat(`{},`, 1000) + `{}]`},
	} {
		t.Run(name, func(t *testing.T) {
			require.LessOrEqual(t, len(c.schema), schema.MaxSize)
			hostile, err := schema.Compile(json.RawMessage(c.schema))
			require.NoError(t, err)
			visits, most := schema.Visits(hostile)
			require.ErrorContains(t, hostile.Check(t.Context(), json.RawMessage(c.value)), "too much work")
			assert.LessOrEqual(t, visits(), most)
		})
	}
}

// seventh is a schema of draft 7 with dependencies that double.
func seventh(levels int) string {
	s := doubled(levels, `{"dependencies":{"a":X,"b":X}}`, `{"type":"string"}`)
	first := fmt.Sprintf(`"allOf":[{"$ref":"#/$defs/l%d"}],`, levels) // draft 7 ignores the siblings of a $ref
	_, rest, _ := strings.Cut(s, `"$defs"`)
	return `{"$schema":"http://json-schema.org/draft-07/schema#",` + first + `"$defs"` + rest
}

func names(n int) string {
	list := make([]string, n)
	for i := range list {
		list[i] = fmt.Sprintf(`"property_%d"`, i)
	}
	return strings.Join(list, ",")
}

func members(n int) string {
	return "{" + strings.ReplaceAll(names(n), ",", ":1,") + ":1}"
}
