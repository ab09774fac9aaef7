//go:build integration

package proof_test

import (
	"context"
	"strings"
	"sync"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/s3vectors"
	vectors "github.com/aws/aws-sdk-go-v2/service/s3vectors/types"
	"github.com/aws/smithy-go/middleware"

	"agentplatform/internal/store/table/dynamotable"
)

// meter counts calls, and computes the write units that DynamoDB would bill: the units that a local DynamoDB reports
// are unreliable. It must see every write since a table was created, as the cost of an index depends on the changes.
type meter struct {
	mu     sync.Mutex
	calls  map[string]int
	units  int
	reads  float64 // units
	bytes  int     // of vectors with their metadata, as they are put
	stored map[string]map[string]types.AttributeValue
	// By partition of a table or an index: its name, a space, and the partition key.
	written map[string]int
	read    map[string]float64
}

func newMeter() *meter {
	return &meter{calls: map[string]int{}, stored: map[string]map[string]types.AttributeValue{},
		written: map[string]int{}, read: map[string]float64{}}
}

// into makes the clients of an account count their calls.
func (m *meter) into(account aws.Config) aws.Config {
	account.APIOptions = append(account.APIOptions, func(s *middleware.Stack) error {
		return s.Initialize.Add(middleware.InitializeMiddlewareFunc("meter", func(
			ctx context.Context, in middleware.InitializeInput, next middleware.InitializeHandler,
		) (middleware.InitializeOutput, middleware.Metadata, error) {
			out, data, err := next.HandleInitialize(ctx, in)
			m.count(middleware.GetOperationName(ctx), in.Parameters, out.Result, err)
			return out, data, err
		}), middleware.After)
	})
	return account
}

func (m *meter) count(operation string, parameters, result any, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.calls[operation]++
	done := err == nil
	switch p := parameters.(type) {
	case *s3vectors.PutVectorsInput:
		n := 0
		for _, v := range p.Vectors {
			n += vectorBytes(v)
		}
		m.bytes += max(n, leastPut)
	case *dynamodb.PutItemInput:
		m.put(p.TableName, p.Item, 1, done)
	case *dynamodb.DeleteItemInput:
		m.delete(p.TableName, p.Key, 1, done)
	case *dynamodb.TransactWriteItemsInput:
		for _, action := range p.TransactItems {
			switch {
			case action.Put != nil:
				m.put(action.Put.TableName, action.Put.Item, 2, done)
			case action.Delete != nil:
				m.delete(action.Delete.TableName, action.Delete.Key, 2, done)
			case action.ConditionCheck != nil:
				m.write(partition(action.ConditionCheck.TableName, action.ConditionCheck.Key), 2)
			default:
				panic("proof: a part of a transaction that has no price yet")
			}
		}
	case *dynamodb.GetItemInput:
		m.get(p.TableName, p.Key, aws.ToBool(p.ConsistentRead))
	case *dynamodb.BatchGetItemInput:
		for table, keys := range p.RequestItems {
			for _, key := range keys.Keys {
				m.get(&table, key, aws.ToBool(keys.ConsistentRead))
			}
		}
	case *dynamodb.QueryInput:
		if out, ok := result.(*dynamodb.QueryOutput); ok {
			n := 0
			for _, item := range out.Items {
				n += bytesOf(item)
			}
			m.took(m.queryPartition(p), (n+1023)/1024, aws.ToBool(p.ConsistentRead))
		}
	}
}

// write counts units of a partition.
func (m *meter) write(partition string, units int) {
	m.units += units
	m.written[partition] += units
}

// get counts the read of an item.
func (m *meter) get(table *string, key map[string]types.AttributeValue, consistent bool) {
	m.took(partition(table, key), kilobytes(m.stored[itemKey(table, key)]), consistent)
}

// took counts a read of kilobytes of a partition: a unit for four, and half of that if the read may lag.
func (m *meter) took(partition string, kilobytes int, consistent bool) {
	units := float64(max(1, (kilobytes+3)/4))
	if !consistent {
		units /= 2
	}
	m.reads += units
	m.read[partition] += units
}

// queryPartition is the partition of a query, of the table or of an index.
func (m *meter) queryPartition(p *dynamodb.QueryInput) string {
	for name, value := range p.ExpressionAttributeValues {
		if name == ":p" {
			return aws.ToString(p.TableName) + "/" + aws.ToString(p.IndexName) + " " + text(value)
		}
	}
	panic("proof: a query without a partition")
}

// partition is the name of an item's partition in its table.
func partition(table *string, key map[string]types.AttributeValue) string {
	return *table + "/ " + text(key[dynamotable.Layout().PartitionKey])
}

