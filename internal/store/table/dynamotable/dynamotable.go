// Package dynamotable is the table port over one DynamoDB table.
//
// A commit of several operations is a TransactWriteItems with our own client token. One of a single operation is a
// conditional write. Nothing is retried here: each call returns one translated result, and the callers know which
// errors to retry. Items are stored as native attributes, so they can be read in the AWS console.
//
// It knows no record. It imports its port and the SDK.
package dynamotable

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"agentplatform/internal/store/table"
)

// API is the part of the SDK's client that is used.
type API interface {
	GetItem(context.Context, *dynamodb.GetItemInput, ...func(*dynamodb.Options)) (*dynamodb.GetItemOutput, error)
	BatchGetItem(context.Context, *dynamodb.BatchGetItemInput,
		...func(*dynamodb.Options)) (*dynamodb.BatchGetItemOutput, error)
	Query(context.Context, *dynamodb.QueryInput, ...func(*dynamodb.Options)) (*dynamodb.QueryOutput, error)
	PutItem(context.Context, *dynamodb.PutItemInput, ...func(*dynamodb.Options)) (*dynamodb.PutItemOutput, error)
	DeleteItem(context.Context, *dynamodb.DeleteItemInput,
		...func(*dynamodb.Options)) (*dynamodb.DeleteItemOutput, error)
	TransactWriteItems(context.Context, *dynamodb.TransactWriteItemsInput,
		...func(*dynamodb.Options)) (*dynamodb.TransactWriteItemsOutput, error)
}

// Table is one DynamoDB table.
type Table struct {
	api  API
	name string
	now  func() time.Time
}

// New makes a table over a client. The clock is used for expiry only, as DynamoDB removes expired items days later.
func New(api API, name string, now func() time.Time) *Table {
	return &Table{api: api, name: name, now: now}
}

// once disables the SDK's retries of a call. A retry of a write would hide that an earlier attempt may have been
// applied. A retry of a read would take seconds, each time that the caller repeats the call.
func once(o *dynamodb.Options) { o.RetryMaxAttempts = 1; o.Retryer = aws.NopRetryer{} }

func (t *Table) live(i *table.Item) bool { return i.Expires.IsZero() || t.now().Before(i.Expires) }

// read decodes an item; nil if there is none, or if it has expired.
func (t *Table) read(a map[string]types.AttributeValue) (*table.Item, error) {
	i, err := Decode(a)
	if i != nil && !t.live(i) {
		return nil, err
	}
	return i, err
}

// Get implements [table.Table].
func (t *Table) Get(ctx context.Context, keys ...table.Key) ([]*table.Item, error) {
	if len(keys) == 1 {
		out, err := t.api.GetItem(ctx,
			&dynamodb.GetItemInput{TableName: &t.name, Key: KeyOf(keys[0]), ConsistentRead: aws.Bool(true)}, once)
		if err != nil {
			return nil, readFailure(err)
		}
		item, err := t.read(out.Item)
		return []*table.Item{item}, err
	}
	found := map[table.Key]*table.Item{}
	err := t.batches(ctx, keys, types.KeysAndAttributes{ConsistentRead: aws.Bool(true)},
		func(attributes map[string]types.AttributeValue) error {
			item, err := t.read(attributes)
			if item != nil {
				found[item.Key] = item
			}
			return err
		})
	if err != nil {
		return nil, err
	}
	return inOrder(keys, found), nil
}

func inOrder[T any](keys []table.Key, found map[table.Key]T) []T {
	list := make([]T, len(keys))
	for i, k := range keys {
		list[i] = found[k]
	}
	return list
}

// rounds bounds how often a batch requests unprocessed keys; each response has up to 16 MB.
const rounds = 16

// batches reads distinct keys in batches with the options of how, and calls take with each item that exists.
func (t *Table) batches(ctx context.Context, keys []table.Key, how types.KeysAndAttributes,
	take func(map[string]types.AttributeValue) error) error {
	distinct := slices.Compact(slices.SortedFunc(slices.Values(keys), func(a, b table.Key) int {
		return cmp.Or(strings.Compare(a.Part, b.Part), strings.Compare(a.Sort, b.Sort))
	}))
	for chunk := range slices.Chunk(distinct, table.MaxGetKeys) {
		batch := how
		for _, k := range chunk {
			batch.Keys = append(batch.Keys, KeyOf(k))
		}
		if err := t.batch(ctx, batch, take); err != nil {
			return err
		}
	}
	return nil
}

