//go:build integration

// Package proof_test checks properties of the service as it is wired for AWS: what a run costs, and which
// invariants hold while any call may fail.
package proof_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/kms"
	"github.com/aws/aws-sdk-go-v2/service/s3vectors"
	"github.com/aws/aws-sdk-go-v2/service/sfn"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/api/httpapi/service"
	"agentplatform/internal/knowledge/ingest"
	"agentplatform/internal/org/tenant"
	"agentplatform/internal/platform/egress"
	"agentplatform/internal/platform/setting"
	"agentplatform/internal/proof/awstest"
	"agentplatform/internal/proof/vectorserver"
	"agentplatform/internal/run/webhook"
	"agentplatform/internal/run/worker"
	"agentplatform/internal/store/record"
	"agentplatform/internal/store/timer/sfntimer"
	"agentplatform/internal/text/extract"
	"agentplatform/internal/wiring/cloud"
	"agentplatform/internal/wiring/cloud/httpedge"
	"agentplatform/internal/wiring/cloud/runworker"
	"agentplatform/internal/wiring/cloud/search"
)

type bench struct {
	*testing.T
	*cloud.Platform
	direct aws.Config // without the proxy
	worker *worker.Worker
	sender *webhook.Sender

	ingester *ingest.Ingester
	url      string
	first    tenant.First
	hook     string // a webhook receiver's address
}

// open wires everything for AWS with new resources. through, which may be nil, changes the clients' configuration.
func open(t *testing.T, through func(aws.Config) aws.Config, settings ...string) *bench {
	t.Helper()
	receiver := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusNoContent)
	}))
	t.Cleanup(receiver.Close)
	host := strings.TrimPrefix(receiver.URL, "https://")
	b := &bench{T: t, hook: receiver.URL}
	vectors := httptest.NewServer(&vectorserver.Server{})
	t.Cleanup(vectors.Close)
	t.Setenv("AWS_ENDPOINT_URL_S3VECTORS", vectors.URL)
	account := awstest.Config(t)
	db, queues := dynamodb.NewFromConfig(account), sqs.NewFromConfig(account)
	run := awstest.Queue(t, queues)
	// With so large a burst no request writes the use of its key for other functions.
	read, err := setting.Read(append([]string{"RATE_BURST=1000000", "KEY_CHATS=100", "WEBHOOK_ALLOW_HOSTS=" + host,
		"WEBHOOK_SECRET=s"}, settings...))
	require.NoError(t, err)
	resources, err := setting.ReadCloud([]string{
		"CORE_TABLE=" + awstest.Table(t, db), "FEED_TABLE=" + awstest.Table(t, db),
		"BUCKET=" + awstest.Bucket(t, awstest.S3(t)), "RUN_QUEUE_URL=" + run,
		"WEBHOOK_QUEUE_URL=" + awstest.Queue(t, queues), "JOB_QUEUE_URL=" + awstest.Queue(t, queues),
		"INGEST_QUEUE_URL=" + awstest.Queue(t, queues), "VECTOR_BUCKET=vectors",
		"PAUSE_MACHINE_ARN=" + awstest.StateMachine(t, sfn.NewFromConfig(account), sfntimer.Definition(run)),
		"CACHE_LIFE=5m",
		"SEALING_KEY=" + awstest.Key(t, kms.NewFromConfig(account)),
	})
	require.NoError(t, err)
	b.direct = account
	if through != nil {
		account = through(account)
	}
	p, err := cloud.New(t.Context(), account, read, resources, cloud.ReadWrite,
		slog.New(slog.DiscardHandler), io.Discard)
	require.NoError(t, err)
	b.Platform = p
	_, err = s3vectors.NewFromConfig(b.direct).CreateVectorBucket(t.Context(),
		&s3vectors.CreateVectorBucketInput{VectorBucketName: aws.String("vectors")})
	require.NoError(t, err)
	known, err := search.New(t.Context(), p, nil)
	require.NoError(t, err)
	b.ingester = &ingest.Ingester{Knowledge: known, Log: p.Log, Deadline: time.Hour, Extract: extract.Document}
	handler, err := httpedge.New(p, 14*time.Minute, func(c *service.Config) { c.Knowledge = known })
	require.NoError(t, err)
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	b.url = server.URL + "/api/v1"
	p.Cloud.Reader = "reader" // it does not exist: the runs here have no files
	b.worker, err = runworker.New(t.Context(), p)
	require.NoError(t, err)
	b.sender = &webhook.Sender{
		Store: p.Store, Host: p.Host, Log: p.Log, Secret: "s", Sealer: p.Sealer,
		Client: egress.Policy{Allow: []string{host},
			Roots: receiver.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs}.Client(0),
	}
	b.first, err = p.Tenants.Bootstrap(t.Context())
	require.NoError(t, err)
	return b
}

func (b *bench) post(path, kind string, body io.Reader, want int) map[string]any {
	b.Helper()
	return b.call(http.MethodPost, path, kind, body, want)
}

func (b *bench) call(method, path, kind string, body io.Reader, want int) map[string]any {
	b.Helper()
	r, err := http.NewRequestWithContext(b.Context(), method, b.url+path, body)
	require.NoError(b, err)
	r.Header.Set("Authorization", "Bearer "+b.first.Key)
	r.Header.Set("Content-Type", kind)
	response, err := http.DefaultClient.Do(r)
	require.NoError(b, err)
	defer func() { _ = response.Body.Close() }()
	raw, err := io.ReadAll(response.Body)
	require.NoError(b, err)
	require.Equal(b, want, response.StatusCode, string(raw))
	var answer map[string]any
	require.NoError(b, json.Unmarshal(raw, &answer))
	return answer
}

// run sends a message, and lets the worker execute it until it pauses or ends.
func (b *bench) run(fields ...string) string {
	b.Helper()
	body, kind := form(append(fields, "agent_id", b.first.Agent.ID, "wait", "false")...)
	id, _ := b.post("/chat", kind, body, http.StatusAccepted)["run_id"].(string)
	require.NoError(b, b.worker.Handle(b.Context(), id))
	return id
}

// form is a form of names and values, and its content type.
func form(fields ...string) (body io.Reader, kind string) {
	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	for i := 0; i+1 < len(fields); i += 2 {
		_ = w.WriteField(fields[i], fields[i+1]) // a buffer accepts everything
	}
	_ = w.Close()
	return &b, w.FormDataContentType()
}

// document adds a document, and lets the ingester process it to its end.
func (b *bench) document(base, text string) {
	b.Helper()
	body, err := json.Marshal(map[string]any{"title": "a", "text": text})
	require.NoError(b, err)
	path := "/knowledge-bases/" + base + "/documents"
	id, _ := b.post(path, "application/json", bytes.NewReader(body), http.StatusCreated)["document_id"].(string)
	again, err := b.ingester.Handle(b.Context(), id)
	require.NoError(b, err)
	require.Zero(b, again)
}

func (b *bench) ended(id string) record.Run {
	b.Helper()
	e, err := b.Store.Run(context.WithoutCancel(b.Context()), record.System(), id)
	require.NoError(b, err)
	require.Equal(b, "completed", string(e.Value.Status))
	return e.Value
}
