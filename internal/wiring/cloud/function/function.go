// Package function starts a Lambda function: it opens the platform, makes the handler and passes it to the Lambda
// runtime. It is separate from cloud so that the stream service does not link the Lambda runtime.
//
// It knows no trigger and no use case. It imports cloud and the Lambda runtime.
package function

import (
	"context"
	"fmt"
	"os"
	"runtime/debug"
	"strconv"

	"github.com/aws/aws-lambda-go/lambda"

	"agentplatform/internal/wiring/cloud"
)

// Run makes the handler, one of the forms that [lambda.Start] accepts, and serves with it. It does not return. A
// function that cannot start logs the reason and exits; Lambda tries again with the next invocation.
func Run(handler func(*cloud.Platform) (any, error)) {
	limitMemory()
	p, err := cloud.Open(context.Background(), cloud.ReadWrite)
	if err == nil {
		var h any
		if h, err = handler(p); err == nil {
			lambda.Start(h)
		}
	}
	fmt.Fprintln(os.Stderr, "the function cannot begin:", err)
	os.Exit(1)
}

// limitMemory makes the garbage collector keep this process below three quarters of the function's memory. A function
// that uses more than its memory is ended. The rest is for memory outside the heap, and for Lambda.
func limitMemory() {
	if size, err := strconv.ParseInt(os.Getenv("AWS_LAMBDA_FUNCTION_MEMORY_SIZE"), 10, 32); err == nil { // MB
		debug.SetMemoryLimit(size << 20 / 4 * 3)
	}
}
