// Package trigger converts Lambda events to calls of the use cases, and the results back. The events are API Gateway
// requests, answered whole or as a stream, and SQS batches.
//
// It must not know runs. It imports the queue port with its SQS shape, dispatch's handler, and the Lambda libraries.
package trigger
