package dynamotable

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
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

func encode(i *table.Item) (map[string]types.AttributeValue, error) {
	a := KeyOf(i.Key)
	a[ownerAttribute], a[writeIDAttribute] = text(i.Owner), text(i.WriteID)
	a[versionAttribute], a[schemaAttribute] = number(i.Version), number(int64(i.Schema))
	if !i.Due.IsZero() {
		a[dueShardAttribute], a[dueAttribute] = text(strconv.Itoa(i.Shard())), text(timeText(i.Due))
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
	i, err := head(a)
	if err != nil {
		return nil, err
	}
	schema, err := numberOf(a[schemaAttribute])
	if err != nil {
		return nil, bad(i, schemaAttribute, err)
	}
	i.Schema = int(schema)
	for _, index := range []table.Index{table.ByOwner, table.ByChat} {
		part, at := listAttributes(index)
		if a[part] != nil {
			i.Lists = append(i.Lists, table.Listing{Index: index, Part: textOf(a[part]), Sort: textOf(a[at])})
		}
	}
	if i.Body, err = plain(a[bodyAttribute]); err != nil {
		return nil, bad(i, bodyAttribute, err)
	}
	return i, nil
}

// head decodes an item without its schema and its body.
func head(a map[string]types.AttributeValue) (i *table.Item, err error) {
	i = &table.Item{Key: table.Key{Part: textOf(a[partAttribute]), Sort: textOf(a[sortAttribute])}}
	i.Owner, i.WriteID = textOf(a[ownerAttribute]), textOf(a[writeIDAttribute])
	if i.Version, err = numberOf(a[versionAttribute]); err != nil {
		return nil, bad(i, versionAttribute, err)
	}
	for attribute, at := range map[string]*time.Time{dueAttribute: &i.Due, expiresAttribute: &i.Expires} {
		if s := textOf(a[attribute]); s != "" {
			if *at, err = time.Parse(time.RFC3339Nano, s); err != nil {
				return nil, bad(i, attribute, err)
			}
		}
	}
	return i, nil
}

func bad(i *table.Item, attribute string, err error) error {
	return fmt.Errorf("dynamotable: the %s of %s: %w", attribute, i.Key, err)
}

// depth is the maximal nesting of a native value: DynamoDB allows 32 levels, of which the body is the first.
const depth = 30

// native makes an attribute of a JSON value. Some values do not fit DynamoDB: numbers of more than 38 digits, deep
// nesting, members without a name. They stay JSON in a binary attribute, which is used for nothing else.
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
	if _, unnamed := members[""]; unnamed {
		return &types.AttributeValueMemberB{Value: body}, nil
	}
	return attribute(members, depth+1), nil
}

// attribute makes a native value of a JSON value. A part that cannot be native becomes binary.
func attribute(v any, levels int) types.AttributeValue {
	if levels > 0 {
		switch v := v.(type) {
		case nil:
			return &types.AttributeValueMemberNULL{Value: true}
		case bool:
			return &types.AttributeValueMemberBOOL{Value: v}
		case string:
			return text(v)
		case json.Number:
			if nativeNumber(v.String()) {
				return &types.AttributeValueMemberN{Value: v.String()}
			}
		case []any:
			list := make([]types.AttributeValue, 0, len(v))
			for _, one := range v {
				list = append(list, attribute(one, levels-1))
			}
			return &types.AttributeValueMemberL{Value: list}
		case map[string]any:
			if _, unnamed := v[""]; unnamed {
				break
			}
			m := make(map[string]types.AttributeValue, len(v))
			for name, one := range v {
				m[name] = attribute(one, levels-1)
			}
			return &types.AttributeValueMemberM{Value: m}
		}
	}
	b, _ := json.Marshal(v) // it was read from JSON
	return &types.AttributeValueMemberB{Value: b}
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

// plain is an attribute as JSON, with members sorted by name.
func plain(a types.AttributeValue) ([]byte, error) {
	if whole, is := a.(*types.AttributeValueMemberB); is {
		return whole.Value, nil
	}
	v, err := valueOf(a)
	if err != nil {
		return nil, err
	}
	return json.Marshal(v)
}

func valueOf(a types.AttributeValue) (any, error) {
	switch a := a.(type) {
	case *types.AttributeValueMemberNULL:
		return nil, nil
	case *types.AttributeValueMemberBOOL:
		return a.Value, nil
	case *types.AttributeValueMemberS:
		return a.Value, nil
	case *types.AttributeValueMemberN:
		return json.Number(a.Value), nil
	case *types.AttributeValueMemberB:
		return json.RawMessage(a.Value), nil
	case *types.AttributeValueMemberL:
		list := make([]any, len(a.Value))
		for i, one := range a.Value {
			var err error
			if list[i], err = valueOf(one); err != nil {
				return nil, err
			}
		}
		return list, nil
	case *types.AttributeValueMemberM:
		members := make(map[string]any, len(a.Value))
		for name, one := range a.Value {
			var err error
			if members[name], err = valueOf(one); err != nil {
				return nil, err
			}
		}
		return members, nil
	}
	return nil, fmt.Errorf("holds a %T", a)
}
