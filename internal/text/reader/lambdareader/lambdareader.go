// Package lambdareader carries the requests for a reader to a Lambda function, by synchronous invocations. Reading has
// no effects. So the SDK repeats an invocation that did not reach the function, or that found no concurrency left,
// until its caller waits no more. The function's answer is returned, also where it is an error of the function.
//
// It knows no shape of the data that it carries. It imports the SDK.
package lambdareader

import (
	"context"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/ratelimit"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
	"github.com/aws/aws-sdk-go-v2/service/lambda/types"
)

// maxInvocations bounds the invocations for one file. With this pause between them, they take longer than a caller
// waits.
const (
	maxInvocations = 100
	pause          = 5 * time.Second
)

// Line returns the function that [reader.Client] needs: it invokes a Lambda function, by its name or ARN, with a
// request and returns the answer. An answer has no time limit of its own: the account's limit of a call is for calls
// that store data. The error is one of the SDK, or that of the function: it died, its time was over, or it could not
// decide.
func Line(account aws.Config, function string) func(ctx context.Context, ask []byte) ([]byte, error) {
	client := lambda.NewFromConfig(account, func(o *lambda.Options) {
		o.HTTPClient = awshttp.NewBuildableClient()
		o.Retryer = retry.NewStandard(func(s *retry.StandardOptions) {
			s.MaxAttempts, s.MaxBackoff, s.RateLimiter = maxInvocations, pause, ratelimit.None
		})
	})
	return func(ctx context.Context, ask []byte) ([]byte, error) {
		out, err := client.Invoke(ctx, &lambda.InvokeInput{
			FunctionName: &function, InvocationType: types.InvocationTypeRequestResponse, Payload: ask,
		})
		if err != nil {
			return nil, err
		}
		if out.FunctionError != nil {
			return nil, fmt.Errorf("the function failed: %s: %.500s", *out.FunctionError, out.Payload)
		}
		return out.Payload, nil
	}
}
