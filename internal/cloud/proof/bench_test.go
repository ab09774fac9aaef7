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

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/kms"
	"github.com/aws/aws-sdk-go-v2/service/sfn"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/awstest"
	"agentplatform/internal/cloud"
	"agentplatform/internal/cloud/edge"
	"agentplatform/internal/cloud/work"
	"agentplatform/internal/egress"
	"agentplatform/internal/record"
	"agentplatform/internal/setting"
	"agentplatform/internal/tenant"
	"agentplatform/internal/timer/sfntimer"
	"agentplatform/internal/webhook"
	"agentplatform/internal/worker"
)

type bench struct {
	*testing.T
	*cloud.Platform
	direct aws.Config // without the proxy
	worker *worker.Worker
	sender *webhook.Sender
	url    string
	first  tenant.First
	hook   string // a webhook receiver's address
}

// open wires everything for AWS with new resources. Through, which may be nil, changes the clients' configuration.
func open(t *testing.T, through func(aws.Config) aws.Config, settings ...string) *bench {
	t.Helper()
	receiver := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusNoContent)
	}))
	t.Cleanup(receiver.Close)
	host := strings.TrimPrefix(receiver.URL, "https://")
	b := &bench{T: t, hook: receiver.URL}
	account := awstest.Config(t)
	db, queues := dynamodb.NewFromConfig(account), sqs.NewFromConfig(account)
	run := awstest.Queue(t, queues)
	read, err := setting.Read(append(settings, "WEBHOOK_ALLOW_HOSTS="+host, "WEBHOOK_SECRET=s"))
	require.NoError(t, err)
	resources, err := setting.ReadCloud([]string{
		"CORE_TABLE=" + awstest.Table(t, db), "FEED_TABLE=" + awstest.Table(t, db),
		"BUCKET=" + awstest.Bucket(t, awstest.S3(t)), "RUN_QUEUE_URL=" + run,
		"WEBHOOK_QUEUE_URL=" + awstest.Queue(t, queues), "JOB_QUEUE_URL=" + awstest.Queue(t, queues),
		"PAUSE_MACHINE_ARN=" + awstest.StateMachine(t, sfn.NewFromConfig(account), sfntimer.Definition(run)),
		"CACHE_LIFE=5m",
		"SEALING_KEY=" + awstest.Key(t, kms.NewFromConfig(account)),
	})
	require.NoError(t, err)
	b.direct = account
	if through != nil {
		account = through(account)
	}
	p, err := cloud.New(t.Context(), account, read, resources, slog.New(slog.DiscardHandler), io.Discard)
	require.NoError(t, err)
	b.Platform = p
	handler, err := edge.New(p, 0)
	require.NoError(t, err)
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	b.url = server.URL + "/api/v1"
	b.worker, err = work.New(t.Context(), p)
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
	r, err := http.NewRequestWithContext(b.Context(), http.MethodPost, b.url+path, body)
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

// run sends a message and has the worker execute it until it pauses or ends.
func (b *bench) run(fields ...string) string {
	b.Helper()
	var form bytes.Buffer
	w := multipart.NewWriter(&form)
	for i, fields := 0, append(fields, "agent_id", b.first.Agent.ID, "wait", "false"); i+1 < len(fields); i += 2 {
		require.NoError(b, w.WriteField(fields[i], fields[i+1]))
	}
	require.NoError(b, w.Close())
	id, _ := b.post("/chat", w.FormDataContentType(), &form, http.StatusAccepted)["run_id"].(string)
	require.NoError(b, b.worker.Handle(b.Context(), id))
	return id
}

func (b *bench) ended(id string) record.Run {
	b.Helper()
	e, err := b.Store.Run(context.WithoutCancel(b.Context()), record.System(), id)
	require.NoError(b, err)
	require.Equal(b, "completed", string(e.Value.Status))
	return e.Value
}
