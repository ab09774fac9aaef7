package lifecycle_test

import (
	"errors"
	"fmt"
	"time"

	"agentplatform/internal/core/lifecycle"
)

// A run is accepted, claimed by a worker and completed. A second worker's claim is refused while the lease is valid.
func ExampleApply() {
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	spec := lifecycle.RunSpec{RunID: "run-1", Chat: "chat-1", LimitMS: 60_000, Callback: true}
	run := lifecycle.Accept(spec, lifecycle.ChatPosition{Turn: 1}, now, now.Add(10*time.Minute))
	fmt.Println(run.Status)

	claimed, err := lifecycle.Apply(run, lifecycle.Claim{Holder: "worker-1", Until: now.Add(30 * time.Second)}, now)
	fmt.Println(claimed.After.Status, claimed.After.Attempt, err)

	_, err = lifecycle.Apply(claimed.After, lifecycle.Claim{Holder: "worker-2"}, now)
	fmt.Println(err, errors.Is(err, lifecycle.ErrRefused), lifecycle.RefusedFor(err, lifecycle.LeaseHeld))

	work := lifecycle.Work{Attempt: 1, Active: 2 * time.Second}
	ended, err := lifecycle.Apply(claimed.After, lifecycle.Complete{Work: work}, now.Add(2*time.Second))
	fmt.Println(ended.After.Status, ended.After.Billed(), ended.Announce, ended.Promote == "", err)
	// Output:
	// queued
	// running 1 <nil>
	// lease_held (running) true true
	// completed true true true <nil>
}

// The work for a run depends only on its state and the time: a worker, an event, or nothing until a later time.
func ExampleNext() {
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	run := lifecycle.Accept(lifecycle.RunSpec{RunID: "run-1"}, lifecycle.ChatPosition{Turn: 1}, now,
		now.Add(time.Minute))

	early := lifecycle.Next(run, now, "")
	fmt.Println(early.Execute, early.Event)

	late := lifecycle.Next(run, now.Add(time.Minute), "")
	fmt.Println(late.Execute, lifecycle.NameOf(late.Event))
	// Output:
	// true <nil>
	// false unstartable
}
