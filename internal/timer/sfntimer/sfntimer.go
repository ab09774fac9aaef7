// Package sfntimer is the timer port over Step Functions: an alarm is an execution of a state machine that waits for an
// instant and then sends the nudge to a queue.
//
// It knows no run. It imports its port, the queue's message and the SDK.
package sfntimer

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sfn"
	"github.com/aws/aws-sdk-go-v2/service/sfn/types"

	"agentplatform/events"
	"agentplatform/internal/queue"
)

// API is what is used of the SDK's client.
type API interface {
	StartExecution(context.Context, *sfn.StartExecutionInput, ...func(*sfn.Options)) (*sfn.StartExecutionOutput, error)
	StopExecution(context.Context, *sfn.StopExecutionInput, ...func(*sfn.Options)) (*sfn.StopExecutionOutput, error)
}

// Input is what an execution is given; the state machine's definition reads it by these names.
type Input struct {
	At    string       `json:"at"` // RFC 3339
	Nudge events.Nudge `json:"nudge"`
	Group string       `json:"group"`
}

// Timer sets alarms with one state machine.
type Timer struct {
	api     API
	machine string // its ARN
}

// New makes a timer over a client.
func New(api API, machine string) *Timer { return &Timer{api: api, machine: machine} }

// At starts the execution of that name; one that there is, or was, is left as it is.
func (t *Timer) At(ctx context.Context, name string, at time.Time, m queue.Message) error {
	// To the millisecond, rounded up: an alarm may be late, never early.
	input, err := json.Marshal(Input{At: at.Add(time.Millisecond - 1).UTC().Format("2006-01-02T15:04:05.000Z"), Nudge: m.Nudge, Group: m.Group})
	if err != nil {
		return err
	}
	_, err = t.api.StartExecution(ctx, &sfn.StartExecutionInput{StateMachineArn: &t.machine, Name: aws.String(nameOf(name)), Input: aws.String(string(input))})
	var exists *types.ExecutionAlreadyExists
	if errors.As(err, &exists) {
		return nil
	}
	return err
}

// Stop ends the execution of that name, if there is one.
func (t *Timer) Stop(ctx context.Context, name string) error {
	execution := strings.Replace(t.machine, ":stateMachine:", ":execution:", 1) + ":" + nameOf(name)
	_, err := t.api.StopExecution(ctx, &sfn.StopExecutionInput{ExecutionArn: &execution, Cause: aws.String("the pause ended")})
	var missing *types.ExecutionDoesNotExist
	if errors.As(err, &missing) {
		return nil
	}
	return err
}

// nameOf makes a name that Step Functions takes: at most 80 of its characters.
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
				"Parameters": map[string]any{"QueueUrl": url, "MessageBody.$": "$.nudge", "MessageGroupId.$": "$.group"},
				"Retry": []any{map[string]any{
					"ErrorEquals": []string{"States.ALL"}, "IntervalSeconds": 2, "MaxAttempts": 10, "BackoffRate": 2, "MaxDelaySeconds": 300, "JitterStrategy": "FULL",
				}},
			},
		},
	}
	b, err := json.Marshal(definition)
	if err != nil {
		panic(err) // it is a constant
	}
	return string(b)
}
