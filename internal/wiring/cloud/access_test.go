package cloud_test

import (
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/platform/setting"
	"agentplatform/internal/wiring/cloud"
)

// emptyTable answers like DynamoDB if the tables are empty and the role may only read.
type emptyTable struct {
	mu    sync.Mutex
	calls []string
}

func (e *emptyTable) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	e.mu.Lock()
	defer e.mu.Unlock()
	call := r.Header.Get("X-Amz-Target")
	e.calls = append(e.calls, call)
	w.Header().Set("Content-Type", "application/x-amz-json-1.0")
	switch call {
	case "DynamoDB_20120810.GetItem":
		_, _ = io.WriteString(w, `{}`)
	case "DynamoDB_20120810.BatchGetItem":
		_, _ = io.WriteString(w, `{"Responses":{},"UnprocessedKeys":{}}`)
	default:
		w.WriteHeader(http.StatusBadRequest)
		_ = json.NewEncoder(w).Encode(map[string]string{
			"__type":  "com.amazon.coral.service#AccessDeniedException",
			"Message": "User is not authorized to perform: dynamodb:PutItem",
		})
	}
}

// The first start of the stream service may come before any data is stored: its role cannot write.
func TestAProgramThatOnlyReadsStartsAtAnEmptyStore(t *testing.T) {
	db := &emptyTable{}
	server := httptest.NewServer(db)
	t.Cleanup(server.Close)
	account := aws.Config{
		Region: "eu-central-1", BaseEndpoint: aws.String(server.URL),
		Credentials: credentials.NewStaticCredentialsProvider("a", "b", ""),
	}
	settings, err := setting.Read(nil)
	require.NoError(t, err)
	resources := setting.Cloud{CoreTable: "core", StreamTable: "feed"}
	open := func(access cloud.Access) error {
		_, err := cloud.New(t.Context(), account, settings, resources, access, slog.New(slog.DiscardHandler),
			io.Discard)
		return err
	}
	require.NoError(t, open(cloud.ReadOnly))
	assert.Equal(t, []string{"DynamoDB_20120810.BatchGetItem"}, db.calls, "one read, no write")
	require.ErrorContains(t, open(cloud.ReadWrite), "AccessDenied", "the role is as it says")
}
