package lambdareader_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/text/reader/lambdareader"
)

// line leads to a function of an account whose other calls have short limits.
func line(t *testing.T, h http.HandlerFunc) func(context.Context, []byte) ([]byte, error) {
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return lambdareader.Line(aws.Config{
		HTTPClient: awshttp.NewBuildableClient().WithTimeout(short),
		Region:     "eu-central-1", BaseEndpoint: &s.URL,
		Credentials: credentials.NewStaticCredentialsProvider("a", "b", ""),
	}, "reader")
}

// Where no concurrency is left, it is asked again.
func TestAnAskIsRepeated(t *testing.T) {
	var requests atomic.Int64
	l := line(t, func(w http.ResponseWriter, r *http.Request) {
		assert.Equal(t, "POST /2015-03-31/functions/reader/invocations", r.Method+" "+r.URL.Path)
		assert.Equal(t, "RequestResponse", r.Header.Get("X-Amz-Invocation-Type"))
		if requests.Add(1) == 1 {
			w.Header().Set("X-Amzn-Errortype", "TooManyRequestsException")
			w.WriteHeader(http.StatusTooManyRequests)
			return
		}
		ask, err := io.ReadAll(r.Body)
		assert.NoError(t, err)
		_, _ = w.Write(append([]byte("answer to "), ask...))
	})
	answer, err := l(t.Context(), []byte("ask"))
	require.NoError(t, err)
	assert.Equal(t, "answer to ask", string(answer))
	assert.Equal(t, int64(2), requests.Load())
}

// short is less than reading a file takes.
const short = 50 * time.Millisecond

// A file may take longer than other calls, and is not requested a second time meanwhile.
func TestAnAnswerTakesItsTime(t *testing.T) {
	var requests atomic.Int64
	l := line(t, func(w http.ResponseWriter, r *http.Request) {
		requests.Add(1)
		select {
		case <-time.After(10 * short):
		case <-r.Context().Done():
		}
		_, _ = io.WriteString(w, "answer")
	})
	answer, err := l(t.Context(), []byte("ask"))
	require.NoError(t, err)
	assert.Equal(t, "answer", string(answer))
	assert.Equal(t, int64(1), requests.Load())
}

// A function that died has decided nothing.
func TestAFunctionThatFailedIsAnError(t *testing.T) {
	l := line(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-Amz-Function-Error", "Unhandled")
		_, _ = io.WriteString(w, `{"errorMessage":"it died"}`)
	})
	_, err := l(t.Context(), []byte("ask"))
	require.ErrorContains(t, err, "it died")
}
