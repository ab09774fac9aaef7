package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/lambda"
	"github.com/aws/aws-sdk-go-v2/service/secretsmanager"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// functions implements the operations of Lambda, SQS and Secrets Manager that the command uses. It has functions with
// their tags and reserved concurrency. It also has the reading of their queues, which takes a while to change.
type functions struct {
	tags     map[string]map[string]string
	own      map[string]int
	read     map[string]bool // by mapping
	changing map[string]int  // how often a mapping is still reported as changing
	refused  bool            // a queue was read while a function was stopped, so that attempts were wasted
	secret   string
}

func (f *functions) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	path, _ := url.PathUnescape(r.URL.EscapedPath())
	parts := strings.Split(strings.Trim(path, "/"), "/")
	last := parts[len(parts)-1]
	defer f.observe()
	name := last[strings.LastIndex(last, ":")+1:]
	mapping := func(id string) map[string]any {
		state := map[bool]string{true: "Enabled", false: "Disabled"}[f.read[id]]
		if f.changing[id] > 0 {
			f.changing[id]--
			state = "Disabling"
		}
		return map[string]any{"UUID": id, "State": state}
	}
	var out any = map[string]any{}
	switch target := r.Header.Get("X-Amz-Target"); {
	case strings.HasSuffix(target, "GetQueueAttributes"):
		var in struct{ QueueUrl string }
		_ = json.Unmarshal(body, &in)
		out = map[string]any{"Attributes": map[string]string{"QueueArn": "arn:" + in.QueueUrl}}
	case strings.HasSuffix(target, "GetSecretValue"):
		out = map[string]any{"SecretString": f.secret}
	case strings.HasSuffix(target, "PutSecretValue"):
		var in struct{ SecretString string }
		_ = json.Unmarshal(body, &in)
		f.secret = in.SecretString
	case strings.Contains(path, "/tags/") && r.Method == http.MethodPost:
		var in struct{ Tags map[string]string }
		_ = json.Unmarshal(body, &in)
		f.tags[name] = in.Tags
	case strings.Contains(path, "/tags/"):
		delete(f.tags[name], r.URL.Query().Get("tagKeys"))
	case strings.HasSuffix(path, "/concurrency") && r.Method == http.MethodPut:
		var in struct{ ReservedConcurrentExecutions int }
		_ = json.Unmarshal(body, &in)
		f.own[parts[len(parts)-2]] = in.ReservedConcurrentExecutions
	case strings.HasSuffix(path, "/concurrency"):
		delete(f.own, parts[len(parts)-2])
	case strings.HasSuffix(path, "/event-source-mappings"):
		out = map[string]any{"EventSourceMappings": []any{mapping(r.URL.Query().Get("EventSourceArn"))}}
	case strings.Contains(path, "/event-source-mappings/") && r.Method == http.MethodPut:
		id := strings.SplitN(path, "/event-source-mappings/", 2)[1]
		if f.changing[id] > 0 {
			w.Header().Set("X-Amzn-ErrorType", "ResourceInUseException")
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		var in struct{ Enabled bool }
		_ = json.Unmarshal(body, &in)
		if f.read[id] != in.Enabled {
			f.read[id], f.changing[id] = in.Enabled, 1
		}
	case strings.Contains(path, "/event-source-mappings/"):
		out = mapping(strings.SplitN(path, "/event-source-mappings/", 2)[1])
	case strings.HasSuffix(path, "/configuration"):
		out = map[string]any{"Environment": map[string]any{"Variables": map[string]string{"SECRETS_ARN": "arn:secret"}}}
	default: // GetFunction
		of := map[string]any{"Configuration": map[string]string{"FunctionName": name,
			"FunctionArn": "arn:aws:lambda:" + name},
			"Tags": f.tags[name]}
		if part, there := f.own[name]; there {
			of["Concurrency"] = map[string]int{"ReservedConcurrentExecutions": part}
		}
		out = of
	}
	_ = json.NewEncoder(w).Encode(out)
}

// observe records whether a queue is read for a stopped function. A mapping that is changing still reads.
func (f *functions) observe() {
	stopped, read := false, false
	for _, part := range f.own {
		stopped = stopped || part == 0
	}
	for id, enabled := range f.read {
		read = read || enabled || f.changing[id] > 0
	}
	f.refused = f.refused || stopped && read
}

func (f *functions) operator(t *testing.T) (*operator, *bytes.Buffer) {
	account, out := clientConfig(t, f), &bytes.Buffer{}
	o := &operator{out: out, lambdas: lambda.NewFromConfig(account), queues: sqs.NewFromConfig(account),
		secrets: secretsmanager.NewFromConfig(account),
		outputs: map[string]string{"WorkerFunctionName": "worker", "ApiFunctionName": "api", "CoreTable": "core"}}
	for _, q := range []string{"Run", "Webhook", "Job", "Ingest"} {
		o.outputs[q+"QueueAddress"], o.outputs[q+"DeadAddress"] = "queue-"+q, "dead-"+q
		f.read["arn:queue-"+q] = true
	}
	return o, out
}

func stage() *functions {
	return &functions{tags: map[string]map[string]string{}, own: map[string]int{"worker": 400}, read: map[string]bool{},
		changing: map[string]int{}, secret: `{"WEBHOOK_SECRET":"one","OPENAI_API_KEY":"two"}`}
}

func TestStoppedFunctionsStartWithWhatWasTheirOwn(t *testing.T) {
	f := stage()
	o, out := f.operator(t)
	require.NoError(t, o.halt(t.Context(), true, "functions"))
	assert.Contains(t, out.String(), "add -do")
	assert.Equal(t, map[string]int{"worker": 400}, f.own, "nothing is done without -do")

	o.do = true
	for range 2 { // again, after a failure
		require.NoError(t, o.halt(t.Context(), true, "functions"))
		assert.Equal(t, map[string]int{"worker": 0, "api": 0}, f.own)
		assert.False(t, f.read["arn:queue-Run"], "queues are not read")
	}
	for range 2 {
		require.NoError(t, o.halt(t.Context(), false, "functions"))
		assert.Equal(t, map[string]int{"worker": 400}, f.own, "the other one had none")
		assert.True(t, f.read["arn:queue-Ingest"])
		assert.NotContains(t, fmt.Sprint(f.tags), partBefore)
	}
	assert.False(t, f.refused, "a queue is read only while its function runs")
	assert.Contains(t, out.String(), "Worker was not stopped")
	assert.Error(t, o.halt(t.Context(), true, "everything"))
}

func TestASecretIsSetAmongOthers(t *testing.T) {
	f := stage()
	o, out := f.operator(t)
	require.NoError(t, o.secret(t.Context(), "OPENAI_API_KEY", strings.NewReader("new\n")))
	assert.JSONEq(t, stage().secret, f.secret, "nothing is done without -do")
	o.do = true
	require.NoError(t, o.secret(t.Context(), "OPENAI_API_KEY", strings.NewReader("new\n")))
	assert.JSONEq(t, `{"WEBHOOK_SECRET":"one","OPENAI_API_KEY":"new"}`, f.secret)
	assert.NotContains(t, out.String(), "new", "it is not said")
	require.Error(t, o.secret(t.Context(), "OPENAI_API_KEY", strings.NewReader(" \n")))
	require.Error(t, o.secret(t.Context(), "OPENAI_API_KEY", strings.NewReader(strings.Repeat("a", maxSecret+1))))
	require.ErrorContains(t, o.secret(t.Context(), "RATE_LIMIT", strings.NewReader("1")), "WEBHOOK_SECRET")
}
