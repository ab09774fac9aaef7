package a2aserver

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"agentplatform/internal/api/a2a"
	"agentplatform/internal/api/bridge"
	"agentplatform/internal/org/tenant"
	"agentplatform/internal/platform/problem"
)

type object = a2a.Object

// sendParams are the parameters of sending a message, in either version.
type sendParams struct {
	Message       message       `json:"message"`
	Configuration configuration `json:"configuration"`
}

type message struct {
	MessageID string `json:"messageId"`
	Role      string `json:"role"`
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

	Push     *pushConfig `json:"pushNotificationConfig"`     // 0.3
	TaskPush *pushConfig `json:"taskPushNotificationConfig"` // 1.0
}

// push is where the task's notifications shall go; nil: nowhere.
func (c configuration) push() *pushConfig { return cmp.Or(c.TaskPush, c.Push) }

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

func (c *call) result(v any) Reply {
	return Reply{Message: object{"jsonrpc": "2.0", "id": c.id, "result": v}}
}

type fault struct {
	code int
	text string
}

func (f *fault) Error() string { return f.text }

// The protocol's error codes that JSON-RPC does not have.
const (
	taskNotFound   = -32001
	notCancelable  = -32002
	unsupported    = -32004
	contentType    = -32005
	noExtendedCard = -32007 // of 0.3
	wrongVersion   = -32009
)

func (c *call) fault(f *fault) Reply {
	e := object{"code": f.code, "message": f.text}
	if c.Dialect == a2a.V03 {
		e["data"] = object{"error": f.text} // where clients of 0.3 look for the text
	}
	return Reply{Message: object{"jsonrpc": "2.0", "id": c.id, "error": e}}
}

// Malformed is the response to a body that is not valid JSON.
func Malformed(text string) any {
	return new(call).fault(&fault{bridge.ParseError, text}).Message
}

// protocolNames are the protocol's names of fields of ours.
var protocolNames = map[string]string{
	"chat_id": "message.contextId", "idempotency_key": "message.messageId", "message": "message.parts",
	"callback_url": "pushNotificationConfig.url",
}

// protocolName is the protocol's name of a field of ours.
func protocolName(field string) string {
	if at, is := strings.CutPrefix(field, "body.decisions"); is {
		return "message.parts: decisions" + at
	}
	return cmp.Or(protocolNames[field], field)
}

// faultOf converts a problem; other errors become an internal error, and their text goes to the log only.
func (s *Server) faultOf(err error) *fault {
	if known, is := errors.AsType[*fault](err); is {
		return known
	}
	p, ok := problem.As(err)
	if !ok {
		s.Log.Error("a request through A2A could not be carried out", "error", err)
		return &fault{bridge.InternalError, "the service had an internal error; try again later"}
	}
	switch p.Kind {
	case problem.Invalid, problem.TooLarge:
		_ = bridge.Named(err, protocolName)
		return &fault{bridge.InvalidParams, p.Message}
	case problem.NotFound:
		return &fault{taskNotFound, p.Message}
	case problem.Conflict:
		return &fault{unsupported, p.Message}
	default:
		return &fault{bridge.InternalError, p.Message}
	}
}

// The media types that agents take and give: texts, pictures, and files whose text is extracted. (Package extract does
// that; on AWS another program runs it.) Tools may give files of any other type, too.
var (
	spoken   = []string{"text/plain", "application/json"}
	pictures = []string{"image/png", "image/jpeg", "image/gif", "image/webp"}

	documents = []string{
		"text/markdown", "text/x-markdown", "text/html", "application/xhtml+xml", "text/csv",
		"text/tab-separated-values", "application/jsonl", "application/x-jsonlines", "application/x-ndjson",
		"application/pdf", "application/rtf", "text/rtf", "message/rfc822", "application/epub+zip",
		"application/vnd.openxmlformats-officedocument.wordprocessingml.document",
		"application/vnd.openxmlformats-officedocument.presentationml.presentation",
		"application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
		"application/mbox", "application/x-ipynb+json", "application/x-subrip", "application/xml", "text/vtt",
		"text/xml",
		"application/vnd.oasis.opendocument.text", "application/vnd.oasis.opendocument.text-template",
		"application/vnd.oasis.opendocument.spreadsheet", "application/vnd.oasis.opendocument.spreadsheet-template",
		"application/vnd.oasis.opendocument.presentation", "application/vnd.oasis.opendocument.presentation-template",
	}
)

// Card is an agent's card for clients. It has the members of both versions of the protocol, and each client reads those
// of its version. Errors: a problem of kind NotFound or Forbidden, and those of the store.
func (s *Server) Card(ctx context.Context, p tenant.Principal, id string) (any, error) {
	a, err := s.Agent(ctx, p, id)
	if err != nil {
		return nil, err
	}
	at := s.URL + "/a2a/" + a.ID
	description := cmp.Or(a.Spec.Description, "The agent "+a.Spec.Name+".")
	return object{
		"name": a.Spec.Name, "description": description, "version": strconv.Itoa(a.Current()),
		"capabilities":       object{"streaming": true, "pushNotifications": true},
		"defaultInputModes":  slices.Concat(spoken, pictures, documents),
		"defaultOutputModes": slices.Concat(spoken, pictures),
		"skills": []object{
			{"id": "chat", "name": a.Spec.Name, "description": description, "tags": []string{"chat"}},
		},
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
