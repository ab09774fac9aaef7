package schema_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/platform/schema"
	"agentplatform/internal/platform/schema/schematest"
)

func TestAPortableSchemaIsOneOfAnObjectWithMembers(t *testing.T) {
	const anything = `{"type":"object","properties":{}}`
	for is, want := range map[string]string{
		// no rules
		``: anything, `null`: anything, `true`: anything, `{}`: anything, `{"type":"object"}`: anything,
		`{"type":"object","properties":null}`: anything, `{"type":"object","properties":[]}`: anything,
		`{"type":null}`: anything, `{"type":"dict"}`: anything, `{"type":["object","null"]}`: anything,
		`{"type":"OBJECT","required":null}`: anything, `{"not":{"required":["x"]}}`: anything,
		`{"$schema":"http://json-schema.org/draft-07/schema#","additionalProperties":false}`: `{"type":"object",` +
			`"$schema":"http://json-schema.org/draft-07/schema#","additionalProperties":false,"properties":{}}`,
		`{"properties":{"a":{"type":"string"}}}`: `{"type":"object","properties":{"a":{"type":"string"}}}`,
		// members
		`{"type":"object","properties":{"a":true,"b":false,"c":{},"d":"string","e":null}}`: `{"type":"object",` +
			`"properties":{"a":{},"c":{},"d":{},"e":{}}}`,
		`{"type":"object","properties":{"a":{"type":"array"},"b":{"type":["array","null"]},"c":{"type":"array",` +
			`"items":true},"d":{"type":"array","items":{"type":"array"}},"e":{"type":"object"}}}`: `{"type":"object",` +
			`"properties":{"a":{"type":"array","items":{}},"b":{"type":["array","null"],"items":{}},"c":{"type":` +
			`"array",` +
			`"items":{}},"d":{"type":"array","items":{"type":"array","items":{}}},"e":{"type":"object",` +
			`"properties":{}}}}`,
		`{"type":"object","properties":{"a":{"type":"array","items":[{"type":"string"},{"type":"number"}]}}}`: `{` +
			`"type":` +
			`"object","properties":{"a":{"type":"array","items":{"anyOf":[{"type":"string"},{"type":"number"}]}}}}`,
		`{"type":"object","properties":{"a":{"type":"string","required":true,"enum":[],"minLength":"1","title":7}},` +
			`"required":["a","a",7]}`: `{"type":"object","properties":{"a":{"type":"string"}},"required":["a"]}`,
		`{"type":"object","properties":{"a":{"type":"any"},"b":{"type":"Integer","minimum":1,"exclusiveMinimum":` +
			`true}}}`: `{` +
			`"type":"object","properties":{"a":{},"b":{"type":"integer","exclusiveMinimum":1}}}`,
		`{"type":"object","properties":{"a":{"anyOf":[true,{"type":"array"}]},"b":{"$ref":"#/$defs/x"},"c":{"$ref":` +
			`"https://other/x"},"d":{"$ref":"#/$defs/y"}},"$defs":{"x":{"type":"array"}}}`: `{"type":"object",` +
			`"properties":{` +
			`"a":{"anyOf":[{},{"type":"array","items":{}}]},"b":{"$ref":"#/$defs/x"},"c":{},"d":{}},"$defs":{"x":{` +
			`"type":` +
			`"array","items":{}}}}`,
		// alternatives at the top
		`{"oneOf":[{"type":"object","properties":{"a":{"type":"string"},"c":{"type":"string"}},"required":["a","c"]},` +
			`{"properties":{"b":{"type":"number"},"c":{"type":"string"}},"required":["b","c"]}]}`: `{"type":"object",` +
			`"properties":{"a":{"type":"string"},"b":{"type":"number"},"c":{"type":"string"}},"required":["c"],` +
			`"description":"Needs the members of one of these groups: a, c; b, c."}`,
		`{"type":"object","description":"Where.","properties":{"a":{},"b":{}},"anyOf":[{"required":["a"]},{` +
			`"required":` +
			`["b"]}]}`: `{"type":"object","properties":{"a":{},"b":{}},"description":` +
			`"Where.\nNeeds the members of one of these groups: a; b."}`,
		`{"anyOf":[{"type":"string"},{"type":"null"},{"type":"object","properties":{"a":{}},"required":[` +
			`"a"]}]}`: `{"type":` +
			`"object","properties":{"a":{}},"required":["a"]}`,
		`{"oneOf":[{"properties":{"kind":{"const":"a"},"x":{"type":"string"}}},{"properties":{"kind":{"const":` +
			`"b"},"x":` +
			`{"type":"number"}}}]}`: `{"type":"object","properties":{"kind":{"enum":["a","b"]},"x":{"anyOf":[{"type":` +
			`"string"},{"type":"number"}]}}}`,
		`{"allOf":[{"properties":{"a":{"type":"string"}},"required":["a"]},{"properties":{"a":{"minLength":1},"b":` +
			`{}},` +
			`"required":["b"]}]}`: `{"type":"object","properties":{"a":{"type":"string","minLength":1},"b":{}},` +
			`"required":` +
			`["a","b"]}`,
		`{"$ref":"#/definitions/In","definitions":{"In":{"type":"object","description":"It.","properties":{"a":{}},` +
			`"required":["a"]}}}`: `{"type":"object","description":"It.","properties":{"a":{}},"required":["a"],` +
			`"definitions":{"In":{"type":"object","description":"It.","properties":{"a":{}},"required":["a"]}}}`,
		`{"anyOf":[{"$ref":"#/$defs/A"},{"allOf":[{"$ref":"#/$defs/A"},{"required":["b"]}]}],"$defs":{"A":{` +
			`"properties":` +
			`{"a":{}},"required":["a"]}}}`: `{"type":"object","properties":{"a":{}},"required":["a"],"description":` +
			`"Needs the members of one of these groups: a; a, b.","$defs":{"A":{"properties":{"a":{}},"required":[` +
			`"a"]}}}`,
		`{"type":"object","properties":{"x":{"$ref":"#/oneOf/0"}},"oneOf":[{"properties":{"y":{}}}]}`: `{"type":` +
			`"object",` +
			`"properties":{"x":{},"y":{}}}`,
		// keywords that the draft 2020-12 refuses, or that describe parts that are gone
		`{"$id":"#x","$anchor":"1","$recursiveAnchor":true,"$comment":7,"$schema":"https://json-schema.org/v1",` +
			`"dependencies":{"a":"b"},"dependentRequired":7,"properties":{"a":{"type":"number","multipleOf":0},"b":{` +
			`"enum":["x","y","x"]},"c":{"unevaluatedProperties":false,"$ref":"other.json"}}}`: `{"type":"object",` +
			`"properties":{"a":{"type":"number"},"b":{"enum":["x","y"]},"c":{}}}`,
		`{"properties":{"a":{"not":false},"b":{"if":false,"then":{"const":1},"else":{"type":"array"}},"c":{"not":` +
			`{"type":"string"}},"d":{"not":{"pattern":"(?=x)"}}}}`: `{"type":"object","properties":{"a":{},"b":{` +
			`"then":{"const":1}},"c":{"not":{"type":"string"}},"d":{}}}`,
		`{"properties":{"a":{"oneOf":[{"$ref":"a.json"},{"$ref":"b.json"}]},"b":{"items":[{"type":"string"},{"$ref":` +
			`"#/properties/b/items/0"}]},"c":{"default":{"$ref":"#/x"}}}}`: `{"type":"object","properties":{"a":{` +
			`"anyOf":[{},{}]},"b":{"items":{"anyOf":[{"type":"string"},{}]}},"c":{"default":{"$ref":"#/x"}}}}`,
	} {
		got, err := schema.Portable(json.RawMessage(is))
		if assert.NoError(t, err, is) {
			assert.JSONEq(t, want, string(got), is)
			assert.Empty(t, refused(got), is)
			_, err := schema.Compile(got)
			assert.NoError(t, err, "%s", got)
			again, err := schema.Portable(got)
			assert.NoError(t, err)
			assert.Equal(t, string(got), string(again), "it is portable then")
		}
	}
}

