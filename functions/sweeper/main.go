// Command sweeper is the Lambda function that finds due items and sends wakeups for them; a schedule triggers it every
// minute.
package main

import (
	"agentplatform/internal/core/lifecycle"
	"agentplatform/internal/run/sweep"
	"agentplatform/internal/run/transition"
	"agentplatform/internal/wiring/cloud"
	"agentplatform/internal/wiring/cloud/function"
)

func main() {
	function.Run(func(p *cloud.Platform) (any, error) {
		executor := *p.Executor
		executor.OnTransition = func(m transition.Move) {
			p.Metrics.Transition(m)
			if m.Before.Status == lifecycle.AwaitingInput && m.After.Status.Terminal() {
				p.Metrics.Count(cloud.PausesLate) // the pause's own timer should have ended it
			}
		}
		sweeper := &sweep.Sweeper{
			Executor: &executor, Store: p.Store, Queue: p.Queues, Host: p.Host, Log: p.Log,
			OnLeft: func(left map[string]int) {
				p.Metrics.Left(left)
				if len(left) > 0 {
					p.Log.Warn("the sweep ended early and left work for the next one", "left", left)
				}
			},
		}
		return sweeper.Sweep, nil
	})
}
