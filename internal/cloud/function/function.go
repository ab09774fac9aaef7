// Package function starts a Lambda function: it opens the platform, makes the handler and passes it to the Lambda
// runtime. It is separate from cloud so that the stream service does not link the Lambda runtime.
//
// It knows no trigger and no use case. It imports cloud and the Lambda runtime.
package function

import (
	"context"
	"fmt"
	"os"

	"github.com/aws/aws-lambda-go/lambda"

	"agentplatform/internal/cloud"
)

// Run makes the handler, one of the forms that [lambda.Start] accepts, and serves with it. It does not return; a
// function that cannot start logs the reason and exits, and Lambda tries again with the next invocation.
func Run(handler func(*cloud.Platform) (any, error)) {
	p, err := cloud.Open(context.Background(), cloud.Writes)
	if err == nil {
		var h any
		if h, err = handler(p); err == nil {
			lambda.Start(h)
		}
	}
	fmt.Fprintln(os.Stderr, "the function cannot begin:", err)
	os.Exit(1)
}
