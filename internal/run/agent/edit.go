package agent

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"agentplatform/internal/ai/tool"
	"agentplatform/internal/core/lifecycle"
	"agentplatform/internal/platform/strictjson"
	"agentplatform/internal/store/record"
)

// maxNoted is the number of bytes of arguments that a note quotes. The call itself has the used arguments in full.
const maxNoted = 2 << 10

// edited returns the arguments to use for a call: those of its last edit, in a pause of either kind.
func (s *session) edited(key string, arguments json.RawMessage) json.RawMessage {
	for _, d := range s.decided(key) {
		if d.Decision == string(lifecycle.Edit) {
			arguments = d.Arguments
		}
	}
	return arguments
}

// noteOn is the note for the model on a call whose arguments a person changed, or which had been started before. In
// both cases the earlier form may have been executed. Otherwise it is empty. It follows from the journal, so each
// attempt makes the same note.
func (s *session) noteOn(c record.Call, done record.Step) string {
	if len(done.Arguments) == 0 {
		return "" // of an earlier version
	}
	var notes []string
	if !sameValue(c.Arguments, done.Arguments) {
		notes = append(notes, fmt.Sprintf("A human changed the arguments of this call from %s to %s. "+
			"Do not repeat it with the earlier arguments.", quoted(c.Arguments), quoted(done.Arguments)))
	}
	if len(s.decisions(done.CallID, true)) > 0 {
		with := ""
		for _, step := range s.steps {
			if step.Kind == record.StartStep && step.CallID == done.CallID && step.Outcome != notBegun &&
				!sameValue(step.Arguments, done.Arguments) {
				with = " with " + quoted(step.Arguments)
			}
		}
		notes = append(notes, "The call had started before"+with+", and its outcome is not known.")
	}
	return strings.Join(notes, " ")
}

func quoted(arguments json.RawMessage) string { return tool.Clip(string(arguments), maxNoted) }

// sameValue reports whether arguments are equal. The order of members does not count.
func sameValue(a, b json.RawMessage) bool { return bytes.Equal(a, b) || strictjson.Same(a, b) }
