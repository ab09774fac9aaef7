// Package sfntimer is the timer port over AWS Step Functions. An alarm is an execution of a state machine that waits
// until a point in time and then sends the wakeup to a queue.
//
// It knows no run. It imports its port's message and the SDK.
package sfntimer

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/service/sfn"
	"github.com/aws/aws-sdk-go-v2/service/sfn/types"

	"agentplatform/events"
	"agentplatform/internal/store/queue"
)

// Input is the input of an execution; the state machine's definition refers to these names.
type Input struct {
	At     string        `json:"at"` // RFC 3339, in UTC
	Wakeup events.Wakeup `json:"nudge"`
	Group  string        `json:"group"`
}

// Timer sets alarms with one state machine.
type Timer struct {
	api     *sfn.Client
	machine string // its ARN
}

// New makes a timer over a client; machine is the ARN of the state machine.
func New(api *sfn.Client, machine string) *Timer { return &Timer{api: api, machine: machine} }

// Client makes a client for [New]. The caller can go on without an alarm, so a call waits for one more attempt at most.
// If Step Functions throttles, the SDK's default of three attempts takes six seconds, from a worker or a client's
// response.
func Client(account aws.Config) *sfn.Client {
	return sfn.NewFromConfig(account, func(o *sfn.Options) {
		o.Retryer = retry.NewStandard(func(s *retry.StandardOptions) { s.MaxAttempts, s.MaxBackoff = 2, time.Second })
	})
}

// At implements timer.Timer: it starts the execution of that name, unless there is or was one. The error is one of
// Step Functions.
func (t *Timer) At(ctx context.Context, name string, at time.Time, m queue.Message) error {
	// In milliseconds, rounded up: an alarm may be late, but never early.
	input, err := json.Marshal(Input{At: at.Add(time.Millisecond - 1).UTC().Format("2006-01-02T15:04:05.000Z"),
		Wakeup: m.Wakeup, Group: m.Group})
	if err != nil {
		return err
	}
	_, err = t.api.StartExecution(ctx, &sfn.StartExecutionInput{StateMachineArn: &t.machine,
		Name: aws.String(nameOf(name)), Input: aws.String(string(input))})
	if _, exists := errors.AsType[*types.ExecutionAlreadyExists](err); exists {
		return nil
	}
	return err
}

// Stop implements timer.Timer: it ends the execution of that name. The error is one of Step Functions.
func (t *Timer) Stop(ctx context.Context, name string) error {
	execution := strings.Replace(t.machine, ":stateMachine:", ":execution:", 1) + ":" + nameOf(name)
	_, err := t.api.StopExecution(ctx,
		&sfn.StopExecutionInput{ExecutionArn: &execution, Cause: aws.String("the pause ended")})
	if _, missing := errors.AsType[*types.ExecutionDoesNotExist](err); missing {
		return nil
	}
	return err
}

// nameOf replaces the characters that Step Functions does not accept in a name.
func nameOf(name string) string {
	return strings.Map(func(r rune) rune {
		if r > ' ' && r < 0x7f && !strings.ContainsRune(`<>{}[]?*"#%\^|~`+"`$&,;:/", r) {
			return r
		}
		return '_'
	}, name)
}

// Definition is the state machine in Amazon States Language; it sends to the queue at url.
func Definition(url string) string {
	definition := map[string]any{
		"Comment": "Waits until a pause expires, then has the run looked at.",
		"StartAt": "Wait",
		"States": map[string]any{
			"Wait": map[string]any{"Type": "Wait", "TimestampPath": "$.at", "Next": "Nudge"},
			"Nudge": map[string]any{
				"Type": "Task", "Resource": "arn:aws:states:::sqs:sendMessage", "End": true,
				"Parameters": map[string]any{"QueueUrl": url, "MessageBody.$": "$.nudge",
					"MessageGroupId.$": "$.group"},
				"Retry": []any{map[string]any{
					"ErrorEquals": []string{"States.ALL"}, "IntervalSeconds": 2, "MaxAttempts": 10, "BackoffRate": 2,
					"MaxDelaySeconds": 300, "JitterStrategy": "FULL",
				}},
			},
		},
	}
	b, err := json.Marshal(definition)
	if err != nil {
		panic(err) // only strings and maps: cannot fail
	}
	return string(b)
}
