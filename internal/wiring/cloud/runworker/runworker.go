// Package runworker makes the worker of the function that executes runs, with its models and toolkits. It is separate
// from cloud so that the other functions do not link them.
//
// It is wiring and contains no rules.
package runworker

import (
	"context"
	"errors"
	"time"

	"agentplatform/internal/ai/provider/registry"
	"agentplatform/internal/org/toolkit/adapters"
	"agentplatform/internal/run/agent"
	"agentplatform/internal/run/worker"
	"agentplatform/internal/text/reader"
	"agentplatform/internal/text/reader/lambdareader"
	"agentplatform/internal/wiring/cloud"
	"agentplatform/internal/wiring/cloud/search"
)

const (
	pollEvery = time.Second // the interval at which a running run checks for a cancel
	// For the step in progress at a release: part of the time, at least a minute, that HAND_OVER_AFTER leaves.
	drainTime = 20 * time.Second
)

// New makes the worker. It reads the keys of model providers with one call. It fails if they cannot be read or a
// setting is unusable.
func New(ctx context.Context, p *cloud.Platform) (*worker.Worker, error) {
	if p.Cloud.Reader == "" {
		return nil, errors.New("settings: READER_FUNCTION is required")
	}
	if err := p.ReadSecrets(ctx); err != nil {
		return nil, err
	}
	if err := adapters.Make(p.Toolkits, p.Settings); err != nil {
		return nil, err
	}
	models, err := registry.Models(ctx, p.Settings, p.Host)
	if err != nil {
		return nil, err
	}
	k, err := search.New(ctx, p, nil)
	if err != nil {
		return nil, err
	}
	return &worker.Worker{
		Executor: p.Executor, Store: p.Store, Cached: p.Cached, Hub: p.Hub, Host: p.Host, Log: p.Log,
		Lease:       p.Settings.Lease,
		PauseExpiry: p.Settings.PauseExpiry, Tick: pollEvery, ReleaseAfter: p.Cloud.ReleaseAfter, Drain: drainTime,
		Loop:  &agent.Loop{Models: models, Host: p.Host, Called: called(p.Metrics), Worked: p.Metrics.Worked},
		Tools: p.Toolkits, CanAccess: p.Tenants.SenderMayReach, CitationFilter: p.Tenants.SenderReads,
		Search: k.SearchForRun,
		// Another function reads the files of messages: this one has too little memory.
		TextOf: (&reader.Client{Store: p.Store, Invoke: lambdareader.Line(p.Account, p.Cloud.Reader)}).Text,
	}, nil
}

func called(m *cloud.Metrics) func(agent.Called) {
	return func(c agent.Called) {
		if c.Tool {
			m.CalledTool(c.Took, c.Failed)
		} else {
			m.CalledModel(c.Provider, c.Took, c.Failed)
		}
	}
}