// leastPut is the smallest put in bytes that S3 Vectors charges.
const leastPut = 128 << 10

// vectorBytes is the size of a vector: its numbers, its metadata and its key.
func vectorBytes(v vectors.PutInputVector) int {
	metadata, err := v.Metadata.MarshalSmithyDocument()
	if err != nil {
		panic(err) // it was just sent
	}
	numbers := 4 * len(v.Data.(*vectors.VectorDataMemberFloat32).Value)
	return numbers + len(metadata) + len(aws.ToString(v.Key))
}

// put counts the put of an item; each unit counts times.
func (m *meter) put(table *string, item map[string]types.AttributeValue, times int, done bool) {
	at := itemKey(table, item)
	m.write(partition(table, item), times*max(kilobytes(item), kilobytes(m.stored[at])))
	if done {
		m.indexed(table, m.stored[at], item)
		m.stored[at] = item
	}
}

func (m *meter) delete(table *string, key map[string]types.AttributeValue, times int, done bool) {
	at := itemKey(table, key)
	m.write(partition(table, key), times*kilobytes(m.stored[at]))
	if done {
		m.indexed(table, m.stored[at], nil)
		delete(m.stored, at)
	}
}

// indexed counts the write units of keys-only indexes: one to put an entry, one to remove it (not doubled in a
// transaction).
func (m *meter) indexed(table *string, before, after map[string]types.AttributeValue) {
	for _, index := range dynamotable.Layout().Indexes {
		if text(before[index.PartitionKey]) == text(after[index.PartitionKey]) &&
			text(before[index.SortKey]) == text(after[index.SortKey]) {
			continue
		}
		for _, entry := range []map[string]types.AttributeValue{before, after} {
			if part := text(entry[index.PartitionKey]); part != "" {
				m.write(*table+"/"+index.Name+" "+part, 1)
			}
		}
	}
}

func itemKey(table *string, key map[string]types.AttributeValue) string {
	layout := dynamotable.Layout()
	return strings.Join([]string{*table, text(key[layout.PartitionKey]), text(key[layout.SortKey])}, "\x00")
}

func text(a types.AttributeValue) string {
	if s, ok := a.(*types.AttributeValueMemberS); ok {
		return s.Value
	}
	return ""
}

func kilobytes(item map[string]types.AttributeValue) int { return max(1, (bytesOf(item)+1023)/1024) }

func bytesOf(item map[string]types.AttributeValue) (n int) {
	for name, value := range item {
		n += len(name) + size(value)
	}
	return n
}

// size follows DynamoDB's documentation of item sizes, in bytes; numbers are rounded up.
func size(a types.AttributeValue) int {
	switch a := a.(type) {
	case *types.AttributeValueMemberS:
		return len(a.Value)
	case *types.AttributeValueMemberN:
		return len(a.Value)/2 + 2
	case *types.AttributeValueMemberB:
		return len(a.Value)
	case *types.AttributeValueMemberL:
		n := 3
		for _, one := range a.Value {
			n += size(one) + 1
		}
		return n
	case *types.AttributeValueMemberM:
		n := 3
		for name, one := range a.Value {
			n += len(name) + size(one) + 1
		}
		return n
	default:
		return 1
	}
}

// bill is the counts since the previous bill.
type bill struct {
	Writes, ReadCalls, Sends, Timers, Units int // of table, queue and timer
	ReadUnits                               float64

	ObjectsPut, ObjectsRead                 int
	VectorBytes, VectorQueries, VectorCalls int // vectors put, queries, and other calls of the index
}

func (m *meter) take() bill {
	m.mu.Lock()
	defer m.mu.Unlock()
	var b bill
	for operation, n := range m.calls {
		switch operation {
		case "PutItem", "DeleteItem", "TransactWriteItems":
			b.Writes += n
		case "GetItem", "BatchGetItem", "Query":
			b.ReadCalls += n
		case "PutObject":
			b.ObjectsPut += n
		case "GetObject", "HeadObject":
			b.ObjectsRead += n
		case "PutVectors": // by bytes
		case "QueryVectors":
			b.VectorQueries += n
		case "GetIndex", "CreateIndex", "ListVectors", "GetVectors", "GetVectorBucket":
			b.VectorCalls += n
		case "SendMessage", "SendMessageBatch":
			b.Sends += n
		case "ReceiveMessage", "DeleteMessage": // one of each for a message that is sent
		case "StartExecution", "StopExecution":
			b.Timers += n
		default:
			panic("proof: a call that has no price yet: " + operation)
		}
	}
	b.Units, b.ReadUnits, b.VectorBytes = m.units, m.reads, m.bytes
	m.calls, m.units, m.reads, m.bytes = map[string]int{}, 0, 0, 0
	return b
}