func TestASchemaThatIsPortableIsReturnedAsItIs(t *testing.T) {
	for _, is := range []string{
		`{ "type":"object", "properties":{"n":{"type":"integer","minimum":1.0,"default":null}},"required":[] }`,
		`{"type":"object","properties":{"a":{"type":["string","null"]},"b":{"type":"array","items":{"type":` +
			`"string"}}},` +
			`"required":["a"],"additionalProperties":false,"$schema":"https://json-schema.org/draft/2020-12/schema"}`,
		`{"type":"object","properties":{"tree":{"$ref":"#"},"x":{"oneOf":[{"type":"string"},{"type":"number"}]}},` +
			`"x-internal":{"type":7},"if":{"required":["x"]},"then":{"required":["tree"]}}`,
	} {
		got, err := schema.Portable(json.RawMessage(is))
		require.NoError(t, err)
		assert.Equal(t, is, string(got))
	}
}

func TestASchemaThatNoObjectFitsIsNotPortable(t *testing.T) {
	for is, why := range map[string]string{
		`{"type":"string"}`: "it allows no object", `{"type":["string",` +
			`"null"]}`: "it allows no object", `false`: "not a JSON object",
		`{"anyOf":[{"type":"string"},{"type":"array"}]}`:       "it allows no object",
		`{"allOf":[{},false]}`:                                 "it allows no object",
		`{"$ref":"#/$defs/a","$defs":{"a":{"type":"number"}}}`: "it allows no object", `[]`: "not a JSON object",
		`"x"`: "not a JSON object", `{`: "not JSON", `{"oneOf":[false]}`: "it allows no object",
	} {
		_, err := schema.Portable(json.RawMessage(is))
		assert.ErrorContains(t, err, why, is)
	}
}

