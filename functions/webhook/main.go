// Command webhook is the Lambda function that sends webhooks; the webhook queue triggers it.
package main

import (
	"context"
	"time"

	"agentplatform/events"
	"agentplatform/internal/api/a2a"
	"agentplatform/internal/platform/egress"
	"agentplatform/internal/run/webhook"
	"agentplatform/internal/wiring/cloud"
	"agentplatform/internal/wiring/cloud/function"
	"agentplatform/internal/wiring/trigger"
)

func main() {
	function.Run(func(p *cloud.Platform) (any, error) {
		policy, err := egress.Read(p.Settings.WebhookAllowHosts, "WEBHOOK_CA_FILE", p.Settings.WebhookCAFile)
		if err != nil {
			return nil, err
		}
		if err := p.ReadSecrets(context.Background()); err != nil {
			return nil, err
		}
		sender := &webhook.Sender{
			Store: p.Store, Host: p.Host, Client: policy.Client(time.Minute), Log: p.Log,
			Secret: p.Settings.WebhookSecret, Sealer: p.Sealer, OnAttempt: p.Metrics.Delivered,
			CitationFilter: p.Tenants.SenderReads, Form: a2a.Notification,
		}
		return trigger.Messages(p.Queues[events.WakeupWebhook], p.Log, p.TraceWakeups(sender.Handle)), nil
	})
}
