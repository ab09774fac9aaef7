package a2a_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/events"
	"agentplatform/internal/api/a2a"
)

const api = "https://api.example.com/api/v1"

func ended() events.Webhook {
	return events.Webhook{RunID: "r", ChatID: "c", Status: "completed", Interrupts: json.RawMessage(`[]`),
		Result: json.RawMessage(`{"answer":"yes","files":[
			{"file_id":"f","name":"a.txt","content_type":"text/plain"}]}`),
		OccurredAt: "2026-03-01T12:00:00.000Z"}
}

func paused() events.Webhook {
	return events.Webhook{RunID: "r", ChatID: "c", Status: "awaiting_input",
		Interrupts: json.RawMessage(`[{"id":"i","kind":"clarification","prompt":"Which?","created_at":"t"}]`),
		Result:     json.RawMessage("null"), OccurredAt: "2026-03-01T12:00:00.000Z"}
}

// 0.3 posts the task, 1.0 a response of its streams that has the task.
func TestANotificationIsTheTaskInItsVersion(t *testing.T) {
	why := "no luck"
	failed := events.Webhook{RunID: "r", ChatID: "c", Status: "failed", Interrupts: json.RawMessage(`[]`),
		Error: &why, Result: json.RawMessage("null"), OccurredAt: "2026-03-01T12:00:00.000Z"}
	cancelled := events.Webhook{RunID: "r", ChatID: "c", Status: "cancelled", Interrupts: json.RawMessage(`[]`),
		Partial: &events.Partial{Answer: "ye", FinishReason: "cancelled"}, Result: json.RawMessage("null"),
		OccurredAt: "2026-03-01T12:00:00.000Z"}
	for name, c := range map[string]struct {
		dialect   a2a.Dialect
		webhook   events.Webhook
		mediaType string
		body      string
	}{
		"the end in 0.3": {a2a.V03, ended(), "application/json", `{"kind":"task","id":"r","contextId":"c",
			"status":{"state":"completed","timestamp":"2026-03-01T12:00:00.000Z"},
			"artifacts":[{"artifactId":"answer","parts":[{"kind":"text","text":"yes"},{"kind":"file",
				"file":{"uri":"https://api.example.com/api/v1/files/f","name":"a.txt","mimeType":"text/plain"}}]}]}`},
		"the end in 1.0": {a2a.V10, ended(), "application/a2a+json", `{"task":{"id":"r","contextId":"c",
			"status":{"state":"TASK_STATE_COMPLETED","timestamp":"2026-03-01T12:00:00.000Z"},
			"artifacts":[{"artifactId":"answer","parts":[{"text":"yes"},
				{"url":"https://api.example.com/api/v1/files/f","filename":"a.txt","mediaType":"text/plain"}]}]}}`},
		"a pause in 0.3": {a2a.V03, paused(), "application/json", `{"kind":"task","id":"r","contextId":"c",
			"status":{"state":"input-required","timestamp":"2026-03-01T12:00:00.000Z","message":{"kind":"message",
				"messageId":"r-asks","role":"agent","taskId":"r","contextId":"c","parts":[
				{"kind":"text","text":"Which?"},{"kind":"data","data":{"interrupts":[
					{"id":"i","kind":"clarification","prompt":"Which?","created_at":"t"}]}}]}}}`},
		"a cancel in 1.0, with the text until then": {a2a.V10, cancelled, "application/a2a+json", `{"task":{"id":"r",
			"contextId":"c","status":{"state":"TASK_STATE_CANCELED","timestamp":"2026-03-01T12:00:00.000Z"},
			"artifacts":[{"artifactId":"answer","parts":[{"text":"ye"}]}]}}`},
		"a failure in 1.0": {a2a.V10, failed, "application/a2a+json", `{"task":{"id":"r","contextId":"c",
			"status":{"state":"TASK_STATE_FAILED","timestamp":"2026-03-01T12:00:00.000Z","message":{
				"messageId":"r-error","role":"ROLE_AGENT","taskId":"r","contextId":"c",
				"parts":[{"text":"no luck"}]}}}}`},
	} {
		mediaType, body, err := a2a.Notification(c.dialect.Form(), api, c.webhook)
		require.NoError(t, err, name)
		assert.Equal(t, c.mediaType, mediaType, name)
		assert.JSONEq(t, c.body, string(body), name)
	}
}

// The same webhook is the same bytes, however often it is sent.
func TestANotificationHasTheSameBytesEachTime(t *testing.T) {
	_, first, err := a2a.Notification(a2a.V10.Form(), api, paused())
	require.NoError(t, err)
	for range 20 {
		_, again, err := a2a.Notification(a2a.V10.Form(), api, paused())
		require.NoError(t, err)
		assert.Equal(t, string(first), string(again))
	}
}

func TestAnUnknownFormOrAWebhookWithoutInterruptsIsAnError(t *testing.T) {
	_, _, err := a2a.Notification("a2a/9", api, ended())
	require.ErrorContains(t, err, `no form "a2a/9"`)
	_, _, err = a2a.Notification(a2a.V03.Form(), api, events.Webhook{})
	require.ErrorContains(t, err, "interrupts")
}