// Every value that fits a schema fits the portable one, so the model sees all calls that are allowed. A member that
// only some alternatives name is described as they do. So here all alternatives name all members.
func TestWhatFitsASchemaFitsThePortableOne(t *testing.T) {
	values := []string{`{}`, `{"a":"x"}`, `{"a":"y"}`, `{"a":1}`, `{"b":2}`, `{"a":"x","b":[[1],["y"]]}`, `{"a":null}`,
		`{"a":"x","b":2}`, `{"b":[]}`, `{"a":{"c":[[]]}}`, `{"z":7}`}
	parts := []string{
		`false`, `{"type":"string"}`, `{"properties":{"a":{"type":"string"},"b":{}},"required":["a"]}`,
		`{"properties":{"a":{"const":"x"},"b":{"type":"array"}}}`,
		`{"properties":{"a":{"enum":["y",1]},"b":{"type":"integer"}},"required":["b"]}`,
		`{"properties":{"a":false,"b":true}}`, `{"$ref":"#/$defs/a"}`,
		`{"type":["object","null"],"not":{"required":["z"]},"properties":{"a":{},"b":{"type":"array","items":{"type":` +
			`"array"}}}}`,
		`{"additionalProperties":{"type":"array"},"properties":{"a":{"type":"string"},"b":{}}}`,
	}
	checked := 0
	for _, p := range parts {
		for _, q := range parts {
			for _, form := range []string{`{"anyOf":[%s,%s]%s}`, `{"oneOf":[%s,%s]%s}`, `{"allOf":[%s,%s]%s}`,
				`{"anyOf":[{"allOf":[%s]},{"oneOf":[%s]}],"type":"object"%s}`} {
				is := fmt.Sprintf(form, p, q, `,"$defs":{"a":{"properties":{"a":{"type":["string","object"]},"b":{}}}}`)
				itself, err := schema.Compile(json.RawMessage(is))
				require.NoError(t, err)
				got, err := schema.Portable(json.RawMessage(is))
				for _, value := range values {
					if itself.Check(t.Context(), json.RawMessage(value)) != nil {
						continue
					}
					checked++
					if !assert.NoError(t, err, "%s fits %s", value, is) {
						continue
					}
					portable, err := schema.Compile(got)
					require.NoError(t, err)
					assert.NoError(t, portable.Check(t.Context(), json.RawMessage(value)), "%s\n%s", is, got)
				}
			}
		}
	}
	assert.Greater(t, checked, 500)
}

