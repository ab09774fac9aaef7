package dynamotable_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/store/table"
	"agentplatform/internal/store/table/dynamotable"
)

// answering is a table at a DynamoDB that answers each call with a status and a body. The last bytes of the body, as
// many as lost, do not arrive.
func answering(t *testing.T, status int, body string, lost int) *dynamotable.Table {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", strconv.Itoa(len(body)+lost))
		w.WriteHeader(status)
		_, _ = w.Write([]byte(body)) // the server closes a connection with an incomplete response
	}))
	t.Cleanup(server.Close)
	return dynamotable.New(dynamodb.New(dynamodb.Options{
		Region: "eu-central-1", BaseEndpoint: &server.URL, Credentials: aws.AnonymousCredentials{},
		RetryMaxAttempts: 1, Retryer: aws.NopRetryer{},
	}), "t", time.Now)
}

// bug is a failure that no table's error describes: it is not retried.
const bug table.Kind = -1

// The error of a failed call, of a write and of a read.
func TestWhatAnswersMean(t *testing.T) {
	const named = `{"__type":"com.amazonaws.dynamodb.v20120810#%s","message":"m"}`
	for _, c := range []struct {
		name        string
		status      int
		body        string
		lost        int
		write, read table.Kind
	}{
		{"refused as invalid", 400, fmt.Sprintf(named, "ValidationException"), 0, bug, bug},
		{"no right", 400, fmt.Sprintf(named, "AccessDeniedException"), 0, bug, bug},
		{"too many", 400, fmt.Sprintf(named, "ThrottlingException"), 0, table.Throttled, table.Throttled},
		{"another transaction", 400, fmt.Sprintf(named, "TransactionConflictException"), 0, table.Contended, bug},
		{"in progress", 400, fmt.Sprintf(named, "TransactionInProgressException"), 0, table.Unknown, bug},
		{"a refusal that is cut off", 400, `{"__type":"com.amazonaws.dynamodb.`, 40, table.Unknown, table.Down},
		{"a refusal without its body", 400, "", 40, table.Unknown, table.Down},
		{"a refusal of something else", 400, "<html>no</html>", 0, table.Unknown, table.Down},
		{"an answer that is cut off", 200, `{`, 40, table.Unknown, table.Down},
		{"an error of the server", 500, fmt.Sprintf(named, "InternalServerError"), 0, table.Unknown, table.Down},
	} {
		t.Run(c.name, func(t *testing.T) {
			at := answering(t, c.status, c.body, c.lost)
			item := table.Item{Key: table.Key{Part: "p", Sort: "s"}, Owner: "o", WriteID: "w", Body: []byte("{}")}
			other := item
			other.Sort = "s2"
			one := table.Put(item, table.Always())
			err := at.Commit(t.Context(), "w", one)
			require.Error(t, err)
			assert.Equal(t, c.write, kind(err), "one item")
			err = at.Commit(t.Context(), "w", one, table.Put(other, table.Always()))
			require.Error(t, err)
			assert.Equal(t, c.write, kind(err), "two items")
			_, err = at.Get(t.Context(), item.Key)
			require.Error(t, err)
			assert.Equal(t, c.read, kind(err))
			_, err = at.Query(t.Context(), table.Range{Part: "p", Limit: 1})
			require.Error(t, err)
			assert.Equal(t, c.read, kind(err))
		})
	}
}

func kind(err error) table.Kind {
	if failed, ok := errors.AsType[*table.Error](err); ok {
		return failed.Kind
	}
	return bug
}
