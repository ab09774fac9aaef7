//go:build integration

package proof_test

import (
	"context"
	"fmt"
	"strings"
	"sync"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/s3vectors"
	vectors "github.com/aws/aws-sdk-go-v2/service/s3vectors/types"
	"github.com/aws/smithy-go/middleware"

	"agentplatform/internal/table/dynamotable"
)

// meter counts calls, and computes the write units that DynamoDB would bill: the units that a local DynamoDB
// reports are unreliable. It must see every write since a table was created, as an index costs according to what
// changes.
type meter struct {
	mu     sync.Mutex
	calls  map[string]int
	units  int
	bytes  int // of vectors with their metadata, as they are put
	stored map[string]map[string]types.AttributeValue
}

func newMeter() *meter {
	return &meter{calls: map[string]int{}, stored: map[string]map[string]types.AttributeValue{}}
}

// into makes the clients of an account count their calls.
func (m *meter) into(account aws.Config) aws.Config {
	account.APIOptions = append(account.APIOptions, func(s *middleware.Stack) error {
		return s.Initialize.Add(middleware.InitializeMiddlewareFunc("meter", func(
			ctx context.Context, in middleware.InitializeInput, next middleware.InitializeHandler,
		) (middleware.InitializeOutput, middleware.Metadata, error) {
			out, data, err := next.HandleInitialize(ctx, in)
			m.count(middleware.GetOperationName(ctx), in.Parameters, err)
			return out, data, err
		}), middleware.After)
	})
	return account
}

func (m *meter) count(operation string, parameters any, err error) {
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
		m.units += m.put(p.TableName, p.Item, done)
	case *dynamodb.DeleteItemInput:
		m.units += m.delete(p.TableName, p.Key, done)
	case *dynamodb.TransactWriteItemsInput:
		for _, action := range p.TransactItems {
			switch {
			case action.Put != nil:
				m.units += 2 * m.put(action.Put.TableName, action.Put.Item, done)
			case action.Delete != nil:
				m.units += 2 * m.delete(action.Delete.TableName, action.Delete.Key, done)
			default:
				m.units += 2
			}
		}
	}
}

// leastPut is what S3 Vectors charges for a put at least, in bytes.
const leastPut = 128 << 10

// vectorBytes is what a vector counts as: its numbers, its metadata and its key.
func vectorBytes(v vectors.PutInputVector) int {
	metadata, err := v.Metadata.MarshalSmithyDocument()
	if err != nil {
		panic(err) // it was just sent
	}
	numbers := 4 * len(v.Data.(*vectors.VectorDataMemberFloat32).Value)
	return numbers + len(metadata) + len(aws.ToString(v.Key))
}

func (m *meter) put(table *string, item map[string]types.AttributeValue, done bool) int {
	at := place(table, item)
	units := max(kilobytes(item), kilobytes(m.stored[at]))
	if done {
		m.units += m.indexed(m.stored[at], item)
		m.stored[at] = item
	}
	return units
}

func (m *meter) delete(table *string, key map[string]types.AttributeValue, done bool) int {
	at := place(table, key)
	units := kilobytes(m.stored[at])
	if done {
		m.units += m.indexed(m.stored[at], nil)
		delete(m.stored, at)
	}
	return units
}

// indexed is the cost of keys-only indexes in write units: one to put an entry, one to remove it (not doubled in a
// transaction).
func (m *meter) indexed(before, after map[string]types.AttributeValue) int {
	units := 0
	for _, index := range dynamotable.Layout().Indexes {
		was := fmt.Sprint(text(before[index.PartitionKey]), "\x00", text(before[index.SortKey]))
		is := fmt.Sprint(text(after[index.PartitionKey]), "\x00", text(after[index.SortKey]))
		if was == is {
			continue
		}
		for _, entry := range []string{was, is} {
			if entry != "\x00" {
				units++
			}
		}
	}
	return units
}

func place(table *string, key map[string]types.AttributeValue) string {
	layout := dynamotable.Layout()
	return strings.Join([]string{*table, text(key[layout.PartitionKey]), text(key[layout.SortKey])}, "\x00")
}

func text(a types.AttributeValue) string {
	if s, ok := a.(*types.AttributeValueMemberS); ok {
		return s.Value
	}
	return ""
}

func kilobytes(item map[string]types.AttributeValue) int {
	n := 0
	for name, value := range item {
		n += len(name) + size(value)
	}
	return max(1, (n+1023)/1024)
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

// bill is what was counted since the previous bill.
type bill struct {
	Writes, Reads, Sends, Timers, Units int // of table, queue and timer

	ObjectsPut, ObjectsRead                 int
	VectorBytes, VectorQueries, VectorCalls int // what is put, asked, and other calls of the index
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
			b.Reads += n
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
	b.Units, b.VectorBytes = m.units, m.bytes
	m.calls, m.units, m.bytes = map[string]int{}, 0, 0
	return b
}
