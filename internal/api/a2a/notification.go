package a2a

import (
	"encoding/json"
	"fmt"

	"agentplatform/events"
	"agentplatform/internal/run/view"
)

// The forms of push notifications, by the names under which they are stored.
const (
	form03 = "a2a/0.3"
	form10 = "a2a/1.0"
)

// Form is the name of the form of a version's push notifications.
func (d Dialect) Form() string {
	if d == V10 {
		return form10
	}
	return form03
}

// Notification is a webhook as a push notification of a form. It has the task, with its answer or its questions. The
// parameter api is the address of the API, for files. It returns the media type of the body. It returns an error for an
// unknown form or an unknown webhook.
func Notification(form, api string, w events.Webhook) (contentType string, body []byte, err error) {
	s := Shapes{API: api}
	switch form {
	case form03:
		contentType = "application/json"
	case form10:
		s.Dialect, contentType = V10, "application/a2a+json"
	default:
		return "", nil, fmt.Errorf("a2a: there is no form %q", form)
	}
	v := view.Run{
		RunID: w.RunID, ChatID: w.ChatID, Status: w.Status, Error: w.Error, Result: w.Result, Partial: w.Partial,
		UpdatedAt: w.OccurredAt,
	}
	if err := json.Unmarshal(w.Interrupts, &v.Interrupts); err != nil {
		return "", nil, fmt.Errorf("a2a: the interrupts of a webhook: %w", err)
	}
	body, err = json.Marshal(s.Wrap("task", s.Task(v)))
	return contentType, body, err
}
