package dynamotable

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"agentplatform/internal/store/table"
)

// The attributes of an item. Those of an index are set only if the item is in it, so that the index is sparse.
const (
	partAttribute     = "pk"
	sortAttribute     = "sk"
	ownerAttribute    = "owner"
	versionAttribute  = "version"
	writeIDAttribute  = "move" // stored items have this name
	schemaAttribute   = "schema"
	bodyAttribute     = "body"
	dueShardAttribute = "due_shard"
	dueAttribute      = "due"
	expiresAttribute  = "expires" // with nanoseconds, for conditions
	ttlAttribute      = "ttl"     // seconds since 1970, for DynamoDB's removal
	dueIndex          = "due"
)

// Schema is the key schema of a table; infrastructure and tests create their tables from it.
type Schema struct {
	PartitionKey, SortKey, TTL string
	Indexes                    []IndexSchema // with the projection KEYS_ONLY
}

// IndexSchema is a global secondary index.
type IndexSchema struct{ Name, PartitionKey, SortKey string }

// Layout is the schema of a table with all indexes.
func Layout() Schema {
	s := Schema{PartitionKey: partAttribute, SortKey: sortAttribute, TTL: ttlAttribute}
	for _, index := range []table.Index{table.ByOwner, table.ByChat} {
		part, at := listAttributes(index)
		s.Indexes = append(s.Indexes, IndexSchema{string(index), part, at})
	}
	s.Indexes = append(s.Indexes, IndexSchema{dueIndex, dueShardAttribute, dueAttribute})
	return s
}

func listAttributes(index table.Index) (part, at string) {
	return "by_" + string(index), "by_" + string(index) + "_at"
}

func shardName(shard int) string { return strconv.Itoa(shard) }

// timeText has a fixed width, so that the order of the strings is that of the times.
func timeText(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000000000Z") }

func text(s string) types.AttributeValue { return &types.AttributeValueMemberS{Value: s} }

func number(n int64) types.AttributeValue {
	return &types.AttributeValueMemberN{Value: strconv.FormatInt(n, 10)}
}

func textOf(a types.AttributeValue) string {
	if s, ok := a.(*types.AttributeValueMemberS); ok {
		return s.Value
	}
	return ""
}

func numberOf(a types.AttributeValue) (int64, error) {
	n, ok := a.(*types.AttributeValueMemberN)
	if !ok {
		return 0, fmt.Errorf("is %T, not a number", a)
	}
	return strconv.ParseInt(n.Value, 10, 64)
}

// KeyOf is the primary key of an item.
func KeyOf(k table.Key) map[string]types.AttributeValue {
	return map[string]types.AttributeValue{partAttribute: text(k.Part), sortAttribute: text(k.Sort)}
}

// encode makes the attributes of an item.
func encode(i *table.Item) (map[string]types.AttributeValue, error) {
	a := KeyOf(i.Key)
	a[ownerAttribute], a[writeIDAttribute] = text(i.Owner), text(i.WriteID)
	a[versionAttribute], a[schemaAttribute] = number(i.Version), number(int64(i.Schema))
	if !i.Due.IsZero() {
		a[dueShardAttribute], a[dueAttribute] = text(shardName(i.Shard())), text(timeText(i.Due))
	}
	if !i.Expires.IsZero() {
		a[expiresAttribute] = text(timeText(i.Expires))
		a[ttlAttribute] = number(int64(math.Ceil(float64(i.Expires.UnixMilli()) / 1000)))
	}
	for _, l := range i.Lists {
		part, at := listAttributes(l.Index)
		if a[part] != nil {
			return nil, fmt.Errorf("dynamotable: %s stands twice in the index %s", i.Key, l.Index)
		}
		a[part], a[at] = text(l.Part), text(l.Sort)
	}
	body, err := native(i.Body)
	if err != nil {
		return nil, fmt.Errorf("dynamotable: the body of %s: %w", i.Key, err)
	}
	a[bodyAttribute] = body
	return a, nil
}

// Decode decodes an item from its attributes, also an expired one; nil if there is none. The error names the item and
// the attribute that is invalid.
func Decode(a map[string]types.AttributeValue) (*table.Item, error) {
	if len(a) == 0 {
		return nil, nil
	}
	i := &table.Item{Key: table.Key{Part: textOf(a[partAttribute]), Sort: textOf(a[sortAttribute])}}
	bad := func(what string, err error) error {
		return fmt.Errorf("dynamotable: the %s of %s: %w", what, i.Key, err)
	}
	i.Owner, i.WriteID = textOf(a[ownerAttribute]), textOf(a[writeIDAttribute])
	var err error
	if i.Version, err = numberOf(a[versionAttribute]); err != nil {
		return nil, bad(versionAttribute, err)
	}
	schema, err := numberOf(a[schemaAttribute])
	if err != nil {
		return nil, bad(schemaAttribute, err)
	}
	i.Schema = int(schema)
	for attribute, at := range map[string]*time.Time{dueAttribute: &i.Due, expiresAttribute: &i.Expires} {
		if s := textOf(a[attribute]); s != "" {
			if *at, err = time.Parse(time.RFC3339Nano, s); err != nil {
				return nil, bad(attribute, err)
			}
		}
	}
	for _, index := range []table.Index{table.ByOwner, table.ByChat} {
		part, at := listAttributes(index)
		if a[part] != nil {
			i.Lists = append(i.Lists, table.Listing{Index: index, Part: textOf(a[part]), Sort: textOf(a[at])})
		}
	}
	var b bytes.Buffer
	if err := plain(&b, a[bodyAttribute]); err != nil {
		return nil, bad(bodyAttribute, err)
	}
	i.Body = b.Bytes()
	return i, nil
}

// depth is the maximal nesting of a native value: DynamoDB allows 32 levels, of which the body is the first.
const depth = 30

// native makes an attribute of a JSON value. What DynamoDB cannot hold (numbers of more than 38 digits, deep nesting,
// members without a name) stays JSON in a binary attribute, which is used for nothing else.
func native(body []byte) (types.AttributeValue, error) {
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, err
	}
	members, ok := v.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("is %T, not an object", v)
	}
	m := make(map[string]types.AttributeValue, len(members))
	for name, value := range members {
		a, ok := attribute(value, depth)
		if !ok || name == "" {
			return &types.AttributeValueMemberB{Value: body}, nil
		}
		m[name] = a
	}
	return &types.AttributeValueMemberM{Value: m}, nil
}