// A schema of others may refer to its parts again and again, and alternatives multiply.
func TestMendingIsBounded(t *testing.T) {
	many := func(n int, one string) string { return strings.TrimSuffix(strings.Repeat(one+",", n), ",") }
	deep := strings.Repeat(`{"type":"object","properties":{"a":`, 100) + `{}` + strings.Repeat(`}}`, 100)
	wide := make([]string, 0, 3000)
	for i := range 3000 {
		wide = append(wide, fmt.Sprintf(`"p%d":{}`, i))
	}
	for name, is := range map[string]string{
		"deep":    deep,
		"deeper":  strings.Repeat(`{"properties":{"a":`, 500) + `{}` + strings.Repeat(`}}`, 500),
		"itself":  `{"allOf":[{"$ref":"#"},{"$ref":"#"}]}`,
		"in turn": `{"$ref":"#/$defs/a","$defs":{"a":{"$ref":"#/$defs/b"},"b":{"$ref":"#/$defs/a"}}}`,
		"doubled": `{"$ref":"#/$defs/a","$defs":{"a":{"allOf":[` + many(60, `{"$ref":"#/$defs/b"}`) + `]},"b":{` +
			`"allOf":[` +
			many(60, `{"$ref":"#/$defs/c"}`) + `]},"c":{"allOf":[` + many(60, `{"$ref":"#/$defs/d"}`) + `]},"d":{}}}`,
		"wide": `{"anyOf":[` + many(600, `{"$ref":"#/$defs/a"}`) + `],"$defs":{"a":{"properties":{` +
			strings.Join(wide, ",") + `}}}}`,
		"choices": `{"properties":{"a":{"$ref":"#/$defs/a"}},"$defs":{"a":{"anyOf":[` +
			many(60, `{"$ref":"#/$defs/b"}`) + `]},"b":{"anyOf":[` + many(60, `{"$ref":"#/$defs/c"}`) +
			`]},"c":{"oneOf":[` + many(60, `{"$ref":"#/$defs/d"}`) +
			`]},"d":{"allOf":[` + many(60, `{"$ref":"#/$defs/e"}`) + `]},"e":{"type":["string","array","object"]}}}`,
		"names": `{"allOf":[{"required":[` + many(9000, `"a"`) + `]},{"$ref":"#/allOf/0"}]}`,
		"large": `{"description":"` + strings.Repeat("x", schema.MaxSize) + `"}`,
	} {
		t.Run(name, func(t *testing.T) {
			var got json.RawMessage
			allocs := testing.AllocsPerRun(1, func() {
				var err error
				got, err = schema.Portable(json.RawMessage(is))
				assert.NoError(t, err)
			})
			assert.Less(t, allocs, 500_000.0)
			below := json.RawMessage(strings.Replace(`{"type":"object","properties":{"a":X},`+is[1:], "X", is, 1))
			for _, one := range []json.RawMessage{got, json.RawMessage(is), below} {
				allocs = testing.AllocsPerRun(1, func() { simple, _ := schema.Simple(one); got = simple })
				assert.Less(t, allocs, 500_000.0)
				assert.LessOrEqual(t, len(got), 2*schema.MaxSize)
			}
			assert.LessOrEqual(t, len(got), 2*schema.MaxSize)
			assert.Contains(t, string(got), `"type":"object"`)
		})
	}
}

// refused returns which provider refuses a portable schema, and why.
func refused(portable json.RawMessage) string {
	plain := schema.PlainNames(portable)
	simple, _ := schema.Simple(portable)
	for _, one := range []struct {
		by   schematest.Provider
		sent json.RawMessage
	}{
		{schematest.All, portable}, {schematest.Anthropic, plain}, {schematest.All, simple},
		{schematest.Anthropic, simple}, {schematest.Nova, simple}, {schematest.Gemini, simple},
	} {
		if why := schematest.Refused(one.by, one.sent); why != "" {
			return fmt.Sprintf("%s: %s: %s", one.by, why, one.sent)
		}
	}
	return ""
}

