package cloud_test

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/platform/problem"
	"agentplatform/internal/platform/setting"
	"agentplatform/internal/store/record"
	"agentplatform/internal/wiring/cloud"
)

// throttled is a DynamoDB with empty tables that refuses all calls from some time on. It counts the calls since then.
type throttled struct {
	on    bool
	calls int
}

func (d *throttled) Do(*http.Request) (*http.Response, error) {
	answer := &http.Response{StatusCode: http.StatusOK, Header: http.Header{}}
	body := `{"Responses":{},"UnprocessedKeys":{}}`
	if d.on {
		d.calls++
		answer.StatusCode = http.StatusBadRequest
		body = `{"__type":"com.amazonaws.dynamodb.v20120810#ProvisionedThroughputExceededException"}`
	}
	answer.Body = io.NopCloser(strings.NewReader(body))
	return answer, nil
}

// A client gets a retry answer after about a second, not after the half minute at which API Gateway ends the request.
// Only the store retries: retries of the SDK below it would multiply both the calls and the waiting.
func TestAThrottledTableIsGivenUpSoon(t *testing.T) {
	settings, err := setting.Read(nil)
	require.NoError(t, err)
	resources := setting.Cloud{CoreTable: "core", StreamTable: "feed", CacheLife: time.Minute}
	for name, ask := range map[string]func(context.Context, *cloud.Platform) error{
		"a read": func(ctx context.Context, p *cloud.Platform) error {
			_, err := p.Store.Run(ctx, record.System(), "r")
			return err
		},
		"a remembered read": func(ctx context.Context, p *cloud.Platform) error {
			_, err := record.FindRunToken(ctx, p.Cached, "k")
			return err
		},
		"a list": func(ctx context.Context, p *cloud.Platform) error {
			_, err := p.Store.Due(ctx, 0, p.Host.Now(), 1)
			return err
		},
		"a write": func(ctx context.Context, p *cloud.Platform) error {
			tx := p.Store.Begin("w")
			tx.PutRunToken("h", record.RunToken{Organization: "o"})
			return tx.Commit(ctx)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				db := &throttled{}
				p, err := cloud.New(t.Context(), aws.Config{
					Region: "eu-central-1", HTTPClient: db,
					Credentials: credentials.NewStaticCredentialsProvider("a", "b", ""),
				}, settings, resources, cloud.ReadWrite, slog.New(slog.DiscardHandler), io.Discard)
				require.NoError(t, err)
				db.on = true
				began := p.Host.Elapsed()
				err = ask(t.Context(), p)
				refusal, ok := problem.As(err)
				require.True(t, ok, "%v", err)
				assert.Equal(t, problem.Unavailable, refusal.Kind, "HTTP answers 503")
				assert.Positive(t, refusal.RetryAfter)
				assert.Equal(t, 8, db.calls, "the store's tries")
				assert.Less(t, p.Host.Elapsed()-began, 2*time.Second, "all waiting together, in virtual time")
			})
		})
	}
}
