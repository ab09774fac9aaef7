package schema_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/platform/schema"
)

func check(t *testing.T, wanted, value string) error {
	t.Helper()
	s, err := schema.Compile(json.RawMessage(wanted))
	require.NoError(t, err)
	return s.Check(t.Context(), json.RawMessage(value))
}

// doubled is a schema of so many levels, each of which refers to the next one twice, in some form.
func doubled(levels int, form string, leaf string) string {
	var b strings.Builder
	fmt.Fprintf(&b, `{"$ref":"#/$defs/l%d","$defs":{"l0":%s`, levels, leaf)
	for i := range levels {
		below := fmt.Sprintf(`{"$ref":"#/$defs/l%d"}`, i)
		fmt.Fprintf(&b, `,"l%d":%s`, i+1, strings.ReplaceAll(form, "X", below))
	}
	b.WriteString(`}}`)
	return b.String()
}

// nested is a value of so many levels.
func nested(levels int, form, leaf string) string {
	for range levels {
		leaf = strings.ReplaceAll(form, "X", leaf)
	}
	return leaf
}

func TestUnusableSchemaIsRefusedByCompile(t *testing.T) {
	for name, c := range map[string]struct{ schema, wantErr string }{
		"too large":      {`{"description":"` + strings.Repeat("x", 70_000) + `"}`, "more than 64 KiB"},
		"not JSON":       {`{`, "not JSON"},
		"no object":      {`[]`, "not a JSON object"},
		"too deep":       {nested(5000, `{"not":X}`, `{}`), "nested more than"},
		"too many parts": {`{"allOf":[` + strings.Repeat(`{},`, 20_000) + `{}]}`, "more than 4000 objects"},
		"too many booleans": {`{"allOf":[` + strings.Repeat(`true,`, 12_000) + `true]}`,
			"more than 4000 objects"},
		"a cycle": {`{"$ref":"#"}`, "endlessly"},
		"a cycle of two": {`{"anyOf":[{"$ref":"#/$defs/a"}],"$defs":{"a":{"not":{"$ref":"#"}}}}`,
			"endlessly"},
		"a long chain at one place": {doubled(500, `{"allOf":[X]}`, `{}`), "or in more than"},
		"a dynamic reference":       {`{"$dynamicAnchor":"x","items":{"$dynamicRef":"#x"}}`, "dynamic reference"},
		"a recursive reference": {`{"$schema":"https://json-schema.org/draft/2019-09/schema",` +
			`"items":{"$recursiveRef":"#"}}`, "dynamic reference"},
		"a huge pattern": {`{"pattern":"((a{1,30}){1,30}b){1,` +
			`1}(c{1000}){1}(d{1000})(e{1000})((f{30}){33}){1}((.{30}){33}){1}(((x{10}){10}){10}){1}(a{1000}|` +
			`b{1000}|c{1000}|d{1000}|e{1000}|f{1000}|g{1000}|h{1000}|i{1000}|j{1000}|k{1000}|l{1000}|m{1000}|` +
			`n{1000}|o{1000}|p{1000}|q{1000})"}`, "repeats more than"},
		"a long pattern": {`{"pattern":"` + strings.Repeat("a", 1001) + `"}`, "more than 1000 bytes"},
		"many patterns": {`{"allOf":[` + strings.Repeat(`{"pattern":"`+strings.Repeat("a", 900)+`"},`, 60) +
			`{}]}`, "more than 32000"},
		"a huge exponent":  {`{"maximum":1e999999}`, "an exponent beyond"},
		"another document": {`{"$ref":"https://example.com/schema"}`, "another document"},
		"a file":           {`{"$ref":"file:///etc/passwd"}`, "another document"},
		"no type":          {`{"type":"colour"}`, "not valid"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := schema.Compile(json.RawMessage(c.schema))
			require.ErrorContains(t, err, c.wantErr)
			assert.LessOrEqual(t, len(err.Error()), 600)
		})
	}
}

