// Package brokerclient makes the broker's client for functions that may not open secrets. It is separate from cloud so
// that the other functions do not link it.
//
// It is wiring and contains no rules.
package brokerclient

import (
	"errors"

	"agentplatform/internal/ai/provider"
	"agentplatform/internal/ai/provider/registry"
	"agentplatform/internal/wiring/broker"
	"agentplatform/internal/wiring/broker/lambdabroker"
	"agentplatform/internal/wiring/cloud"
)

// New makes the client, and uses it for the platform's models, except those of providers without a key. It fails if the
// setting for the broker is missing.
func New(p *cloud.Platform) (*broker.Client, error) {
	if p.Cloud.Broker == "" {
		return nil, errors.New("settings: BROKER_FUNCTION is required")
	}
	client := &broker.Client{Broker: lambdabroker.New(p.Account, p.Cloud.Broker)}
	p.Models = &broker.Models{
		Client: client, Near: &provider.Set{Host: p.Host, Catalogues: registry.KeylessCatalogues(p.Settings)},
	}
	return client, nil
}
