// Package work makes the worker of the function that executes runs, with its models and toolkits.
//
// It is wiring, a part of internal/cloud that the other functions do not link.
package work

import (
	"context"
	"time"

	"agentplatform/internal/agent"
	"agentplatform/internal/cloud"
	"agentplatform/internal/provider/reach"
	"agentplatform/internal/toolkit/kinds"
	"agentplatform/internal/worker"
)

const (
	lookEvery = time.Second // how soon a running run sees a cancel
	// for what is under way at a hand-over, of the minute that HAND_OVER_AFTER leaves at least
	drainTime = 20 * time.Second
)

// New makes the worker. It makes a call, for the keys of model providers.
func New(ctx context.Context, p *cloud.Platform) (*worker.Worker, error) {
	if err := p.ReadSecrets(ctx); err != nil {
		return nil, err
	}
	if err := kinds.Make(p.Toolkits, p.Settings); err != nil {
		return nil, err
	}
	models, err := reach.Models(ctx, p.Settings, p.Host)
	if err != nil {
		return nil, err
	}
	return &worker.Worker{
		Shell: p.Shell, Store: p.Store, Known: p.Known, Feed: p.Feed, Host: p.Host, Log: p.Log, Lease: p.Settings.Lease,
		PauseExpiry: p.Settings.PauseExpiry, Tick: lookEvery, HandOverAfter: p.Cloud.HandOverAfter, Drain: drainTime,
		Loop:  &agent.Loop{Models: models, Host: p.Host, Tried: p.Metrics.Called},
		Tools: p.Toolkits, MayReach: p.Tenants.SenderMayReach,
	}, nil
}