// The patterns are those of zod 4: email, iso.duration, emoji and a repetition that RE2 does not count.
func TestWhatCannotBeReadIsNotChecked(t *testing.T) {
	for _, pattern := range []string{`^(?!\\.)(?!.*\\.\\.)([A-Za-z0-9_'+\\-\\.]*)[A-Za-z0-9_+-]@x$`, `^P(?!$)(\\d+Y)?$`,
		`\\p{Extended_Pictographic}`, `^.{1,5000}$`, `(.)\\1`, `\\u{1F600}`} {
		s := `{"properties":{"a":{"pattern":"` + pattern + `","maxLength":3},"n":{"type":"integer"}},` +
			`"patternProperties":{"` + pattern + `":{"type":"integer"}},"additionalProperties":false}`
		require.NoError(t, check(t, s, `{"a":"abc","b":"other"}`), pattern)
		require.ErrorContains(t, check(t, s, `{"a":"abcd","n":"x"}`), "maxLength", pattern)
	}
	require.Error(t, check(t, `{"$schema":"https://json-schema.org/schema#","type":"object"}`, `1`))
	for _, invalid := range []string{"[", "(", "*", "[z-a]", "a{3,2}"} {
		_, err := schema.Compile(json.RawMessage(`{"pattern":"` + invalid + `"}`))
		require.ErrorContains(t, err, "not valid regex")
	}
}

// A part that is not checked takes more. A part that forbids it, or depends on it, would take less.
func TestWhatFitsIsNotRefusedForAPatternThatCannotBeRead(t *testing.T) {
	for _, c := range [][2]string{
		{`{"const":{"pattern":"(?=x)"}}`, `{"pattern":"(?=x)"}`},
		{`{"enum":[{"$schema":"https://my.org/v1"}]}`, `{"$schema":"https://my.org/v1"}`},
		{`{"properties":{"enum":{"$schema":"https://my.org/v1","type":"string"}}}`, `{"enum":"x"}`},
		{`{"not":{"pattern":"^(?!x)"}}`, `"x"`},
		{`{"not":{"$ref":"#/$defs/x"},"$defs":{"x":{"properties":{"a":{"pattern":"^(?!x)"}}}}}`, `{"a":"x"}`},
		{`{"oneOf":[{"pattern":"^(?=a)"},{"pattern":"^(?=b)"}],"anyOf":[{"type":"string"}]}`, `"a"`},
		{`{"if":{"properties":{"a":{"pattern":"^(?=x)"}}},"then":{"required":["b"]}}`, `{"a":"q"}`},
		{`{"contains":{"pattern":"^(?=x)"},"maxContains":1}`, `["x","y"]`},
		{`{"if":{"patternProperties":{"^(?=x)":{"type":"string"}}},"then":{"properties":{"x":{}}},` +
			`"unevaluatedProperties":false}`, `{"x":"y"}`},
		{`{"patternProperties":{"^(?=x)":{}},"unevaluatedProperties":false}`, `{"x":"y"}`},
		{`{"allOf":[{"patternProperties":{"^(?=x)":{}}}],"unevaluatedProperties":false}`, `{"x":"y"}`},
	} {
		require.NoError(t, check(t, c[0], c[1]), c[0])
	}
	const rest = `{"oneOf":[{"pattern":"^(?=a)","type":"string"},{"type":"null"}],"anyOf":[{"maxLength":2}]}`
	require.NoError(t, check(t, rest, `"a"`))
	require.ErrorContains(t, check(t, rest, `1`), "want string")
	require.ErrorContains(t, check(t, rest, `"abc"`), "maxLength")
}

func TestExpensiveValueIsRefused(t *testing.T) {
	require.ErrorContains(t, check(t, `{"type":"integer"}`, `1e999999999`), "an exponent beyond")
	require.ErrorContains(t, check(t, `{"type":"integer"}`, strings.Repeat("1", 200)), "digits")
	require.ErrorContains(t, check(t, `{}`, nested(500, `[X]`, `1`)), "nested more than")
	faults := check(t, `{"items":{"type":"string"}}`, "["+strings.Repeat("1,", 5000)+"1]")
	require.ErrorContains(t, faults, "and 4993 more")
	faults = check(t, `{"enum":["`+strings.Repeat("x", 60_000)+`"]}`, `1`)
	assert.LessOrEqual(t, len(faults.Error()), 600)
}

