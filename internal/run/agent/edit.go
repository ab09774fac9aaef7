package agent

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"

	"agentplatform/internal/ai/tool"
	"agentplatform/internal/core/lifecycle"
	"agentplatform/internal/store/record"
)

// maxNoted is how many bytes of arguments a note quotes. The call itself has the used ones whole.
const maxNoted = 2 << 10

// edited is the arguments of a call as they are to be used: those of its last edit, in a pause of either kind.
func (s *session) edited(key string, arguments json.RawMessage) json.RawMessage {
	for _, pause := range s.Pauses {
		for _, i := range pause {
			if d := s.Decided[i.ID]; i.Call == key && d.Decision == string(lifecycle.Edit) {
				arguments = d.Arguments
			}
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

// sameValue reports whether two JSON values in their normal form differ in the order of members at most.
func sameValue(a, b json.RawMessage) bool {
	if bytes.Equal(a, b) {
		return true
	}
	read := func(raw json.RawMessage) (v any, err error) {
		d := json.NewDecoder(bytes.NewReader(raw))
		d.UseNumber() // a number of more digits than a float has is another number
		err = d.Decode(&v)
		return v, err
	}
	x, wrongX := read(a)
	y, wrongY := read(b)
	return wrongX == nil && wrongY == nil && reflect.DeepEqual(x, y)
}
