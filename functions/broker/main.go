// Command broker is the Lambda function that does the work of api that needs opened secrets, so that api need not open
// them. It calls toolkits' servers and model providers, and posts test events. Only api may invoke it.
package main

import (
	"context"
	"time"

	"agentplatform/internal/ai/provider/registry"
	"agentplatform/internal/org/toolkit/adapters"
	"agentplatform/internal/platform/egress"
	"agentplatform/internal/run/webhook"
	"agentplatform/internal/wiring/broker"
	"agentplatform/internal/wiring/cloud"
	"agentplatform/internal/wiring/cloud/function"
)

func main() {
	function.Run(func(p *cloud.Platform) (any, error) {
		ctx := context.Background()
		if err := p.ReadSecrets(ctx); err != nil {
			return nil, err
		}
		if err := adapters.Make(p.Toolkits, p.Settings); err != nil {
			return nil, err
		}
		policy, err := egress.Read(p.Settings.WebhookAllowHosts, "WEBHOOK_CA_FILE", p.Settings.WebhookCAFile)
		if err != nil {
			return nil, err
		}
		embeddings, err := registry.OpenEmbeddings(ctx, p.Settings, nil)
		if err != nil {
			return nil, err
		}
		if embeddings.Lacking != nil {
			p.Log.Error("an embedding model cannot be used", "error", embeddings.Lacking)
		}
		b := &broker.Broker{
			Toolkits: p.Toolkits,
			Webhooks: &webhook.Sender{
				Store: p.Store, Host: p.Host, Client: policy.Client(time.Minute), Log: p.Log,
				Secret: p.Settings.WebhookSecret, Sealer: p.Sealer, CitationFilter: p.Tenants.SenderReads,
			},
			Callbacks: policy, Models: p.Models, Embeddings: embeddings.Models, Log: p.Log,
		}
		return p.Asks(b.Invoke), nil
	})
}
