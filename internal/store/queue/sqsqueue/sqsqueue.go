// Package sqsqueue is the queue port over an SQS standard queue. The message group id is the organization and one of a
// few parts of it. So SQS makes the queue fair: a busy organization does not delay a quiet one.
//
// It knows no run. It imports its port and the SDK.
package sqsqueue

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"slices"
	"strconv"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"agentplatform/internal/store/queue"
)

// API is the part of the SDK's client that is used.
type API interface {
	SendMessage(context.Context, *sqs.SendMessageInput, ...func(*sqs.Options)) (*sqs.SendMessageOutput, error)
	SendMessageBatch(context.Context, *sqs.SendMessageBatchInput,
		...func(*sqs.Options)) (*sqs.SendMessageBatchOutput, error)
	ReceiveMessage(context.Context, *sqs.ReceiveMessageInput, ...func(*sqs.Options)) (*sqs.ReceiveMessageOutput, error)
	DeleteMessage(context.Context, *sqs.DeleteMessageInput, ...func(*sqs.Options)) (*sqs.DeleteMessageOutput, error)
	ChangeMessageVisibility(context.Context, *sqs.ChangeMessageVisibilityInput,
		...func(*sqs.Options)) (*sqs.ChangeMessageVisibilityOutput, error)
}

// Queue is both ends of one queue.
type Queue struct {
	api API
	url string
}

// New makes a queue over a client.
func New(api API, url string) *Queue { return &Queue{api: api, url: url} }

// maxGroup is the maximal length of a message group id.
const maxGroup = 128

// parts is how many groups the users of an organization are divided into, and its knowledge bases. Fair queues know one
// level of groups. An organization with many users must not count as many organizations.
const parts = 4

// encode makes the body of a message and its group, nil if it has none that SQS takes.
func encode(m queue.Message) (body, group *string, err error) {
	b, err := json.Marshal(m.Wakeup)
	name := m.Group
	if within := cmp.Or(m.Base, m.User); within != "" {
		h := fnv.New32a()
		_, _ = h.Write([]byte(within)) // never fails
		name += "/" + strconv.Itoa(int(h.Sum32()%parts))
	}
	if name != "" && len(name) <= maxGroup {
		group = &name
	}
	return aws.String(string(b)), group, err
}

// Send implements [queue.Queue]. The error is one of SQS.
func (q *Queue) Send(ctx context.Context, m queue.Message) error {
	body, group, err := encode(m)
	if err != nil {
		return err
	}
	_, err = q.api.SendMessage(ctx,
		&sqs.SendMessageInput{QueueUrl: &q.url, MessageBody: body, MessageGroupId: group})
	return err
}

const (
	// MaxBatch is how many messages SQS takes in one call.
	MaxBatch = 10
	// sendAttempts is how many times a message is sent that SQS did not accept though its call succeeded.
	sendAttempts = 3
)

// SendAll implements [queue.Batcher], with a call for ten messages. Messages that a call did not accept because of a
// fault of SQS are sent again, at most twice. The errors are those of SQS.
func (q *Queue) SendAll(ctx context.Context, ms []queue.Message) []error {
	errs := make([]error, len(ms))
	for from := 0; from < len(ms); from += MaxBatch {
		left := make([]int, 0, MaxBatch)
		for i := from; i < min(from+MaxBatch, len(ms)); i++ {
			left = append(left, i)
		}
		for n := 0; n < sendAttempts && len(left) > 0; n++ {
			left = q.sendSome(ctx, ms, left, errs)
		}
	}
	return errs
}

