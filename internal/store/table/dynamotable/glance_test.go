package dynamotable_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/store/table"
	"agentplatform/internal/store/table/dynamotable"
)

// batches is a DynamoDB whose calls each process at most so many keys. Every item exists in version 7; an item of an
// odd number has expired.
type batches struct {
	dynamotable.API

	most  int
	sizes []int
	last  types.KeysAndAttributes
}

func (b *batches) BatchGetItem(_ context.Context, in *dynamodb.BatchGetItemInput,
	_ ...func(*dynamodb.Options)) (*dynamodb.BatchGetItemOutput, error) {
	b.last = in.RequestItems["t"]
	b.sizes = append(b.sizes, len(b.last.Keys))
	out := &dynamodb.BatchGetItemOutput{Responses: map[string][]map[string]types.AttributeValue{}}
	for i, k := range b.last.Keys {
		if i >= b.most {
			out.UnprocessedKeys = map[string]types.KeysAndAttributes{"t": {Keys: b.last.Keys[i:]}}
			break
		}
		item := map[string]types.AttributeValue{"pk": k["pk"], "sk": k["sk"],
			"version": &types.AttributeValueMemberN{Value: "7"}}
		if sort, _ := k["sk"].(*types.AttributeValueMemberS); sort.Value[len(sort.Value)-1]%2 == 1 {
			item["expires"] = &types.AttributeValueMemberS{Value: "2001-01-01T00:00:00.000000000Z"}
		}
		out.Responses["t"] = append(out.Responses["t"], item)
	}
	return out, nil
}

func keys(n int) (list []table.Key) {
	for i := range n {
		list = append(list, table.Key{Part: "p", Sort: fmt.Sprintf("%04d", i)})
	}
	return list
}

func TestPollTakesAHundredKeysACallAndAsksAgainForTheRest(t *testing.T) {
	b := &batches{most: 60}
	marks, err := dynamotable.New(b, "t", time.Now).Poll(t.Context(), append(keys(150), keys(150)...)...)
	require.NoError(t, err)
	assert.Equal(t, []int{100, 40, 50}, b.sizes, "each key is asked for once")
	assert.Equal(t, "#p, #s, #v, #e", aws.ToString(b.last.ProjectionExpression), "not the bodies")
	assert.False(t, aws.ToBool(b.last.ConsistentRead))
	require.Len(t, marks, 300)
	for i, mark := range marks {
		want := table.Mark{There: i%2 == 0}
		if want.There {
			want.Version = 7
		}
		assert.Equal(t, want, mark, i)
	}
}

func TestPollGivesUpOnWhatIsNeverProcessed(t *testing.T) {
	b := &batches{}
	_, err := dynamotable.New(b, "t", time.Now).Poll(t.Context(), keys(3)...)
	assert.True(t, table.IsKind(err, table.Throttled), "%v", err)
	assert.Len(t, b.sizes, 16)
}
