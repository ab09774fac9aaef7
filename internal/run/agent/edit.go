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

// maxNoted is how many bytes of arguments a note quotes. The call itself has the used ones whole.
const maxNoted = 2 << 10

// edited is the arguments of a call as they are to be used: those of its last edit, in a pause of either kind.
func (s *session) edited(key string, arguments json.RawMessage) json.RawMessage {
	for _, d := range s.decided(key) {
		if d.Decision == string(lifecycle.Edit) {
			arguments = d.Arguments
		}
	}
	return arguments
}

// noteOn is what the model reads of a call whose arguments a human changed, or which had been begun before: both may
// have been done. Else it is empty. It follows from the journal, so each attempt makes the same.
func (s *session) noteOn(c record.Call, done record.Step) string {
	if len(done.Arguments) == 0 {
		return "" // of an earlier version
	}
	var notes []string
	if !sameValue(c.Arguments, done.Arguments) {
		notes = append(notes, fmt.Sprintf("A human changed the arguments of this call from %s to %s. "+
			"Do not repeat it with the former ones.", quoted(c.Arguments), quoted(done.Arguments)))
	}
	if len(s.decisions(done.CallID, true)) > 0 {
		with := ""
		for _, step := range s.steps {
			if step.Kind == record.StartStep && step.CallID == done.CallID && step.Outcome != notBegun &&
				!sameValue(step.Arguments, done.Arguments) {
				with = " with " + quoted(step.Arguments)
			}
		}
		notes = append(notes, "The call had been begun before"+with+", and the outcome of that is not known.")
	}
	return strings.Join(notes, " ")
}

func quoted(arguments json.RawMessage) string { return tool.Clip(string(arguments), maxNoted) }

// sameValue reports whether arguments are equal. The order of members does not count.
func sameValue(a, b json.RawMessage) bool { return bytes.Equal(a, b) || strictjson.Same(a, b) }
