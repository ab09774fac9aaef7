package a2aserver

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"time"

	"agentplatform/internal/lifecycle"
	"agentplatform/internal/problem"
	"agentplatform/internal/tenant"
	"agentplatform/internal/view"
)

// dialect is a version of the protocol. Differences between the two are handled in this file.
type dialect int

const (
	v03 dialect = iota // kinds as members, enumeration values in lower case
	v10                // the JSON form of protocol buffers
)

type object = map[string]any

// sendParams are the parameters of sending a message, in either version.
type sendParams struct {
	Message       message       `json:"message"`
	Configuration configuration `json:"configuration"`
}

type message struct {
	MessageID string `json:"messageId"`
	ContextID string `json:"contextId"`
	TaskID    string `json:"taskId"`
	Parts     []struct {
		Text *string         `json:"text"`
		Data json.RawMessage `json:"data"`

		// A file: its bytes as base64, or its address. 1.0:
		Raw       *string `json:"raw"`
		URL       string  `json:"url"`
		Filename  string  `json:"filename"`
		MediaType string  `json:"mediaType"`
		// 0.3:
		File *struct {
			Bytes    *string `json:"bytes"`
			URI      string  `json:"uri"`
			Name     string  `json:"name"`
			MimeType string  `json:"mimeType"`
		} `json:"file"`
	} `json:"parts"`
}

type configuration struct {
	Blocking          *bool `json:"blocking"`          // 0.3
	ReturnImmediately bool  `json:"returnImmediately"` // 1.0
	HistoryLength     *int  `json:"historyLength"`
}

func (c configuration) immediately() bool {
	return c.ReturnImmediately || (c.Blocking != nil && !*c.Blocking)
}

type taskParams struct {
	ID            string `json:"id"`
	HistoryLength *int   `json:"historyLength"`
}

// listParams are the parameters of listing tasks, in 1.0.
type listParams struct {
	ContextID            string    `json:"contextId"`
	Status               string    `json:"status"`
	PageSize             *int      `json:"pageSize"`
	PageToken            string    `json:"pageToken"`
	HistoryLength        *int      `json:"historyLength"`
	StatusTimestampAfter time.Time `json:"statusTimestampAfter"`
	IncludeArtifacts     bool      `json:"includeArtifacts"`
}

// part is a part of a message: a text, data, or a file's address.
type part struct {
	Text      string
	Data      any
	URL       string
	Name      string
	MediaType string
}

func (d dialect) part(p part) object {
	switch {
	case d == v10 && p.URL != "":
		return object{"url": p.URL, "filename": p.Name, "mediaType": p.MediaType}
	case d == v10 && p.Data != nil:
		return object{"data": p.Data}
	case d == v10:
		return object{"text": p.Text}
	case p.URL != "":
		return object{"kind": "file", "file": object{"uri": p.URL, "name": p.Name, "mimeType": p.MediaType}}
	case p.Data != nil:
		return object{"kind": "data", "data": p.Data}
	default:
		return object{"kind": "text", "text": p.Text}
	}
}

func (d dialect) parts(list []part) []object {
	parts := make([]object, 0, len(list))
	for _, p := range list {
		parts = append(parts, d.part(p))
	}
	return parts
}

const (
	user  = "user"
	agent = "agent"
)

func (d dialect) message(v view.Run, role, id string, parts []part) object {
	m := object{"messageId": id, "role": role, "parts": d.parts(parts), "taskId": v.RunID, "contextId": v.ChatID}
	if d == v10 {
		m["role"] = "ROLE_" + strings.ToUpper(role)
	} else {
		m["kind"] = "message"
	}
	return m
}

var states = map[string]string{
	string(lifecycle.Queued): "submitted", string(lifecycle.Running): "working",
	string(lifecycle.AwaitingInput): "input-required",
	string(lifecycle.Completed):     "completed", string(lifecycle.Failed): "failed",
	string(lifecycle.Cancelled): "canceled", string(lifecycle.TimedOut): "failed",
}

func (d dialect) state(v view.Run) string {
	return d.stateOf(v.Status)
}

func (d dialect) stateOf(status string) string {
	s := states[status]
	if d == v10 {
		s = "TASK_STATE_" + strings.ToUpper(strings.ReplaceAll(s, "-", "_"))
	}
	return s
}

// statusOf is a run's state with its message: the questions it waits for, or why it failed.
func (d dialect) statusOf(v view.Run) object {
	s := object{"state": d.state(v), "timestamp": v.UpdatedAt}
	switch {
	case v.Status == string(lifecycle.AwaitingInput):
		prompts := make([]string, 0, len(v.Interrupts))
		for _, i := range v.Interrupts {
			prompts = append(prompts, i.Prompt)
		}
		s["message"] = d.message(v, agent, v.RunID+"-asks",
			[]part{{Text: strings.Join(prompts, "\n")}, {Data: object{"interrupts": v.Interrupts}}})
	case v.Error != nil:
		s["message"] = d.message(v, agent, v.RunID+"-error", []part{{Text: *v.Error}})
	}
	return s
}

// answerID is the id of a task's only artifact: the answer.
const answerID = "answer"

