package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
)

const (
	// partBefore is the tag under which a stopped function has the concurrency that was its own: a number, or none.
	partBefore = "stopped-with"
	none       = "none"
)

// halt stops or starts all functions of the stage. A stopped function has no concurrency, so it gets no new calls.
// Running calls go on until they end. Queues are read only while no function is stopped, so that no attempt is wasted.
// After a wasted attempt the queue hides the message for a while, and after several it becomes a dead letter.
func (o *operator) halt(ctx context.Context, stop bool, what string) error {
	if what != "functions" {
		return errors.New("use stop functions, or start functions")
	}
	if stop {
		if err := o.listen(ctx, false); err != nil {
			return err
		}
	}
	for _, output := range slices.Sorted(maps.Keys(o.outputs)) {
		name, is := strings.CutSuffix(output, "FunctionName")
		if !is {
			continue
		}
		if !o.do {
			o.printf("%s would be %s; add -do to do it", name, map[bool]string{true: "stopped", false: "started"}[stop])
			continue
		}
		function, err := o.lambdas.GetFunction(ctx,
			&lambda.GetFunctionInput{FunctionName: aws.String(o.outputs[output])})
		if err != nil {
			return err
		}
		if stop {
			err = o.stop(ctx, name, function)
		} else {
			err = o.start(ctx, name, function)
		}
		if err != nil {
			return err
		}
	}
	if stop {
		return nil
	}
	return o.listen(ctx, true)
}

func (o *operator) stop(ctx context.Context, name string, f *lambda.GetFunctionOutput) error {
	if _, stopped := f.Tags[partBefore]; !stopped {
		before := none
		if f.Concurrency != nil && f.Concurrency.ReservedConcurrentExecutions != nil {
			before = strconv.Itoa(int(*f.Concurrency.ReservedConcurrentExecutions))
		}
		if _, err := o.lambdas.TagResource(ctx, &lambda.TagResourceInput{Resource: f.Configuration.FunctionArn,
			Tags: map[string]string{partBefore: before}}); err != nil {
			return err
		}
	}
	o.printf("%s is stopped", name)
	_, err := o.lambdas.PutFunctionConcurrency(ctx, &lambda.PutFunctionConcurrencyInput{
		FunctionName: f.Configuration.FunctionName, ReservedConcurrentExecutions: aws.Int32(0)})
	return err
}

func (o *operator) start(ctx context.Context, name string, f *lambda.GetFunctionOutput) error {
	before, stopped := f.Tags[partBefore]
	if !stopped {
		o.printf("%s was not stopped", name)
		return nil
	}
	var err error
	if part, number := strconv.Atoi(before); number == nil {
		_, err = o.lambdas.PutFunctionConcurrency(ctx, &lambda.PutFunctionConcurrencyInput{
			FunctionName: f.Configuration.FunctionName, ReservedConcurrentExecutions: aws.Int32(int32(part))})
	} else {
		_, err = o.lambdas.DeleteFunctionConcurrency(ctx,
			&lambda.DeleteFunctionConcurrencyInput{FunctionName: f.Configuration.FunctionName})
	}
	if err != nil {
		return err
	}
	o.printf("%s is started, with the concurrency %s of its own", name, before)
	_, err = o.lambdas.UntagResource(ctx,
		&lambda.UntagResourceInput{Resource: f.Configuration.FunctionArn, TagKeys: []string{partBefore}})
	return err
}

// listen switches the reading of the stage's queues on or off, and waits until that has taken effect.
func (o *operator) listen(ctx context.Context, read bool) error {
	var changed []string
	for _, name := range []string{"run", "webhook", "job", "ingest"} {
		address, _, err := o.queue(name)
		if err != nil {
			return err
		}
		if !o.do {
			o.printf("the queue %s would be read: %t; add -do to do it", name, read)
			continue
		}
		queue, err := o.queues.GetQueueAttributes(ctx, &sqs.GetQueueAttributesInput{QueueUrl: &address,
			AttributeNames: []types.QueueAttributeName{types.QueueAttributeNameQueueArn}})
		if err != nil {
			return err
		}
		out, err := o.lambdas.ListEventSourceMappings(ctx, &lambda.ListEventSourceMappingsInput{
			EventSourceArn: aws.String(queue.Attributes["QueueArn"])})
		if err != nil {
			return err
		}
		for _, m := range out.EventSourceMappings {
			if err := o.settled(ctx, aws.ToString(m.UUID)); err != nil {
				return err
			}
			if _, err := o.lambdas.UpdateEventSourceMapping(ctx,
				&lambda.UpdateEventSourceMappingInput{UUID: m.UUID, Enabled: &read}); err != nil {
				return err
			}
			changed = append(changed, aws.ToString(m.UUID))
		}
		o.printf("the queue %s is read: %t", name, read)
	}
	for _, id := range changed {
		if err := o.settled(ctx, id); err != nil {
			return err
		}
	}
	return nil
}

const (
	settleAttempts = 900 // Lambda takes a minute or two to change whether a queue is read
	settleEvery    = 200 * time.Millisecond
)

// settled waits until a mapping is no longer changing. Before that it accepts no update.
func (o *operator) settled(ctx context.Context, id string) error {
	for range settleAttempts {
		m, err := o.lambdas.GetEventSourceMapping(ctx, &lambda.GetEventSourceMappingInput{UUID: &id})
		if err != nil {
			return err
		}
		if state := aws.ToString(m.State); state == "Enabled" || state == "Disabled" {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(settleEvery):
		}
	}
	return fmt.Errorf("the event source mapping %s does not settle; run the command again", id)
}
