// Package lambdabroker sends asks to a broker that is a Lambda function, by synchronous invocations.
//
// An invocation is one attempt. The SDK must not repeat it, as the function may have done the work. When the wait ends,
// Lambda lets the function continue; the ask has the limit of its time.
//
// The package knows no operation. It imports its port and the SDK.
package lambdabroker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
	"github.com/aws/aws-sdk-go-v2/service/lambda/types"

	"agentplatform/internal/wiring/broker"
)

// Line invokes one function. It implements [broker.Invoker].
type Line struct {
	client   *lambda.Client
	function string
}

// New makes the line to a function, by its name or ARN. It waits as long as its caller does. It keeps no connection:
// one that was closed while this function was frozen would fail an ask that must not be repeated.
func New(account aws.Config, function string) *Line {
	return &Line{lambda.NewFromConfig(account, func(o *lambda.Options) {
		o.Retryer = aws.NopRetryer{}
		o.HTTPClient = once{awshttp.NewBuildableClient().WithTransportOptions(func(t *http.Transport) {
			t.DisableKeepAlives = true
		})}
	}), function}
}

// once prevents a needless failure of a call that is not repeated. The SDK closes a request's body when the answer
// begins. The body's WriteTo then returns io.EOF. If net/http has not yet seen the end of the body, it closes the
// connection while the answer is read. Without a WriteTo it reads the body, and io.EOF is then its end.
type once struct{ client lambda.HTTPClient }

// Do implements [lambda.HTTPClient].
func (o once) Do(r *http.Request) (*http.Response, error) {
	if r.Body != nil {
		r.Body = struct{ io.ReadCloser }{r.Body}
	}
	return o.client.Do(r)
}

// Invoke implements [broker.Invoker].
func (l *Line) Invoke(ctx context.Context, ask []byte) ([]byte, error) {
	out, err := l.client.Invoke(ctx, &lambda.InvokeInput{
		FunctionName: &l.function, InvocationType: types.InvocationTypeRequestResponse, Payload: ask,
	})
	if err != nil {
		if notReceived(err) {
			return nil, fmt.Errorf("%w: %w", broker.ErrNotReceived, err)
		}
		return nil, err
	}
	if out.FunctionError != nil { // it died, or its time was over
		return nil, fmt.Errorf("the function failed: %s: %.500s", *out.FunctionError, out.Payload)
	}
	return out.Payload, nil
}

// notReceived reports whether Lambda has not begun the call, and may take it later: there was no connection, or no free
// concurrency.
func notReceived(err error) bool {
	if _, is := errors.AsType[*types.TooManyRequestsException](err); is {
		return true
	}
	failed, is := errors.AsType[*net.OpError](err)
	return is && failed.Op == "dial"
}
