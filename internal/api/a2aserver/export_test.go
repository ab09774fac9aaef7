package a2aserver

import "agentplatform/internal/run/stream"

// Translate is what the reply's Follow sends for an event, and whether that is the last.
func (r Reply) Translate(e stream.Event) (messages []any, last bool) { return r.translate(e) }
