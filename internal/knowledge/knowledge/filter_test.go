package knowledge

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/org/catalog"
	"agentplatform/internal/platform/problem"
)

func TestConditionAdmitsValuesOfItsTypeAlone(t *testing.T) {
	for _, c := range []struct {
		condition, value string
		admits           bool
	}{
		{`1`, `1`, true}, {`1`, `1.0`, true}, {`1`, `"1"`, false}, {`"a"`, `"a"`, true}, {`"a"`, `"A"`, false},
		{`true`, `true`, true}, {`true`, `false`, false}, {`true`, `1`, false},
		{`{"in":["a",2]}`, `2`, true}, {`{"in":["a",2]}`, `"b"`, false}, {`{"in":[]}`, `"a"`, false},
		{`{"gte":2}`, `2`, true}, {`{"gte":2}`, `1.9`, false}, {`{"gte":2}`, `"3"`, false},
		{`{"gte":2}`, `true`, false},
		{`{"lte":"2026-02"}`, `"2026-01-31"`, true}, {`{"lte":"2026-02"}`, `"2026-03-01"`, false},
		{`{"gte":1,"lte":3}`, `2`, true}, {`{"gte":1,"lte":3}`, `4`, false}, {`{"gte":1,"in":[5]}`, `2`, false},
	} {
		condition, err := ParseCondition("m", json.RawMessage(c.condition))
		require.NoError(t, err, c.condition)
		f := Filter{Metadata: map[string]Condition{"m": condition}}
		d := catalog.Document{Metadata: map[string]json.RawMessage{"m": json.RawMessage(c.value)}}
		assert.Equal(t, c.admits, f.admits(d), "%s: %s", c.condition, c.value)
		assert.False(t, f.admits(catalog.Document{}), "a document without the member: %s", c.condition)
	}
}

func TestConditionThatMeansNothingIsNamed(t *testing.T) {
	for raw, field := range map[string]string{
		`null`: "m", `[1]`: "m", `{}`: "m", `{"in":1}`: "m.in", `{"in":[{}]}`: "m.in", `{"gte":true}`: "m.gte",
		`{"lte":[]}`: "m.lte", `{"between":1}`: "m.between",
	} {
		_, err := ParseCondition("m", json.RawMessage(raw))
		p, is := problem.As(err)
		require.True(t, is, "%s: %v", raw, err)
		assert.Equal(t, field, p.Fields[0].Location, raw)
	}
}

func TestDocumentsOfAFilterAreThoseThatItNames(t *testing.T) {
	for _, c := range []struct {
		ids    []string
		admits bool
	}{{nil, true}, {[]string{}, false}, {[]string{"a", "b"}, true}, {[]string{"b"}, false}} {
		assert.Equal(t, c.admits, Filter{DocumentIDs: c.ids}.admits(catalog.Document{ID: "a"}), "%v", c.ids)
	}
}

func TestMetadataIsOfPlainValuesWithinBounds(t *testing.T) {
	many := map[string]json.RawMessage{}
	for i := range 21 {
		many[string(rune('a'+i))] = json.RawMessage(`1`)
	}
	long, _ := json.Marshal(string(make([]rune, 257)))
	for _, c := range []struct {
		field    string // empty: it is fine
		metadata map[string]json.RawMessage
	}{
		{"", nil}, {"", map[string]json.RawMessage{"a.B_1-": json.RawMessage(`"x"`), "b": json.RawMessage(`false`)}},
		{"m", many}, {"m", map[string]json.RawMessage{"a b": json.RawMessage(`1`)}},
		{"m.a", map[string]json.RawMessage{"a": json.RawMessage(`null`)}},
		{"m.a", map[string]json.RawMessage{"a": json.RawMessage(`{}`)}}, {"m.a", map[string]json.RawMessage{"a": long}},
	} {
		err := checkMetadata("m", c.metadata)
		if c.field == "" {
			require.NoError(t, err)
			continue
		}
		p, is := problem.As(err)
		require.True(t, is, "%v", c.metadata)
		assert.Equal(t, c.field, p.Fields[0].Location)
	}
}