// attribute makes a native value. A part that cannot be native becomes binary; false means that v itself cannot be
// encoded.
func attribute(v any, levels int) (types.AttributeValue, bool) {
	if levels == 0 {
		return raw(v)
	}
	switch v := v.(type) {
	case nil:
		return &types.AttributeValueMemberNULL{Value: true}, true
	case bool:
		return &types.AttributeValueMemberBOOL{Value: v}, true
	case string:
		return text(v), true
	case json.Number:
		if !nativeNumber(v.String()) {
			return raw(v)
		}
		return &types.AttributeValueMemberN{Value: v.String()}, true
	case []any:
		list := make([]types.AttributeValue, 0, len(v))
		for _, one := range v {
			a, ok := attribute(one, levels-1)
			if !ok {
				return raw(v)
			}
			list = append(list, a)
		}
		return &types.AttributeValueMemberL{Value: list}, true
	case map[string]any:
		m := make(map[string]types.AttributeValue, len(v))
		for name, one := range v {
			a, ok := attribute(one, levels-1)
			if !ok || name == "" {
				return raw(v)
			}
			m[name] = a
		}
		return &types.AttributeValueMemberM{Value: m}, true
	default:
		return nil, false
	}
}

func raw(v any) (types.AttributeValue, bool) {
	b, err := json.Marshal(v)
	return &types.AttributeValueMemberB{Value: b}, err == nil
}

// nativeNumber reports whether DynamoDB holds a number without loss: at most 38 digits, of a moderate magnitude.
func nativeNumber(s string) bool {
	mantissa, exponent, _ := strings.Cut(strings.ToLower(s), "e")
	digits := strings.Trim(strings.NewReplacer("-", "", ".", "").Replace(mantissa), "0")
	e := 0
	if exponent != "" {
		var err error
		if e, err = strconv.Atoi(exponent); err != nil {
			return false
		}
	}
	return len(digits) <= 38 && len(mantissa) <= 60 && e >= -60 && e <= 60
}

// plain writes an attribute as JSON, with members sorted by name.
func plain(b *bytes.Buffer, a types.AttributeValue) error {
	switch a := a.(type) {
	case *types.AttributeValueMemberNULL:
		b.WriteString("null")
	case *types.AttributeValueMemberBOOL:
		b.WriteString(strconv.FormatBool(a.Value))
	case *types.AttributeValueMemberS:
		return quote(b, a.Value)
	case *types.AttributeValueMemberN:
		b.WriteString(a.Value)
	case *types.AttributeValueMemberB:
		b.Write(a.Value)
	case *types.AttributeValueMemberL:
		for i, one := range a.Value {
			b.WriteByte("[,"[min(i, 1)])
			if err := plain(b, one); err != nil {
				return err
			}
		}
		if len(a.Value) == 0 {
			b.WriteByte('[')
		}
		b.WriteByte(']')
	case *types.AttributeValueMemberM:
		return object(b, a.Value)
	default:
		return fmt.Errorf("holds a %T", a)
	}
	return nil
}

func object(b *bytes.Buffer, members map[string]types.AttributeValue) error {
	b.WriteByte('{')
	for i, name := range slices.Sorted(maps.Keys(members)) {
		if i > 0 {
			b.WriteByte(',')
		}
		if err := quote(b, name); err != nil {
			return err
		}
		b.WriteByte(':')
		if err := plain(b, members[name]); err != nil {
			return err
		}
	}
	b.WriteByte('}')
	return nil
}

func quote(b *bytes.Buffer, s string) error {
	quoted, err := json.Marshal(s)
	b.Write(quoted)
	return err
}