// sendSome sends the messages at these places in one call, and returns the places of those to send again.
func (q *Queue) sendSome(ctx context.Context, ms []queue.Message, at []int, errs []error) (again []int) {
	in := &sqs.SendMessageBatchInput{QueueUrl: &q.url}
	for _, i := range at {
		body, group, err := encode(ms[i])
		if errs[i] = err; err != nil {
			continue
		}
		in.Entries = append(in.Entries, types.SendMessageBatchRequestEntry{
			Id: aws.String(strconv.Itoa(i)), MessageBody: body, MessageGroupId: group,
		})
	}
	if len(in.Entries) == 0 {
		return nil
	}
	out, err := q.api.SendMessageBatch(ctx, in)
	if err != nil {
		for _, i := range at {
			errs[i] = cmp.Or(errs[i], err)
		}
		return nil // the SDK has tried it more than once
	}
	for _, f := range out.Failed {
		i, err := strconv.Atoi(aws.ToString(f.Id))
		if err != nil || !slices.Contains(at, i) {
			continue
		}
		errs[i] = fmt.Errorf("sqsqueue: %s: %s", aws.ToString(f.Code), aws.ToString(f.Message))
		if !f.SenderFault {
			again = append(again, i)
		}
	}
	return again
}

// LongPoll is how long SQS waits for a message in one request of Receive; the client must have the patience.
const LongPoll = 20 * time.Second

// Receive implements [queue.Source]. A message that is not a wakeup is left in the queue and ends in the dead-letter
// queue. The error is ctx's, or one of SQS.
func (q *Queue) Receive(ctx context.Context) (queue.Delivery, error) {
	for {
		out, err := q.api.ReceiveMessage(ctx, &sqs.ReceiveMessageInput{
			QueueUrl: &q.url, MaxNumberOfMessages: 1, WaitTimeSeconds: int32(LongPoll / time.Second),
			MessageSystemAttributeNames: []types.MessageSystemAttributeName{types.MessageSystemAttributeNameAll},
		})
		if err != nil {
			return queue.Delivery{}, err
		}
		for _, m := range out.Messages {
			if d, err := Delivered(aws.ToString(m.Body), aws.ToString(m.ReceiptHandle), m.Attributes); err == nil {
				return d, nil
			}
		}
	}
}

// Delivered decodes a message as SQS or a Lambda trigger delivers it. It returns an error if the message is not a
// wakeup.
func Delivered(body, receipt string, attributes map[string]string) (queue.Delivery, error) {
	d := queue.Delivery{Handle: receipt, Receives: 1}
	if err := json.Unmarshal([]byte(body), &d.Wakeup); err != nil {
		return d, fmt.Errorf("sqsqueue: the message is no nudge: %w", err)
	}
	if d.Wakeup.Kind == "" || d.Wakeup.ID == "" {
		return d, fmt.Errorf("sqsqueue: the message is no nudge: %.100q", body)
	}
	d.Group = attributes[string(types.MessageSystemAttributeNameMessageGroupId)]
	if n, err := strconv.Atoi(attributes[string(types.MessageSystemAttributeNameApproximateReceiveCount)]); err == nil {
		d.Receives = n
	}
	return d, nil
}

// Ack implements [queue.Source]. The error is one of SQS.
func (q *Queue) Ack(ctx context.Context, d queue.Delivery) error {
	receipt, _ := d.Handle.(string)
	_, err := q.api.DeleteMessage(ctx, &sqs.DeleteMessageInput{QueueUrl: &q.url, ReceiptHandle: &receipt})
	return err
}

// longest is the maximal visibility timeout of SQS.
const longest = 12 * time.Hour

// Retry implements [queue.Source], with a delay in whole seconds, rounded up, at most 12 hours. The error is one of
// SQS.
func (q *Queue) Retry(ctx context.Context, d queue.Delivery, after time.Duration) error {
	receipt, _ := d.Handle.(string)
	seconds := (min(max(after, 0), longest) + time.Second - 1) / time.Second
	_, err := q.api.ChangeMessageVisibility(ctx, &sqs.ChangeMessageVisibilityInput{
		QueueUrl: &q.url, ReceiptHandle: &receipt, VisibilityTimeout: int32(seconds), //nolint:gosec // at most 43,200
	})
	return err
}
