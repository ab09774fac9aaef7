// Command reader is the Lambda function that reads the text of the files of messages, for worker. It has no setting,
// and no right in AWS except to write logs: it gets a presigned address of each file.
package main

import (
	"net/http"

	"github.com/aws/aws-lambda-go/lambda"

	"agentplatform/internal/text/reader"
)

func main() {
	r := reader.Reader{HTTP: &http.Client{ // as long as its request's context lasts
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
	lambda.Start(r.Read)
}
