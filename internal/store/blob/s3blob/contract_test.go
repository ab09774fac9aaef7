//go:build integration

package s3blob_test

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/proof/awstest"
	"agentplatform/internal/store/blob"
	"agentplatform/internal/store/blob/blobtest"
	"agentplatform/internal/store/blob/s3blob"
)

func TestContract(t *testing.T) {
	client := awstest.S3(t)
	blobtest.Run(t, func(t *testing.T) blob.Store { return s3blob.New(client, awstest.Bucket(t, client)) })
}

func TestClientUploadsAndDownloadsByPresignedURLs(t *testing.T) {
	client := awstest.S3(t)
	s := s3blob.New(client, awstest.Bucket(t, client))
	url, headers, err := s.PresignPut(t.Context(), "file/1", "text/plain", 5, time.Minute)
	require.NoError(t, err)
	send := func(body string) int {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPut, url, strings.NewReader(body))
		require.NoError(t, err)
		for name, value := range headers {
			r.Header.Set(name, value)
		}
		answer, err := http.DefaultClient.Do(r)
		require.NoError(t, err)
		require.NoError(t, answer.Body.Close())
		return answer.StatusCode
	}
	require.Equal(t, http.StatusOK, send("hello"), "%s %v", url, headers)
	assert.Equal(t, http.StatusPreconditionFailed, send("again"), "a presigned URL is valid for one upload")
	n, err := s.Size(t.Context(), "file/1")
	require.NoError(t, err)
	assert.EqualValues(t, 5, n)

	read, err := s.PresignGet(t.Context(), "file/1", `attachment; filename="a.txt"`, "text/plain", time.Minute)
	require.NoError(t, err)
	answer, err := http.Get(read) //nolint:noctx // a test
	require.NoError(t, err)
	defer func() { _ = answer.Body.Close() }()
	body, err := io.ReadAll(answer.Body)
	require.NoError(t, err)
	assert.Equal(t, "hello", string(body))
	assert.Equal(t, `attachment; filename="a.txt"`, answer.Header.Get("Content-Disposition"))
	_, err = s.Size(t.Context(), "file/2")
	require.ErrorIs(t, err, blob.ErrMissing)
}
