// Package a2a has the shapes in which clients of the Agent2Agent protocol see runs, in both versions of the protocol in
// use. A run is a task, its pause is the state `input-required`, its result is an artifact.
//
// The package must not know requests or the sender of the data that it shapes. It imports view, record, lifecycle and
// events.
package a2a

import (
	"encoding/json"
	"strings"

	"agentplatform/internal/core/lifecycle"
	"agentplatform/internal/run/view"
	"agentplatform/internal/store/record"
)

// Dialect is a version of the protocol.
type Dialect int

// The versions.
const (
	V03 Dialect = iota // kinds as members, enumeration values in lower case
	V10                // the JSON form of protocol buffers
)

// Object is an object of JSON.
type Object = map[string]any

// Shapes makes the objects of a version.
type Shapes struct {
	Dialect Dialect
	API     string // the address of the API: the part before /files/
}

// Part is a part of a message: a text, data, or a file's address.
type Part struct {
	Text      string
	Data      any
	URL       string
	Name      string
	MediaType string
}

func (s Shapes) part(p Part) Object {
	switch {
	case p.URL != "" && s.Dialect == V10:
		return Object{"url": p.URL, "filename": p.Name, "mediaType": p.MediaType}
	case p.URL != "":
		return s.kind("file", Object{"file": Object{"uri": p.URL, "name": p.Name, "mimeType": p.MediaType}})
	case p.Data != nil:
		return s.kind("data", Object{"data": p.Data})
	}
	return s.kind("text", Object{"text": p.Text})
}

func (s Shapes) parts(list []Part) []Object {
	parts := make([]Object, 0, len(list))
	for _, p := range list {
		parts = append(parts, s.part(p))
	}
	return parts
}

// The roles of messages.
const (
	User  = "user"
	agent = "agent"
)

// Message is a message of a run's task.
func (s Shapes) Message(v view.Run, role, id string, parts []Part) Object {
	if s.Dialect == V10 {
		role = "ROLE_" + strings.ToUpper(role)
	}
	return s.kind("message", Object{
		"messageId": id, "role": role, "parts": s.parts(parts), "taskId": v.RunID, "contextId": v.ChatID,
	})
}

// kind adds the member that names the type of an object in 0.3.
func (s Shapes) kind(name string, v Object) Object {
	if s.Dialect == V03 {
		v["kind"] = name
	}
	return v
}

var states = map[string]string{
	string(lifecycle.Queued): "submitted", string(lifecycle.Running): "working",
	string(lifecycle.AwaitingInput): "input-required",
	string(lifecycle.Completed):     "completed", string(lifecycle.Failed): "failed",
	string(lifecycle.Cancelled): "canceled", string(lifecycle.TimedOut): "failed",
}

// State returns the state of a task for the status of its run.
func (d Dialect) State(status string) string {
	s := states[status]
	if d == V10 {
		s = "TASK_STATE_" + strings.ToUpper(strings.ReplaceAll(s, "-", "_"))
	}
	return s
}

// Unspecified is the value that 1.0 has for no state.
const Unspecified = "TASK_STATE_UNSPECIFIED"

// States reports for each state of version 1.0 whether a task of ours can be in it.
var States = func() map[string]bool {
	known := map[string]bool{Unspecified: false, "TASK_STATE_REJECTED": false, "TASK_STATE_AUTH_REQUIRED": false}
	for status := range states {
		known[V10.State(status)] = true
	}
	return known
}()

// statusOf is a run's state with its message: the questions it waits for, or why it failed.
func (s Shapes) statusOf(v view.Run) Object {
	status := Object{"state": s.Dialect.State(v.Status), "timestamp": v.UpdatedAt}
	switch {
	case v.Status == string(lifecycle.AwaitingInput):
		prompts := make([]string, 0, len(v.Interrupts))
		for _, i := range v.Interrupts {
			prompts = append(prompts, i.Prompt)
		}
		status["message"] = s.Message(v, agent, v.RunID+"-asks",
			[]Part{{Text: strings.Join(prompts, "\n")}, {Data: Object{"interrupts": v.Interrupts}}})
	case v.Error != nil:
		status["message"] = s.Message(v, agent, v.RunID+"-error", []Part{{Text: *v.Error}})
	}
	return status
}

// answerID is the id of a task's only artifact: the answer.
const answerID = "answer"

// Task is a run as a task.
func (s Shapes) Task(v view.Run) Object {
	t := s.kind("task", Object{"id": v.RunID, "contextId": v.ChatID, "status": s.statusOf(v)})
	if parts := s.answer(v); parts != nil {
		t["artifacts"] = []Object{{"artifactId": answerID, "parts": s.parts(parts)}}
	}
	return t
}

// answer returns the parts of a run's answer; nil where it has made none.
func (s Shapes) answer(v view.Run) []Part {
	var result struct {
		Answer string `json:"answer"`
	}
	var others []Part
	switch {
	case v.Partial != nil:
		result.Answer = v.Partial.Answer
	case v.Status != string(lifecycle.Completed) || v.Result == nil || json.Unmarshal(v.Result, &result) != nil:
		return nil
	default:
		others = s.otherParts(v)
	}
	if result.Answer == "" {
		return others
	}
	return append([]Part{{Text: result.Answer}}, others...)
}

// Piece is the event with a piece of the answer's text. more adds the piece to those before.
func (s Shapes) Piece(v view.Run, text string, more bool) Object {
	return s.artifact(v, []Part{{Text: text}}, more, false)
}

// Whole is the event with the whole answer in place of its pieces, as the last event of the answer; nil: there is no
// answer.
func (s Shapes) Whole(v view.Run) Object {
	if parts := s.answer(v); parts != nil {
		return s.artifact(v, parts, false, true)
	}
	return nil
}

func (s Shapes) artifact(v view.Run, parts []Part, more, last bool) Object {
	return s.Wrap("artifactUpdate", s.kind("artifact-update", Object{"taskId": v.RunID, "contextId": v.ChatID,
		"artifact": Object{"artifactId": answerID, "parts": s.parts(parts)}, "append": more, "lastChunk": last}))
}

// Status is the event with the state of a run.
func (s Shapes) Status(v view.Run) Object {
	e := s.kind("status-update", Object{"taskId": v.RunID, "contextId": v.ChatID, "status": s.statusOf(v)})
	if s.Dialect == V03 {
		e["final"] = lifecycle.Status(v.Status).EndedOrWaiting()
	}
	return s.Wrap("statusUpdate", e)
}

// Wrap adds the member that names the type of a result in 1.0; in 0.3 the result has a member kind.
func (s Shapes) Wrap(name string, v Object) Object {
	if s.Dialect == V10 {
		return Object{name: v}
	}
	return v
}

// FileParts are files as parts.
func (s Shapes) FileParts(list []record.FileRef) (parts []Part) {
	for _, f := range list {
		parts = append(parts, Part{URL: s.API + "/files/" + f.FileID, Name: f.Name, MediaType: f.ContentType})
	}
	return parts
}

// otherParts are the parts of a result other than its text.
func (s Shapes) otherParts(v view.Run) []Part {
	var result struct {
		Output    json.RawMessage   `json:"output"`
		Citations []json.RawMessage `json:"citations"`
		Files     []record.FileRef  `json:"files"`
	}
	_ = json.Unmarshal(v.Result, &result)
	var parts []Part
	if len(result.Output) > 0 && string(result.Output) != "null" {
		parts = append(parts, Part{Data: result.Output})
	}
	if len(result.Citations) > 0 {
		parts = append(parts, Part{Data: Object{"citations": result.Citations}})
	}
	return append(parts, s.FileParts(result.Files)...)
}
