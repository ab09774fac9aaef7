// Package bedrockembedding implements the embedding port with Amazon Bedrock's InvokeModel: Amazon Titan Text
// Embeddings V2 and Cohere Embed 3 and 4.
//
// A model's name is a model id or the id of an inference profile of one (eu.cohere.embed-v4:0). Retries are the
// caller's. The package must not know documents or indexes. It imports its port, providerhttp and the AWS SDK.
package bedrockembedding

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsmiddleware "github.com/aws/aws-sdk-go-v2/aws/middleware"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/service/bedrockruntime"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"agentplatform/internal/ai/embedding"
	"agentplatform/internal/ai/providerhttp"
)

// Model calls Bedrock in one Region. It is safe for concurrent use.
type Model struct{ client *bedrockruntime.Client }

// New makes the model from the configuration of an AWS account.
func New(account aws.Config) *Model {
	return &Model{bedrockruntime.NewFromConfig(account,
		func(o *bedrockruntime.Options) { o.Retryer = aws.NopRetryer{} })}
}

// Embed calls Bedrock, in as many requests as the model needs.
func (m *Model) Embed(ctx context.Context, r embedding.Request) (embedding.Reply, error) {
	f, err := familyOf(r)
	if err != nil {
		return embedding.Reply{}, err
	}
	return embedding.InBatches(ctx, r, f.limits,
		func(ctx context.Context, r embedding.Request) (embedding.Reply, error) { return m.call(ctx, f, r) })
}

// call makes one request. Its error may be shown.
func (m *Model) call(ctx context.Context, f family, r embedding.Request) (embedding.Reply, error) {
	body, err := json.Marshal(f.request(r))
	if err != nil {
		return embedding.Reply{}, embedding.Fail(embedding.BadRequest, "the request cannot be written: %w", err)
	}
	out, err := m.client.InvokeModel(ctx, &bedrockruntime.InvokeModelInput{
		ModelId: &r.Name, Body: body,
		ContentType: aws.String("application/json"), Accept: aws.String("application/json"),
	}, func(o *bedrockruntime.Options) { o.HTTPClient = bounded{o.HTTPClient, r} })
	if err != nil {
		return embedding.Reply{}, failure(err)
	}
	reply, err := f.read(out.Body, r)
	if reply.Tokens == 0 {
		reply.Tokens = counted(out)
	}
	return reply, err
}

// counted is the number of tokens in the response's header, for models whose body does not have it.
func counted(out *bedrockruntime.InvokeModelOutput) int64 {
	answer, ok := awsmiddleware.GetRawResponse(out.ResultMetadata).(*smithyhttp.Response)
	if !ok {
		return 0
	}
	n, _ := strconv.ParseInt(answer.Header.Get("X-Amzn-Bedrock-Input-Token-Count"), 10, 64)
	return n
}

// bounded limits how much of a body is read to the size of the largest valid reply. The SDK reads bodies to their end.
//
// It also sends a copy of the request's body. The SDK closes its own body as soon as the response begins. A transport
// that is just then reading the body would take this for a failure and close the connection.
type bounded struct {
	bedrockruntime.HTTPClient

	request embedding.Request
}

func (b bounded) Do(r *http.Request) (*http.Response, error) {
	sent, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	outgoing := r.WithContext(r.Context())
	outgoing.Body = io.NopCloser(bytes.NewReader(sent))
	answer, err := b.HTTPClient.Do(outgoing)
	if answer != nil {
		answer.Body = embedding.Bounded(answer.Body, b.request)
	}
	return answer, err
}

// failure turns an SDK error into an [embedding.Error].
func failure(err error) error {
	var answered *awshttp.ResponseError
	_, endless := errors.AsType[*http.MaxBytesError](err)
	if endless || !errors.As(err, &answered) || answered.Response == nil ||
		answered.HTTPStatusCode() < http.StatusBadRequest { // 0, or the SDK could not read what came
		return embedding.Unreachable(err)
	}
	status, trouble := answered.HTTPStatusCode(), providerhttp.Trouble{}
	if named, is := errors.AsType[smithy.APIError](err); is {
		trouble = providerhttp.NewTrouble(named.ErrorMessage(), named.ErrorCode())
	}
	trouble.Wait = cmp.Or(providerhttp.RetryAfter(answered.Response.Header), trouble.Wait)
	failed := embedding.FromHTTP(status, trouble)
	address, sent := providerhttp.Signed(answered.Response.Request)
	return embedding.Redact(failed, address, sent)
}