func TestASimpleSchemaIsWhatAStrictProviderTakes(t *testing.T) {
	for is, want := range map[string]string{
		`{"type":"object","title":"T","description":"Sends.","properties":{},"additionalProperties":false}`: `{` +
			`"type":"object","properties":{}}`,
		`{"properties":{"a":{"const":"x"},"b":{"enum":[1,2]},"c":{"enum":["","y"]},"d":{"type":"string",` +
			`"format":"date-time","pattern":"x","maxLength":7},"e":{"type":"string","format":"uri"},"f":{},` +
			`"g":{"additional` +
			`Properties":{"type":"string"}}},"required":["a","z"]}`: `{"type":"object","properties":{"a":{"type":` +
			`"string","enum":["x"]},"b":{"type":"number"},"c":{"type":"string"},"d":{"type":"string","format":` +
			`"date-time"},"e":{"type":"string"},"f":{"type":"string"},"g":{"type":"object","properties":{}}},` +
			`"required":["a"]}`,
		`{"properties":{"a":{"type":["string","null"],"description":"A."},"b":{"anyOf":[{"type":"string"},{"type":` +
			`"null"}],"description":"B."},"c":{"oneOf":[{"type":"integer"},{"type":"array"}],"description":"C."},` +
			`"d":{"type":["string","number"]},"e":{"type":"null"},"f":{"anyOf":[{"type":"null"}]}}}`: `{"type":` +
			`"object","properties":{"a":{"type":"string","nullable":true,"description":"A."},"b":{"type":"string",` +
			`"nullable":true,"description":"B."},"c":{"anyOf":[{"type":"integer","description":"C."},{"type":"array",` +
			`"items":{"type":"string"},"description":"C."}]},"d":{"anyOf":[{"type":"string"},{"type":"number"}]},` +
			`"e":{"type":"string","nullable":true},"f":{"type":"string"}}}`,
		`{"properties":{"a":{"$ref":"#/$defs/node","description":"A."}},"$defs":{"node":{"type":"object",` +
			`"description":"N.","properties":{"next":{"$ref":"#/$defs/node"},"all":{"allOf":[{"$ref":"#/$defs/x"},{` +
			`"properties":{"y":{"type":"string"}}}]}}},"x":{"properties":{"x":{"type":"boolean"}},` +
			`"required":["x"]}}}`: `{"type":` +
			`"object","properties":{"a":{"type":"object","description":"A.","properties":{"next":{"type":"object",` +
			`"description":"N.","properties":{}},"all":{"type":"object","properties":{"x":{"type":"boolean"},"y":{` +
			`"type":"string"}},"required":["x"]}}}}}`,
	} {
		portable, err := schema.Portable(json.RawMessage(is))
		require.NoError(t, err)
		got, _ := schema.Simple(portable)
		assert.JSONEq(t, want, string(got), is)
		assert.Empty(t, refused(portable), is)
		again, err := schema.Portable(got)
		require.NoError(t, err)
		assert.Equal(t, string(got), string(again), "it is portable, too")
	}
	_, note := schema.Simple(json.RawMessage(`{"type":"object","description":"Sends.","properties":{"$x":{}}}`))
	assert.Equal(t, "Sends.\nAlso accepts these arguments: {\"$x\":{}}.", note)
}

// simpleMember returns the member f of a simple schema, and all of it.
func simpleMember(t *testing.T, f, more string) (simple string, all json.RawMessage) {
	t.Helper()
	portable, err := schema.Portable(json.RawMessage(`{"type":"object","properties":{"f":` + f + more + `}}`))
	require.NoError(t, err)
	require.Empty(t, refused(portable), f)
	all, _ = schema.Simple(portable)
	var of struct{ Properties struct{ F json.RawMessage } }
	require.NoError(t, json.Unmarshal(all, &of))
	return string(of.Properties.F), all
}

