package dynamotable

import (
	"bytes"
	"encoding/json"
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/store/table"
)

// same reports whether two JSON values mean the same; numbers are compared exactly.
func same(t testing.TB, a, b []byte) bool {
	t.Helper()
	read := func(text []byte) (v any) {
		d := json.NewDecoder(bytes.NewReader(text))
		d.UseNumber()
		require.NoError(t, d.Decode(&v))
		return v
	}
	return equal(read(a), read(b))
}

func equal(a, b any) bool {
	switch a := a.(type) {
	case json.Number:
		n, ok := b.(json.Number)
		x, okX := new(big.Float).SetPrec(2000).SetString(a.String())
		y, okY := new(big.Float).SetPrec(2000).SetString(n.String())
		return ok && ((okX && okY && x.Cmp(y) == 0) || a == n)
	case []any:
		l, ok := b.([]any)
		if !ok || len(l) != len(a) {
			return false
		}
		for i := range a {
			if !equal(a[i], l[i]) {
				return false
			}
		}
		return true
	case map[string]any:
		m, ok := b.(map[string]any)
		if !ok || len(m) != len(a) {
			return false
		}
		for k := range a {
			if v, there := m[k]; !there || !equal(a[k], v) {
				return false
			}
		}
		return true
	default:
		return a == b
	}
}

func roundTrip(t testing.TB, body string) string {
	t.Helper()
	a, err := native([]byte(body))
	require.NoError(t, err)
	b, err := plain(a)
	require.NoError(t, err)
	return string(b)
}

func TestBodiesAreStoredAsNativeAttributesIfLossless(t *testing.T) {
	a, err := native([]byte(`{"status":"queued","turn":3,"parked":[],"chat":{"id":"c","open":true},"error":null}`))
	require.NoError(t, err)
	assert.Equal(t, &types.AttributeValueMemberM{Value: map[string]types.AttributeValue{
		"status": &types.AttributeValueMemberS{Value: "queued"},
		"turn":   &types.AttributeValueMemberN{Value: "3"},
		"parked": &types.AttributeValueMemberL{Value: []types.AttributeValue{}},
		"chat": &types.AttributeValueMemberM{Value: map[string]types.AttributeValue{
			"id": &types.AttributeValueMemberS{Value: "c"}, "open": &types.AttributeValueMemberBOOL{Value: true},
		}},
		"error": &types.AttributeValueMemberNULL{Value: true},
	}}, a)
}

func TestBodiesThatDynamoDBCannotHoldStayJSON(t *testing.T) {
	for name, body := range map[string]string{
		"a long number":         `{"n":1234567890123456789012345678901234567890.5}`,
		"a huge number":         `{"n":1e400}`,
		"a tiny number":         `{"n":-1E-999}`,
		"a member with no name": `{"m":{"":1}}`,
		"deep nesting":          `{"d":` + strings.Repeat(`[{"a":`, 100) + "1" + strings.Repeat("}]", 100) + "}",
		"no name at the top":    `{"":{"a":1}}`,
	} {
		assert.True(t, same(t, []byte(body), []byte(roundTrip(t, body))), name)
	}
	assert.Less(t, levels(t, `{"d":`+strings.Repeat("[", 500)+strings.Repeat("]", 500)+"}"), 32)
}

// levels is the nesting of the native part of a body.
func levels(t *testing.T, body string) int {
	a, err := native([]byte(body))
	require.NoError(t, err)
	var deep func(types.AttributeValue) int
	deep = func(a types.AttributeValue) int {
		most := 0
		switch a := a.(type) {
		case *types.AttributeValueMemberL:
			for _, one := range a.Value {
				most = max(most, deep(one))
			}
		case *types.AttributeValueMemberM:
			for _, one := range a.Value {
				most = max(most, deep(one))
			}
		default:
			return 0
		}
		return most + 1
	}
	return deep(a)
}

func FuzzBodies(f *testing.F) {
	for _, s := range []string{`{"a":1}`, `{"a":[1,2,{"b":null}],"c":"\u0000ü\ud83d\ude00"}`,
		`{"n":-0.0,"e":1e5,"l":123456789012345678901234567890123456789012}`, `{"":[]}`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, body string) {
		a, err := native([]byte(body))
		if err != nil {
			return
		}
		var first json.RawMessage
		require.NoError(t, json.NewDecoder(strings.NewReader(body)).Decode(&first)) // text after the object is ignored
		b, err := plain(a)
		require.NoError(t, err)
		assert.True(t, same(t, first, b), "%s came back as %s", body, b)
	})
}

// A token that is used again for other operations is another attempt: DynamoDB does not take it for the one before.
func TestATokenIsOfItsOperations(t *testing.T) {
	item := table.Item{Key: table.Key{Part: "p", Sort: "s"}, Owner: "o", WriteID: "w", Body: []byte(`{"a":1}`)}
	of := func(change func(*table.Item), cond table.Condition) string {
		i := item
		change(&i)
		return *clientToken("t", "table", []table.Op{table.Put(i, cond)}, 0)
	}
	once := of(func(*table.Item) {}, table.Absent())
	assert.Equal(t, once, of(func(*table.Item) {}, table.Absent()))
	assert.NotEqual(t, once, of(func(*table.Item) {}, table.Always()))
	for name, change := range map[string]func(*table.Item){
		"part": func(i *table.Item) { i.Part = "q" }, "owner": func(i *table.Item) { i.Owner = "other" },
		"body":  func(i *table.Item) { i.Body = []byte(`{"a":2}`) },
		"due":   func(i *table.Item) { i.Due = time.Unix(1, 0) },
		"lists": func(i *table.Item) { i.Lists = []table.Listing{{Index: table.ByOwner, Part: "l", Sort: "1"}} },
	} {
		assert.NotEqual(t, once, of(change, table.Absent()), name)
	}
}