func (c *call) task(v view.Run) object {
	t := object{"id": v.RunID, "contextId": v.ChatID, "status": c.statusOf(v)}
	if c.dialect == v03 {
		t["kind"] = "task"
	}
	var result struct {
		Answer string `json:"answer"`
	}
	if json.Unmarshal(v.Result, &result) == nil && v.Status == string(lifecycle.Completed) && v.Result != nil {
		parts := append([]part{{Text: result.Answer}}, c.otherParts(v)...)
		t["artifacts"] = []object{{"artifactId": answerID, "parts": c.parts(parts)}}
	}
	return t
}

func (c *call) piece(v view.Run, text string, more bool) any {
	return c.artifact(v, []part{{Text: text}}, more, false)
}

func (c *call) artifact(v view.Run, parts []part, more, last bool) any {
	e := object{"taskId": v.RunID, "contextId": v.ChatID,
		"artifact": object{"artifactId": answerID, "parts": c.parts(parts)}, "append": more, "lastChunk": last}
	if c.dialect == v03 {
		e["kind"] = "artifact-update"
	}
	return c.event("artifactUpdate", e)
}

func (c *call) status(v view.Run) any {
	e := object{"taskId": v.RunID, "contextId": v.ChatID, "status": c.statusOf(v)}
	if c.dialect == v03 {
		e["kind"] = "status-update"
		e["final"] = lifecycle.Status(v.Status).EndedOrWaiting()
	}
	return c.event("statusUpdate", e)
}

// wrap adds the member that names the type of a result in 1.0; in 0.3 the result has a member kind.
func (d dialect) wrap(name string, v object) object {
	if d == v10 {
		return object{name: v}
	}
	return v
}

func (c *call) event(name string, v object) any { return c.result(c.wrap(name, v)).Message }

func (c *call) result(v any) Reply {
	return Reply{Message: object{"jsonrpc": "2.0", "id": c.id, "result": v}}
}

// fault is an error of the protocol.
type fault struct {
	code int
	text string
}

func (f *fault) Error() string { return f.text }

// The protocol's error codes.
const (
	parseError       = -32700
	invalidRequest   = -32600
	methodNotFound   = -32601
	invalidParams    = -32602
	internalError    = -32603
	taskNotFound     = -32001
	notCancelable    = -32002
	pushNotSupported = -32003
	unsupported      = -32004
	contentType      = -32005
)

func (c *call) fault(f *fault) Reply {
	e := object{"code": f.code, "message": f.text}
	if c.dialect == v03 {
		e["data"] = object{"error": f.text} // where clients of 0.3 look for the text
	}
	return Reply{Message: object{"jsonrpc": "2.0", "id": c.id, "error": e}}
}

// Malformed is the response to a body that is not valid JSON.
func Malformed(text string) any {
	c := call{id: []byte("null")}
	return c.fault(&fault{parseError, text}).Message
}

// protocolNames replaces our names of a message's fields with the protocol's in error texts.
var protocolNames = strings.NewReplacer("chat_id: ", "message.contextId: ", "idempotency_key: ", "message.messageId: ",
	"message: ", "message.parts: ")

// faultOf converts a problem; other errors become an internal error, and their text goes to the log only.
func (s *Server) faultOf(err error) *fault {
	var known *fault
	if errors.As(err, &known) {
		return known
	}
	p, ok := problem.As(err)
	if !ok {
		s.Log.Error("a request through A2A could not be carried out", "error", err)
		return &fault{internalError, "something went wrong on our side"}
	}
	switch p.Kind {
	case problem.Invalid, problem.TooLarge:
		return &fault{invalidParams, protocolNames.Replace(p.Message)}
	case problem.NotFound:
		return &fault{taskNotFound, p.Message}
	case problem.Conflict:
		return &fault{unsupported, p.Message}
	default:
		return &fault{internalError, p.Message}
	}
}

// Card is an agent's card for clients, in both versions at once: each reads its own members. Errors: a problem of
// kind NotFound or Forbidden, and those of the store.
func (s *Server) Card(ctx context.Context, p tenant.Principal, id string) (any, error) {
	a, err := s.agent(ctx, p, id)
	if err != nil {
		return nil, err
	}
	at := s.URL + "/a2a/" + a.ID
	modes := []string{"text/plain", "application/json"}
	description := a.Spec.Description
	if description == "" {
		description = "The agent " + a.Spec.Name + "."
	}
	return object{
		"name": a.Spec.Name, "description": description, "version": strconv.Itoa(a.Current()),
		"capabilities":      object{"streaming": true, "pushNotifications": false},
		"defaultInputModes": modes, "defaultOutputModes": modes,
		"skills": []object{{"id": "chat", "name": a.Spec.Name, "description": description, "tags": []string{"chat"}}},
		"securitySchemes": object{"key": object{
			"type": "http", "scheme": "bearer", // 0.3
			"httpAuthSecurityScheme": object{"scheme": "Bearer", "description": "an API key of level run"}, // 1.0
		}},
		// 1.0
		"supportedInterfaces": []object{
			{"url": at, "protocolBinding": "JSONRPC", "protocolVersion": "1.0"},
			{"url": at, "protocolBinding": "JSONRPC", "protocolVersion": "0.3"},
		},
		"securityRequirements": []object{{"schemes": object{"key": object{"list": []string{}}}}},
		// 0.3
		"protocolVersion": "0.3.0", "url": at, "preferredTransport": "JSONRPC",
		"security": []object{{"key": []string{}}},
	}, nil
}
