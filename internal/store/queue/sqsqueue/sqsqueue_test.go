package sqsqueue_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/events"
	"agentplatform/internal/store/queue"
	"agentplatform/internal/store/queue/sqsqueue"
)

func TestDeliveredReadsAMessageOfATrigger(t *testing.T) {
	d, err := sqsqueue.Delivered(`{"kind":"run","id":"r1"}`, "receipt",
		map[string]string{"ApproximateReceiveCount": "3", "MessageGroupId": "org"})
	require.NoError(t, err)
	assert.Equal(t, events.Wakeup{Kind: events.WakeupRun, ID: "r1"}, d.Wakeup)
	assert.Equal(t, 3, d.Receives)
	assert.Equal(t, "org", d.Group)
	for _, poison := range []string{"", "hello", "{}", `{"kind":"run"}`, `[]`, `{"kind":1,"id":"x"}`} {
		_, err := sqsqueue.Delivered(poison, "receipt", nil)
		require.Error(t, err, poison)
	}
}

// batches is SQS that takes batches. fault returns the reason why a message is not accepted.
type batches struct {
	sqsqueue.API

	sizes    []int
	accepted []string
	fault    func(body string, call int) *types.BatchResultErrorEntry
	down     error
}

func (b *batches) SendMessageBatch(_ context.Context, in *sqs.SendMessageBatchInput,
	_ ...func(*sqs.Options)) (*sqs.SendMessageBatchOutput, error) {
	b.sizes = append(b.sizes, len(in.Entries))
	if b.down != nil {
		return nil, b.down
	}
	out := &sqs.SendMessageBatchOutput{}
	for _, e := range in.Entries {
		body := aws.ToString(e.MessageBody)
		if f := b.fault(body, len(b.sizes)); f != nil {
			f.Id = e.Id
			out.Failed = append(out.Failed, *f)
			continue
		}
		b.accepted = append(b.accepted, aws.ToString(e.MessageGroupId)+" "+body)
	}
	return out, nil
}

func some(n int) (ms []queue.Message) {
	for i := range n {
		ms = append(ms, queue.Message{Wakeup: events.Wakeup{Kind: events.WakeupRun, ID: fmt.Sprint(i)}, Group: "org"})
	}
	return ms
}

func TestSendAllSendsTenInACall(t *testing.T) {
	b := &batches{fault: func(string, int) *types.BatchResultErrorEntry { return nil }}
	errs := sqsqueue.New(b, "url").SendAll(t.Context(), some(23))
	assert.Equal(t, make([]error, 23), errs)
	assert.Equal(t, []int{10, 10, 3}, b.sizes)
	assert.Len(t, b.accepted, 23)
	assert.Equal(t, `org {"kind":"run","id":"0"}`, b.accepted[0])
}

// Of a batch that was accepted in part, only the rest is sent again. Messages that are not accepted in the end are
// reported.
func TestSendAllSendsAgainWhatWasNotAccepted(t *testing.T) {
	b := &batches{fault: func(body string, call int) *types.BatchResultErrorEntry {
		switch {
		case body == `{"kind":"run","id":"1"}` && call == 1, body == `{"kind":"run","id":"2"}`:
			return &types.BatchResultErrorEntry{Code: aws.String("InternalError")}
		case body == `{"kind":"run","id":"3"}`:
			return &types.BatchResultErrorEntry{Code: aws.String("InvalidMessageContents"), SenderFault: true}
		}
		return nil
	}}
	errs := sqsqueue.New(b, "url").SendAll(t.Context(), some(5))
	assert.Equal(t, []int{5, 2, 1}, b.sizes, "what SQS blames us for is not sent again")
	require.NoError(t, errors.Join(errs[0], errs[1], errs[4]))
	require.ErrorContains(t, errs[2], "InternalError")
	require.ErrorContains(t, errs[3], "InvalidMessageContents")
	assert.Len(t, b.accepted, 3)
}

func TestSendAllReportsAFailedCallForEachOfItsMessages(t *testing.T) {
	down := errors.New("down")
	b := &batches{down: down}
	errs := sqsqueue.New(b, "url").SendAll(t.Context(), some(12))
	assert.Equal(t, []int{10, 2}, b.sizes, "the SDK has tried each call")
	require.Len(t, errs, 12)
	for _, err := range errs {
		require.ErrorIs(t, err, down)
	}
}

// The users of an organization are in few groups, which are its own, and so are its bases.
func TestUsersAndBasesOfAnOrganizationAreInFewGroups(t *testing.T) {
	few := map[string]bool{"org/0": true, "org/1": true, "org/2": true, "org/3": true}
	for what, message := range map[string]func(n string) queue.Message{
		"bases": func(n string) queue.Message { return queue.OfDocument("d", "org", "u", n) },
		"users": func(n string) queue.Message {
			return queue.Message{Wakeup: events.Wakeup{Kind: events.WakeupRun, ID: "r"}, Group: "org", User: n}
		},
	} {
		b := &batches{fault: func(string, int) *types.BatchResultErrorEntry { return nil }}
		groups := map[string]bool{}
		for n := range 100 {
			sqsqueue.New(b, "url").SendAll(t.Context(), []queue.Message{message(fmt.Sprint(n)), message(fmt.Sprint(n))})
			group, _, _ := strings.Cut(b.accepted[2*n], " ")
			groups[group] = true
			assert.Equal(t, b.accepted[2*n], b.accepted[2*n+1], "the same group each time")
		}
		assert.Equal(t, few, groups, what)
	}
}
