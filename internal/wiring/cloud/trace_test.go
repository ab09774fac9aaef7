package cloud

import (
	"bytes"
	"compress/gzip"
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	oteltrace "go.opentelemetry.io/otel/trace"

	"agentplatform/internal/platform/host"
	"agentplatform/internal/platform/setting"
	"agentplatform/internal/platform/trace"
)

// traced is a platform that sends its traces to an address, without the parts that traces do not need.
func traced(t *testing.T, endpoint string) (*Platform, *bytes.Buffer) {
	t.Helper()
	var metrics bytes.Buffer
	p := &Platform{
		Settings: setting.Settings{OTLPEndpoint: endpoint, TraceShare: 1}, Log: slog.New(slog.DiscardHandler),
		Cloud:   setting.Cloud{Stage: "test"},
		Host:    host.System(),
		Metrics: NewMetrics(&metrics, "test", time.Now),
		Account: aws.Config{Region: "eu-central-1",
			Credentials: credentials.NewStaticCredentialsProvider("AKID", "SECRET", "SESSION")},
	}
	require.NoError(t, p.trace())
	return p, &metrics
}

// An invocation sends its traces before it ends: a function may be frozen after that.
func TestAnInvocationSendsItsTracesBeforeItEnds(t *testing.T) {
	t.Setenv("AWS_LAMBDA_FUNCTION_NAME", "worker")
	var got []string
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		unpacked, err := gzip.NewReader(r.Body)
		if assert.NoError(t, err) {
			body, _ := io.ReadAll(unpacked)
			got = append(got, string(body))
		}
		assert.Empty(t, r.Header.Get("Authorization"), "a collector is sent no signature")
	}))
	defer receiver.Close()
	p, metrics := traced(t, receiver.URL)
	again, err := p.TraceWakeups(func(ctx context.Context, id string) (time.Duration, error) {
		_, span := trace.StartOf(ctx, id, oteltrace.SpanKindConsumer, "invoke_agent", "")
		span.End()
		return time.Minute, nil
	})(t.Context(), "6925112233445566778899aa")
	require.NoError(t, err)
	assert.Equal(t, time.Minute, again)
	require.Len(t, got, 1)
	for _, part := range []string{"6925112233445566778899aa778899aa", "invoke_agent", `"faas.name"`, `"worker"`} {
		assert.Contains(t, got[0], part)
	}
	p.Requests(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, span := p.Tracer.StartRequest(r.Context(), nil)
		span.Record("GET /").End()
	})).ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/", nil))
	assert.Len(t, got, 2)
	parent := "00-0123456789abcdef0123456789abcdef-0123456789abcdef-01"
	answer, err := p.Asks(func(ctx context.Context, ask []byte) ([]byte, error) {
		_, span := trace.Start(trace.Under(ctx, parent), oteltrace.SpanKindServer, "answer", "")
		span.End()
		return append([]byte("of "), ask...), nil
	}).Invoke(t.Context(), []byte("ask"))
	require.NoError(t, err)
	assert.Equal(t, "of ask", string(answer))
	require.Len(t, got, 3)
	assert.Contains(t, got[2], "0123456789abcdef0123456789abcdef")
	p.FlushTraces(t.Context())
	assert.Len(t, got, 3, "nothing is sent when there is nothing")
	assert.Empty(t, metrics.String())
}

func TestLostSpansAreCounted(t *testing.T) {
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusForbidden)
	}))
	defer receiver.Close()
	p, metrics := traced(t, receiver.URL)
	_, span := p.Tracer.StartRequest(t.Context(), nil)
	span.Record("GET /").End()
	p.FlushTraces(t.Context())
	p.FlushTraces(t.Context())
	assert.Equal(t, 1, strings.Count(metrics.String(), "\n"), metrics.String())
	assert.Contains(t, metrics.String(), `"SpansDropped":1`)
}

func TestWithoutASettingThereAreNoTraces(t *testing.T) {
	p, _ := traced(t, "")
	assert.Nil(t, p.Tracer)
	p.FlushTraces(t.Context())
	stopped, stop := context.WithCancel(t.Context())
	stop()
	p.Report(stopped, RunsAtWork, nil)()
	again, err := p.TraceWakeups(func(context.Context, string) (time.Duration, error) { return time.Minute, nil })(
		t.Context(), "")
	require.NoError(t, err)
	assert.Equal(t, time.Minute, again)
	answer, err := p.Asks(func(_ context.Context, ask []byte) ([]byte, error) { return ask, nil }).Invoke(
		t.Context(), []byte("ask"))
	require.NoError(t, err)
	assert.Equal(t, "ask", string(answer))
	got := httptest.NewRecorder()
	p.Requests(http.NotFoundHandler()).ServeHTTP(got, httptest.NewRequest(http.MethodGet, "/", nil))
	assert.Equal(t, http.StatusNotFound, got.Code)
}

func TestTheRegionOfXRayIsKnownByItsAddress(t *testing.T) {
	for address, want := range map[string]string{
		"https://xray.eu-central-1.amazonaws.com":      "eu-central-1",
		"https://xray.us-east-1.amazonaws.com/":        "us-east-1",
		"https://xray-fips.us-east-1.amazonaws.com":    "us-east-1",
		"https://xray.cn-north-1.amazonaws.com.cn":     "cn-north-1",
		"http://xray.eu-central-1.amazonaws.com":       "",
		"https://xray.eu-central-1.amazonaws.com.evil": "",
		"https://evil.amazonaws.com":                   "",
		"http://localhost:4318":                        "",
		"https://xray.amazonaws.com":                   "",
	} {
		assert.Equal(t, want, XRayRegion(address), address)
	}
}

// A request to X-Ray is signed for its Region, with its body, by the function's own credentials.
func TestRequestsToXRayAreSigned(t *testing.T) {
	r := httptest.NewRequest(http.MethodPost, "https://xray.eu-central-1.amazonaws.com/v1/traces", nil)
	r.Header.Set("Content-Encoding", "gzip")
	sign := signer(credentials.NewStaticCredentialsProvider("AKID", "SECRET", "SESSION"), "eu-central-1")
	require.NoError(t, sign(t.Context(), r, []byte("body")))
	authorization := r.Header.Get("Authorization")
	assert.Contains(t, authorization, "AWS4-HMAC-SHA256 Credential=AKID/")
	assert.Contains(t, authorization, "/eu-central-1/xray/aws4_request")
	assert.Equal(t, "SESSION", r.Header.Get("X-Amz-Security-Token"))
	first := authorization
	require.NoError(t, sign(t.Context(), r, []byte("another")))
	assert.NotEqual(t, first, r.Header.Get("Authorization"))
}
