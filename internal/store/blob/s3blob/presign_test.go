package s3blob_test

import (
	"net/url"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/store/blob/s3blob"
)

// An address sets the headers of its response. It sets none for an empty disposition, which S3 would have to interpret.
func TestAnAddressHasTheHeadersOfItsAnswer(t *testing.T) {
	account := credentials.NewStaticCredentialsProvider("k", "s", "")
	s := s3blob.New(s3.New(s3.Options{Region: "eu-central-1", Credentials: account}), "bucket")
	for disposition, want := range map[string][]string{"attachment; filename=a": {"attachment; filename=a"}, "": nil} {
		address, err := s.PresignGet(t.Context(), "file/1", disposition, "text/plain; charset=utf-8", 5*time.Minute)
		require.NoError(t, err)
		u, err := url.Parse(address)
		require.NoError(t, err)
		q := u.Query()
		assert.Equal(t, want, q["response-content-disposition"])
		assert.Equal(t, []string{"text/plain; charset=utf-8"}, q["response-content-type"])
		assert.Equal(t, "300", q.Get("X-Amz-Expires"))
	}
}
