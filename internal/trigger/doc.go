// Package trigger turns what Lambda is called with into what the use cases take, and back: API Gateway requests,
// answered whole or as a stream, and SQS batches.
//
// It knows no run. It imports the queue port with its SQS shape, dispatch's handler, and the Lambda libraries.
package trigger
