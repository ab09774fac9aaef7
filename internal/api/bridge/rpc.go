package bridge

import (
	"bytes"
	"encoding/json"

	"agentplatform/internal/platform/strictjson"
)

// The error codes of JSON-RPC, which two of the protocols speak.
const (
	ParseError     = -32700
	InvalidRequest = -32600
	MethodNotFound = -32601
	InvalidParams  = -32602
	InternalError  = -32603
)

// RequestID is the id of a JSON-RPC request in the form in which it was sent; nil where it has none. The result ok is
// false for an id that is neither a string nor a number nor null.
func RequestID(body []byte) (id json.RawMessage, ok bool) {
	var r struct {
		ID json.RawMessage `json:"id"`
	}
	if strictjson.Unmarshal(body, &r) != nil || r.ID == nil {
		return nil, true
	}
	if bytes.IndexByte([]byte("{[tf"), r.ID[0]) >= 0 {
		return nil, false
	}
	return r.ID, true
}

// Refusal is an error of JSON-RPC in answer to a body.
func Refusal(body []byte, code int, text string) any {
	type failure struct {
		Code    int    `json:"code"`
		Message string `json:"message"`
	}
	id, _ := RequestID(body)
	return struct {
		Version string          `json:"jsonrpc"`
		ID      json.RawMessage `json:"id"`
		Error   failure         `json:"error"`
	}{"2.0", id, failure{code, text}}
}

// Batch are the messages of a body of JSON that is a list of them; ok is false for another body.
func Batch(body []byte) (list []json.RawMessage, ok bool) {
	ok = bytes.HasPrefix(bytes.TrimLeft(body, " \t\r\n"), []byte("[")) && json.Unmarshal(body, &list) == nil
	return list, ok
}

// Malformed is the answer to a body of JSON that is not one request of JSON-RPC, or whose parameters have no names. It
// is nil for other bodies. It also returns the code in the answer.
func Malformed(body []byte) (code int, answer any) {
	var r struct {
		ID     json.RawMessage `json:"id"`
		Method json.RawMessage `json:"method"`
		Params json.RawMessage `json:"params"`
		Result json.RawMessage `json:"result"`
		Error  json.RawMessage `json:"error"`
	}
	err := strictjson.Unmarshal(body, &r)
	if _, is := Batch(body); is {
		return InvalidRequest, Refusal(nil, InvalidRequest, "the request must be one object, not a batch")
	}
	switch {
	case err != nil || r.ID == nil:
		return 0, nil
	case r.Method == nil && r.Result == nil && r.Error == nil:
		return InvalidRequest, Refusal(body, InvalidRequest, "method: is missing")
	case r.Method != nil && !IsNull(r.Params) && r.Params[0] != '{':
		return InvalidParams, Refusal(body, InvalidParams, "params: must be an object")
	}
	return 0, nil
}

// WithID returns a request with another id where its own is a number: a reader of integers or floats may change a
// number. The result was is the number in the form in which it was sent; nil where the request stays as it is.
func WithID(body []byte, id string) (changed []byte, was json.RawMessage) {
	var members map[string]json.RawMessage
	if json.Unmarshal(body, &members) != nil {
		return body, nil
	}
	if was = members["id"]; len(was) == 0 || was[0] != '-' && (was[0] < '0' || was[0] > '9') {
		return body, nil
	}
	members["id"], _ = json.Marshal(id)
	changed, err := json.Marshal(members)
	if err != nil {
		return body, nil
	}
	return changed, was
}
