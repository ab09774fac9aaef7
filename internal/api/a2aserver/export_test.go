package a2aserver

import "agentplatform/internal/run/stream"

// Translate returns the messages that the reply's Follow sends for an event, and whether that event is the last.
func (r Reply) Translate(e stream.Event) (messages []any, last bool) { return r.translate(e) }