func TestOrdinarySchemasStayFarBelowTheBudget(t *testing.T) {
	rows := `{"type":"array","items":{"type":"object","required":["id","name"],
		"properties":{"id":{"type":"integer"},"name":{"type":"string","pattern":"^[a-z]+$"},
		"kind":{"enum":["a","b","c"]},"child":{"$ref":"#/$defs/node"}}},"$defs":{"node":{"anyOf":
		[{"type":"null"},{"type":"object","properties":{"next":{"$ref":"#/$defs/node"}}}]}}}`
	row := `{"id":1,"name":"abc","kind":"b","child":` + nested(10, `{"next":X}`, `null`) + `}`
	require.NoError(t, check(t, rows, "["+strings.Repeat(row+",", 1000)+row+"]"))
	require.ErrorContains(t, check(t, rows, `[{"id":"x","name":"A"}]`), "0.id: got string, want integer")
	require.NoError(t,
		check(t, `{"type":"array","items":{"type":"number"}}`, "["+strings.Repeat("1.5e3,", 50_000)+"1]"))
	require.NoError(t, check(t, `{"type":"string"}`, `"`+strings.Repeat("x", 5<<20)+`"`))
	require.Error(t, check(t, `{"$schema":"http://json-schema.org/draft-07/schema#","format":"email"}`, `"nobody"`),
		"the format that was asked for is still looked at")
	require.NoError(t, check(t, `{"$schema":"http://json-schema.org/draft-07/schema#","format":"email"}`,
		`"a@example.com"`))
}

func TestCheckEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	s, err := schema.Compile(json.RawMessage(doubled(10, `{"anyOf":[X,X]}`, `{"type":"string"}`)))
	require.NoError(t, err)
	require.ErrorIs(t, s.Check(ctx, json.RawMessage(`1`)), context.Canceled)
	require.NotErrorIs(t, s.Check(t.Context(), json.RawMessage(`1`)), context.Canceled, "the next one has its own")
}

// FuzzCheck validates values. No check makes more visits than its budget. Within the budget the result is that of the
// library without hooks.
func FuzzCheck(f *testing.F) {
	for _, c := range [][2]string{
		{doubled(4, `{"anyOf":[X,X]}`, `{"type":"string"}`), `1`},
		{`{"type":"object","properties":{"a":{"$ref":"#"}},"required":["a"]}`, `{"a":{}}`},
		{`{"unevaluatedProperties":false,"anyOf":[{"properties":{"a":true}}]}`, `{"a":1,"b":2}`},
		{`{"items":{"pattern":"^a"},"uniqueItems":true}`, `["a","a"]`},
		{`{"$schema":"http://json-schema.org/draft-07/schema#","format":"email","dependencies":{"a":["b"]}}`,
			`{"a":1}`},
		{`{"not":{"not":{"const":{"a":[1,2.0]}}}}`, `{"a":[1,2]}`},
		{`{"prefixItems":[{"enum":[1,"a"]}],"contains":{"minimum":3},"items":false}`, `[1,4]`},
	} {
		f.Add(c[0], c[1])
	}
	f.Fuzz(func(t *testing.T, wanted, value string) {
		if len(wanted) > 400 || len(value) > 400 { // without hooks, the library has no budget
			return
		}
		s, err := schema.Compile(json.RawMessage(wanted))
		if err != nil {
			return
		}
		visits, most := schema.Visits(s)
		err = s.Check(t.Context(), json.RawMessage(value))
		if visits() > most {
			t.Fatalf("%d visits", visits())
		}
		for _, bound := range []string{"too much work", "nested", "exponent beyond"} {
			if err != nil && strings.Contains(err.Error(), bound) {
				return
			}
		}
		if read, alone := withoutBudget(wanted, value); read && (err == nil) != (alone == nil) {
			t.Fatalf("with a budget: %v; without: %v", err, alone)
		}
	})
}

// withoutBudget is the result of the library without hooks. It does not read all schemas that are read here.
func withoutBudget(wanted, value string) (read bool, err error) {
	document, err := jsonschema.UnmarshalJSON(strings.NewReader(wanted))
	if err != nil {
		return false, err
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("schema:///it", document); err != nil {
		return false, err
	}
	compiled, err := c.Compile("schema:///it")
	if err != nil {
		return false, err
	}
	v, err := jsonschema.UnmarshalJSON(strings.NewReader(value))
	if err != nil {
		return true, err
	}
	return true, compiled.Validate(v)
}
