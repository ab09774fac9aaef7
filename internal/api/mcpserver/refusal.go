package mcpserver

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// Refusal is the answer to a request that cannot be served, for the reason that text gives.
func (s *Server) Refusal(body []byte, text string) any {
	return refusal(body, jsonrpc.CodeInvalidRequest, text)
}

// NoJSON is the answer to a body that is no JSON, for the reason that text gives.
func (s *Server) NoJSON(text string) any { return refusal(nil, jsonrpc.CodeParseError, text) }

// Malformed is the answer to a body that the library would take for another: whose id it would change, as it reads
// numbers as floats, or that neither asks nor answers. It is nil for all others.
func (s *Server) Malformed(body []byte) any {
	var r struct {
		ID     json.RawMessage `json:"id"`
		Method json.RawMessage `json:"method"`
		Result json.RawMessage `json:"result"`
		Error  json.RawMessage `json:"error"`
	}
	switch err := json.Unmarshal(body, &r); {
	case err != nil:
		return nil
	case !exact(r.ID):
		return refusal(body, jsonrpc.CodeInvalidRequest, "id: must be a string, or an integer below 2^53")
	case r.ID != nil && r.Method == nil && r.Result == nil && r.Error == nil:
		return refusal(body, jsonrpc.CodeInvalidRequest, "method: is missing")
	}
	return nil
}

// exact says whether an id is no number, or one that floats have.
func exact(id json.RawMessage) bool {
	if len(id) == 0 || id[0] != '-' && (id[0] < '0' || id[0] > '9') {
		return true
	}
	n, err := strconv.ParseInt(string(id), 10, 64)
	return err == nil && -1<<53 < n && n < 1<<53
}

// Fault is the answer, with its status, to a request that the library has refused with this text and a status alone. A
// call of a method that is not served is answered as any call is: the official clients take another status for a broken
// connection. A notification of no meaning here is taken and has no answer, which is nil. The status is 0 where the
// fault is none of JSON-RPC, but of HTTP.
func (s *Server) Fault(body []byte, text string) (status int, answer any) {
	var r struct {
		ID json.RawMessage `json:"id"`
	}
	_ = json.Unmarshal(body, &r)
	switch {
	case strings.HasPrefix(text, "JSON RPC not handled") && r.ID == nil:
		return http.StatusAccepted, nil
	case strings.HasPrefix(text, "JSON RPC not handled"):
		return http.StatusOK, refusal(body, jsonrpc.CodeMethodNotFound, "this method is not served")
	case strings.HasSuffix(text, `missing required "params"`):
		return http.StatusOK, refusal(body, jsonrpc.CodeInvalidParams, "params: are missing")
	case strings.HasPrefix(text, "invalid request"):
		return http.StatusBadRequest, refusal(body, jsonrpc.CodeInvalidRequest, text)
	case len(body) == 0 && strings.HasPrefix(text, "POST requires"):
		return http.StatusBadRequest, s.NoJSON("the body is empty")
	case strings.HasPrefix(text, "malformed payload"):
		return http.StatusBadRequest, refusal(body, jsonrpc.CodeInvalidRequest,
			"the body is no message of JSON-RPC 2.0")
	}
	return 0, nil
}

// refusal is an error of JSON-RPC, with the id of the body, or null where it has none.
func refusal(body []byte, code int, text string) any {
	of := struct {
		Version string          `json:"jsonrpc"`
		ID      json.RawMessage `json:"id"`
		Error   struct {
			Code    int    `json:"code"`
			Message string `json:"message"`
		} `json:"error"`
	}{Version: "2.0"}
	var r struct {
		ID json.RawMessage `json:"id"`
	}
	if json.Unmarshal(body, &r) == nil && !bytes.ContainsAny(r.ID[:min(len(r.ID), 1)], "{[tf") {
		of.ID = r.ID
	}
	of.Error.Code, of.Error.Message = code, text
	return of
}