func (t *Table) batch(ctx context.Context, batch types.KeysAndAttributes,
	take func(map[string]types.AttributeValue) error) error {
	for range rounds {
		out, err := t.api.BatchGetItem(ctx,
			&dynamodb.BatchGetItemInput{RequestItems: map[string]types.KeysAndAttributes{t.name: batch}}, once)
		if err != nil {
			return readFailure(err)
		}
		for _, attributes := range out.Responses[t.name] {
			if err := take(attributes); err != nil {
				return err
			}
		}
		batch.Keys = out.UnprocessedKeys[t.name].Keys
		if len(batch.Keys) == 0 {
			return nil
		}
	}
	return &table.Error{Kind: table.Throttled, Err: fmt.Errorf("%d keys were left unread", len(batch.Keys))}
}

// Poll implements [table.Poller]: a call for a hundred keys, half the read units of Get, and no transfer of bodies.
func (t *Table) Poll(ctx context.Context, keys ...table.Key) ([]table.Mark, error) {
	seen := map[table.Key]table.Mark{}
	err := t.batches(ctx, keys, types.KeysAndAttributes{
		ProjectionExpression: aws.String("#p, #s, #v, #e"), ExpressionAttributeNames: map[string]string{
			"#p": partAttribute, "#s": sortAttribute, "#v": versionAttribute, "#e": expiresAttribute,
		},
	}, func(attributes map[string]types.AttributeValue) error {
		i, err := head(attributes)
		if err == nil && t.live(i) {
			seen[i.Key] = table.Mark{There: true, Version: i.Version}
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return inOrder(keys, seen), nil
}

// last is greater than every string.
const last = "\U0010FFFF"

// rangeQuery is a query for a range of the partition attribute part, in the order of the attribute sort.
func rangeQuery(part, sort string, r table.Range) *dynamodb.QueryInput {
	condition, values := keyCondition(r)
	q := &dynamodb.QueryInput{
		KeyConditionExpression: &condition, ExpressionAttributeNames: map[string]string{"#p": part},
		ExpressionAttributeValues: values,
		ScanIndexForward:          aws.Bool(!r.Reverse), Limit: pageSize(r.Limit + 1),
	}
	if strings.Contains(condition, "#s") { // DynamoDB refuses unused names
		q.ExpressionAttributeNames["#s"] = sort
	}
	return q
}

// keyCondition is the key condition of a range. #p and #s are the partition and the sort attribute. It also selects the
// key After, which is not in the range.
func keyCondition(r table.Range) (string, map[string]types.AttributeValue) {
	values := map[string]types.AttributeValue{":p": text(r.Part)}
	low, high := r.Prefix, r.Prefix+last
	if r.After != "" && r.Reverse {
		high = min(high, r.After)
	} else if r.After != "" {
		low = max(low, r.After)
	}
	switch {
	case r.After == "" && r.Prefix == "":
		return "#p = :p", values
	case low == "":
		values[":h"] = text(high)
		return "#p = :p AND #s <= :h", values
	default:
		// BETWEEN needs ordered bounds; an empty range becomes one with a single key that is not in the range.
		values[":l"], values[":h"] = text(low), text(max(low, high))
		return "#p = :p AND #s BETWEEN :l AND :h", values
	}
}

// pages queries page by page until take has enough.
func (t *Table) pages(ctx context.Context, q *dynamodb.QueryInput,
	take func(map[string]types.AttributeValue) (enough bool, err error)) error {
	q.TableName = &t.name
	for {
		out, err := t.api.Query(ctx, q, once)
		if err != nil {
			return readFailure(err)
		}
		for _, attributes := range out.Items {
			if enough, err := take(attributes); enough || err != nil {
				return err
			}
		}
		if len(out.LastEvaluatedKey) == 0 {
			return nil
		}
		q.ExclusiveStartKey = out.LastEvaluatedKey
	}
}

// Query implements [table.Table].
func (t *Table) Query(ctx context.Context, r table.Range) ([]*table.Item, error) {
	var items []*table.Item
	q := rangeQuery(partAttribute, sortAttribute, r)
	q.ConsistentRead = aws.Bool(true)
	err := t.pages(ctx, q, func(attributes map[string]types.AttributeValue) (bool, error) {
		item, err := t.read(attributes)
		if err == nil && item != nil && r.Includes(item.Sort) {
			items = append(items, item)
		}
		return len(items) == r.Limit, err
	})
	return items, err
}

func pageSize(n int) *int32 { return aws.Int32(int32(min(n, 1000))) } //nolint:gosec // bounded just here

// List implements [table.Table].
func (t *Table) List(ctx context.Context, index table.Index, r table.Range) ([]table.Entry, error) {
	part, at := listAttributes(index)
	return t.entries(ctx, string(index), at, rangeQuery(part, at, r), r)
}

// Due implements [table.Table].
func (t *Table) Due(ctx context.Context, shard int, until time.Time, limit int) ([]table.Entry, error) {
	return t.entries(ctx, dueIndex, dueAttribute, &dynamodb.QueryInput{
		KeyConditionExpression: aws.String("#p = :p AND #s <= :t"), Limit: pageSize(limit),
		ExpressionAttributeNames: map[string]string{"#p": dueShardAttribute, "#s": dueAttribute},
		ExpressionAttributeValues: map[string]types.AttributeValue{":p": text(strconv.Itoa(shard)),
			":t": text(timeText(until))},
	}, table.Range{Limit: limit})
}

func (t *Table) entries(ctx context.Context, index, at string, q *dynamodb.QueryInput,
	r table.Range) ([]table.Entry, error) {
	var entries []table.Entry
	q.IndexName = &index
	err := t.pages(ctx, q, func(attributes map[string]types.AttributeValue) (bool, error) {
		e := table.Entry{Key: table.Key{Part: textOf(attributes[partAttribute]),
			Sort: textOf(attributes[sortAttribute])}, At: textOf(attributes[at])}
		if r.Includes(e.At) {
			entries = append(entries, e)
		}
		return len(entries) == r.Limit, nil
	})
	return entries, err
}

// Commit implements [table.Table].
//
// An expired item counts as absent, though DynamoDB may remove it days later. The clock is not part of the conditions,
// as a repetition must send the same request. A refusal by an expired item is retried with the condition that it is
// still the same item.
func (t *Table) Commit(ctx context.Context, token string, ops ...table.Op) error {
	if err := table.Validate(ops); err != nil {
		return err
	}
	err := t.commit(ctx, token, ops, nil)
	refused, ok := errors.AsType[*table.Refused](err)
	if !ok {
		return err
	}
	expired := map[int]*table.Item{}
	for i, c := range refused.Conflicts {
		if c.Current == nil || t.live(c.Current) {
			continue
		}
		refused.Conflicts[i].Current = nil
		if ops[c.Op].If == table.Absent() {
			expired[c.Op] = c.Current
		}
	}
	if len(expired) < len(refused.Conflicts) {
		return err
	}
	return t.commit(ctx, token, ops, expired)
}

// commit makes one attempt. expired are the expired items, by operation, that block operations which require absence.
func (t *Table) commit(ctx context.Context, token string, ops []table.Op, expired map[int]*table.Item) error {
	if len(ops) == 1 && ops[0].Kind != table.CheckOp {
		return t.single(ctx, ops[0], guardOf(ops[0].If, expired[0]))
	}
	in := &dynamodb.TransactWriteItemsInput{}
	at := make([]int, 0, len(ops)) // the index of the operation of each action
	for i, op := range ops {
		g := guardOf(op.If, expired[i])
		if op.Kind == table.CheckOp && g.expression == nil {
			continue // checks nothing; DynamoDB has no such operation
		}
		action, err := t.action(op, g)
		if err != nil {
			return err
		}
		in.TransactItems = append(in.TransactItems, action)
		at = append(at, i)
	}
	if len(in.TransactItems) == 0 {
		return nil
	}
	in.ClientRequestToken = clientToken(token, t.name, ops, len(expired))
	if _, err := t.api.TransactWriteItems(ctx, in, once); err != nil {
		return writeFailure(err, at)
	}
	return nil
}

// clientToken identifies an attempt with its operations. The same token with other operations, or for another table of
// the account, is another attempt.
func clientToken(token, name string, ops []table.Op, expired int) *string {
	hash := sha256.New()
	_, _ = fmt.Fprintf(hash, "%q %q %d", token, name, expired)
	for _, op := range ops {
		i := op.Item
		_, _ = fmt.Fprintf(hash, " %d %+v %q %q %q %d %q %d %s %s %+v %d:%s", op.Kind, op.If, i.Part, i.Sort, i.Owner,
			i.Version, i.WriteID, i.Schema, i.Due, i.Expires, i.Lists, len(i.Body), i.Body)
	}
	return aws.String(hex.EncodeToString(hash.Sum(nil)[:16]))
}

func (t *Table) single(ctx context.Context, op table.Op, g guard) error {
	var err error
	if op.Kind == table.DeleteOp {
		_, err = t.api.DeleteItem(ctx, &dynamodb.DeleteItemInput{
			TableName: &t.name, Key: KeyOf(op.Item.Key), ConditionExpression: g.expression,
			ExpressionAttributeNames:  g.names,
			ExpressionAttributeValues: g.values, ReturnValuesOnConditionCheckFailure: allOld,
		}, once)
	} else {
		attributes, bad := encode(op.Item)
		if bad != nil {
			return bad
		}
		_, err = t.api.PutItem(ctx, &dynamodb.PutItemInput{
			TableName: &t.name, Item: attributes, ConditionExpression: g.expression, ExpressionAttributeNames: g.names,
			ExpressionAttributeValues: g.values, ReturnValuesOnConditionCheckFailure: allOld,
		}, once)
	}
	if err != nil {
		return writeFailure(err, []int{0})
	}
	return nil
}

// allOld makes a refusal return the current item, which saves another read.
const allOld = types.ReturnValuesOnConditionCheckFailureAllOld

func (t *Table) action(op table.Op, g guard) (types.TransactWriteItem, error) {
	switch op.Kind {
	case table.DeleteOp:
		return types.TransactWriteItem{Delete: &types.Delete{
			TableName: &t.name, Key: KeyOf(op.Item.Key), ConditionExpression: g.expression,
			ExpressionAttributeNames:  g.names,
			ExpressionAttributeValues: g.values, ReturnValuesOnConditionCheckFailure: allOld,
		}}, nil
	case table.CheckOp:
		return types.TransactWriteItem{ConditionCheck: &types.ConditionCheck{
			TableName: &t.name, Key: KeyOf(op.Item.Key), ConditionExpression: g.expression,
			ExpressionAttributeNames:  g.names,
			ExpressionAttributeValues: g.values, ReturnValuesOnConditionCheckFailure: allOld,
		}}, nil
	default:
		attributes, err := encode(op.Item)
		return types.TransactWriteItem{Put: &types.Put{
			TableName: &t.name, Item: attributes, ConditionExpression: g.expression, ExpressionAttributeNames: g.names,
			ExpressionAttributeValues: g.values, ReturnValuesOnConditionCheckFailure: allOld,
		}}, err
	}
}

// guard is a condition in DynamoDB's form; the zero value always holds.
type guard struct {
	expression *string
	names      map[string]string
	values     map[string]types.AttributeValue
}

func guardOf(c table.Condition, expired *table.Item) guard {
	version, asks := c.Version()
	switch {
	case c == table.Always():
		return guard{}
	case asks:
		return guard{
			aws.String("#version = :version"), map[string]string{"#version": versionAttribute},
			map[string]types.AttributeValue{":version": number(version)},
		}
	case expired != nil:
		return guard{
			aws.String("#version = :version AND #move = :move AND #expires = :expires"),
			map[string]string{"#version": versionAttribute, "#move": writeIDAttribute, "#expires": expiresAttribute},
			map[string]types.AttributeValue{":version": number(expired.Version), ":move": text(expired.WriteID),
				":expires": text(timeText(expired.Expires))},
		}
	default:
		return guard{expression: aws.String("attribute_not_exists(#key)"),
			names: map[string]string{"#key": partAttribute}}
	}
}
