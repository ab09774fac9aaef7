package webhooks

import (
	"encoding/json"

	"github.com/danielgtaylor/huma/v2"

	"agentplatform/events"
	"agentplatform/internal/api/httpapi"
	"agentplatform/internal/run/view"
)

// Pushed describes the common members of the bodies of pushes to the OpenAPI document, as [events.Webhook] has them. It
// is exported because it is embedded.
type Pushed struct {
	Version     int                `json:"version" minimum:"1" maximum:"1"`
	DeliveryID  string             `json:"delivery_id"`
	RunID       string             `json:"run_id"`
	ChatID      string             `json:"chat_id"`
	AgentID     string             `json:"agent_id"`
	Interrupts  []events.Interrupt `json:"interrupts"`
	Error       *string            `json:"error"`
	Result      json.RawMessage    `json:"result" shape:"Result|null"`
	Partial     *events.Partial    `json:"partial,omitempty" doc:"only for a cancelled run with partial text"`
	UsageStatus *string            `json:"usage_status" doc:"billed, for a completed run"`
	Metadata    map[string]string  `json:"metadata"`
	OccurredAt  string             `json:"occurred_at"`
	Sequence    int                `json:"sequence" doc:"increases with each push of a run"`
}

type pauseWebhook struct {
	Event  string `json:"event" enum:"agent_run.awaiting_input"`
	Status string `json:"status" enum:"awaiting_input"`
	Pushed
}

type terminalWebhook struct {
	Event  string `json:"event" enum:"agent_run.terminal"`
	Status string `json:"status" enum:"completed,failed,cancelled,timed_out"`
	Pushed
}

// describePushes puts the requests that callback_url receives into the document.
func (h *handlers) describePushes() {
	waits, ended := view.Handle{}.Example().(view.Handle), view.Run{}.Example().(view.Run)
	last := pushed(ended.Interrupts, 2)
	billed := "billed"
	last.Result, last.UsageStatus = ended.Result, &billed
	describe := func(event, id, summary string, body *huma.Schema, example any) {
		h.DescribeWebhook(event, huma.Operation{
			OperationID: id, Summary: summary, Tags: []string{"webhooks"}, Parameters: pushHeaders(),
			Description: "Sent to the callback_url. Answer with 2xx; 5xx, 429 and failures to connect are tried " +
				"again, each time with the same webhook-id.",
			RequestBody: &huma.RequestBody{
				Required: true,
				Content:  map[string]*huma.MediaType{"application/json": {Schema: body, Example: example}},
			},
			Responses: map[string]*huma.Response{"200": {Description: "Received; so is any other 2xx"}},
		})
	}
	describe(events.WebhookAwaitingInput, "agentRunAwaitingInput", "A run pauses for a human decision",
		httpapi.SchemaOf[pauseWebhook](h.Server), pauseWebhook{
			Event: events.WebhookAwaitingInput, Status: waits.Status, Pushed: pushed(waits.Interrupts, 1),
		})
	describe(events.WebhookTerminal, "agentRunTerminal", "A run has ended", httpapi.SchemaOf[terminalWebhook](h.Server),
		terminalWebhook{Event: events.WebhookTerminal, Status: ended.Status, Pushed: last})
}

// pushed is an example of the common members of pushes.
func pushed(interrupts []events.Interrupt, sequence int) Pushed {
	run := view.Run{}.Example().(view.Run)
	return Pushed{
		Version: 1, DeliveryID: view.ExampleRequest, RunID: run.RunID, ChatID: run.ChatID, AgentID: run.AgentID,
		Interrupts: interrupts, Metadata: run.Metadata, OccurredAt: run.UpdatedAt, Sequence: sequence,
	}
}

func pushHeaders() (list []*huma.Param) {
	for _, p := range []struct {
		name, description, example string
		always                     bool
	}{
		{"x-agent-signature", "sha256=<hex HMAC-SHA256 of the raw body>, where a webhook secret is configured",
			"sha256=b94d27b9934d3e08a52e52d7da7dabfac484efe37a5380ee9088f7ace2efcde9", false},
		{"webhook-id", "The delivery's id (Standard Webhooks): the same for each attempt",
			"65f0a1b2c3d4e5f601234567", true},
		{"webhook-timestamp", "Seconds since 1970 (Standard Webhooks)", "1767323045", true},
		{"webhook-signature", "v1,<base64> (Standard Webhooks), where a webhook secret is configured; two, with a " +
			"space between, while a rotation's overlap lasts",
			"v1,uU0nuZNNPgilLlLX2n2r+sSE7+N6U4DukIj3rOLvzek=", false},
	} {
		list = append(list, &huma.Param{
			Name: p.name, In: "header", Description: p.description, Required: p.always,
			Schema: &huma.Schema{Type: huma.TypeString}, Example: p.example,
		})
	}
	return list
}