// A model cannot write an object if it must write a text.
func TestASimpleSchemaKeepsObjectsAndTheirMembers(t *testing.T) {
	const ab = `{"type":"object","properties":{"a":{"type":"integer"},"b":{"type":"string"}}}`
	for is, want := range map[string]string{
		`{"properties":{"a":{"type":"integer"},"b":{"type":"string"}},"anyOf":[{"required":["a"]},` +
			`{"required":["b"]}]}`: ab,
		`{"type":"object","properties":{"a":{"type":"integer"}},"oneOf":[{"properties":{"b":{"type":` +
			`"string"}}},{}]}`: ab,
		`{"type":"object","oneOf":[{"properties":{"a":{"type":"integer"}},"required":["a"]},{"properties":{"a":` +
			`{"type":"integer"},"b":{"type":"string"}},"required":["a","b"]}]}`: strings.TrimSuffix(ab, "}") +
			`,"required":["a"]}`,
		`{"properties":{"a":{"type":"integer"},"b":{"type":"string"}},"anyOf":[{"required":["a"]},{"type":` +
			`"null"}]}`: strings.TrimSuffix(ab, "}") + `,"required":["a"],"nullable":true}`,
		`{"properties":{"a":{"type":"integer"},"b":{"type":"string"}},"anyOf":[{"required":["a"]},{"type":` +
			`"string"}]}`: `{"anyOf":[{"type":"string"},` + strings.TrimSuffix(ab, "}") + `,"required":["a"]}]}`,
		`{"type":["object","string"],"properties":{"a":{"type":"integer"}},"anyOf":[{"properties":{"b":{"type":` +
			`"string"}}}]}`: `{"anyOf":[` + ab + `,{"type":"string"}]}`,
		`{"anyOf":[{"required":["a"]},{"patternProperties":{"x":{}}}]}`: `{"anyOf":[{"type":"object",` +
			`"properties":{}},{"type":"object","properties":{}}]}`,
		`{"const":{"a":1}}`: `{"type":"object","properties":{}}`,
		`{"enum":[["a"]]}`:  `{"type":"array","items":{"type":"string"}}`,
		`{"type":"array","prefixItems":[` + ab + `,{"type":"number"}]}`: `{"type":"array","items":{"anyOf":[` + ab +
			`,{"type":"number"}]}}`,
		`{"type":"array","oneOf":[{"items":` + ab + `}]}`: `{"type":"array","items":` + ab + `}`,
	} {
		got, _ := simpleMember(t, is, "")
		assert.JSONEq(t, want, got, is)
	}
}

// A part that refers to itself in choices, as those of pydantic do, is written once.
func TestASimpleSchemaHasNoPartAgainAndAgain(t *testing.T) {
	var members []string
	for _, name := range []string{"a", "b", "c", "d"} {
		members = append(members, `"`+name+`":{"anyOf":[{"$ref":"#/$defs/N"},{"type":"null"}]}`)
	}
	node := `{"type":"object","properties":{` + strings.Join(members, ",") + `}}`
	const itself = `{"$ref":"#/$defs/N"}`
	for _, other := range []string{itself, `{"allOf":[` + itself + `]}`, `{"type":"object","oneOf":[` + itself + `]}`} {
		node := strings.ReplaceAll(node, itself, other)
		for _, f := range []string{itself, `{"type":"object","anyOf":[` + itself + `]}`} {
			got, all := simpleMember(t, f, `},"$defs":{"N":`+node)
			assert.Contains(t, got, `"a":{"nullable":true,"properties":{},"type":"object"}`)
			assert.Less(t, len(all), 600)
		}
	}
	got, _ := simpleMember(t, `{"$ref":"#/$defs/E"}`, `},"$defs":{"E":{"anyOf":[{"type":"number"},{"type":"object",`+
		`"properties":{"left":{"$ref":"#/$defs/E"}}}]}`)
	assert.JSONEq(t, `{"anyOf":[{"type":"number"},{"type":"object","properties":{"left":{"anyOf":[{"type":"number"},`+
		`{"type":"object","properties":{}}]}}}]}`, got)
}

// A parameter that comes after too many parts has its type.
func TestASimpleSchemaHasATypeBeyondItsBound(t *testing.T) {
	var wide []string
	for i := range 3_500 {
		wide = append(wide, fmt.Sprintf(`"p%d":{}`, i))
	}
	_, all := simpleMember(t, `{"properties":{`+strings.Join(wide, ",")+`}}`, `,"zoom":{"type":"integer"}`)
	assert.Contains(t, string(all), `"zoom":{"type":"integer"}`)
}
