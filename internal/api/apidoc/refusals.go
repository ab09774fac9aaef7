package apidoc

import (
	"maps"
	"net/http"
	"slices"
	"strconv"

	"github.com/danielgtaylor/huma/v2"
)

// refusal is a response that the document has once, for all operations that may be refused by it.
type refusal struct {
	status            int
	name, description string
	code              string // an example
}

var refusals = []refusal{
	{400, "BadRequest", "The request is invalid; errors names the fields.", "invalid_request"},
	{401, "Unauthorized", "The API key is missing or not valid.", "invalid_api_key"},
	{403, "Forbidden", "The key's level is too low, or the resource belongs to another organization.",
		"insufficient_permission"},
	{404, "NotFound", "The resource does not exist.", "not_found"},
	{409, "Conflict", "The request conflicts with the state of the resource; see the code.", "conflict"},
	{412, "PreconditionFailed", "The resource has changed: its ETag differs from If-Match.", "precondition_failed"},
	{413, "PayloadTooLarge", "The body is too large.", "payload_too_large"},
	{429, "TooManyRequests", "A rate limit, cap, share or budget is used up. Wait for the seconds in Retry-After.",
		"rate_limited"},
	{500, "InternalError", "The service had an internal error; try again later.", "internal"},
	{503, "Unavailable", "The service did nothing; try again after the seconds in Retry-After.", "unavailable"},
	{507, "InsufficientStorage", "The service did nothing: the disk is full.", "insufficient_storage"},
}

// whatElse is the name of the response for a status that has no response of its own.
const whatElse = "OtherError"

// ErrorName is the name of the schema of all errors.
const ErrorName = "Error"

// refusals lists the possible refusals of each operation, by number. Any other status is an error, too.
func (d *document) refusals() {
	known := map[string]*huma.Response{}
	for _, r := range refusals {
		known[r.name] = errorResponse(r)
	}
	known[whatElse] = errorResponse(refusal{description: "Another error; see its code.", code: "internal"})
	for _, o := range d.operations() {
		for _, r := range refusals {
			d.refuse(o, r)
		}
		o.Responses["default"] = &huma.Response{Ref: responsePrefix + whatElse}
	}
	d.Components.Responses = known
}

const responsePrefix = "#/components/responses/"

// refuse adds a refusal to an operation that may be answered so. A response that the operation describes itself also
// gets the common members, next to its own headers. So does the response of a protocol with its own errors.
func (d *document) refuse(o operation, r refusal) {
	status := strconv.Itoa(r.status)
	if own := o.Responses[status]; own != nil {
		all := errorResponse(r)
		for kind, m := range own.Content {
			if m.Schema == nil { // it shows another code
				all.Content[kind].Example = m.Example
				continue
			}
			all.Content[kind].Schema = &huma.Schema{OneOf: []*huma.Schema{all.Content[kind].Schema, m.Schema}}
		}
		maps.Copy(all.Headers, own.Headers)
		own.Content, own.Headers = all.Content, all.Headers
		return
	}
	if mayBe(o, r.status) {
		o.Responses[status] = &huma.Response{Ref: responsePrefix + r.name}
	}
}

func mayBe(o operation, status int) bool {
	if o.open() { // any path may be malformed, and any answer may find no room
		return status == http.StatusBadRequest || status == http.StatusServiceUnavailable
	}
	switch status {
	case http.StatusConflict:
		conflicts, ok := o.Metadata[Conflicts].(bool)
		return conflicts || !ok && o.method != http.MethodGet
	case http.StatusPreconditionFailed:
		return slices.ContainsFunc(o.Parameters, func(p *huma.Param) bool { return p.Name == "If-Match" })
	case http.StatusRequestEntityTooLarge:
		return o.RequestBody != nil
	case http.StatusInsufficientStorage: // a change is stored, if only in the audit log
		return o.method != http.MethodGet || o.Metadata[Stores] != nil
	}
	return true // every request: X-Organization may name a missing organization, or no identifier
}

func errorResponse(r refusal) *huma.Response {
	example := map[string]any{
		"status": "error", "code": r.code, "message": r.description, "detail": r.description,
		"request_id": exampleID,
	}
	headers := map[string]*huma.Param{"X-Request-Id": header("RequestID"), "X-Agent-Run-Id": header("RunID")}
	if r.status == http.StatusTooManyRequests || r.status == http.StatusServiceUnavailable {
		example["retry_after"] = 1
		headers["Retry-After"] = header("RetryAfter")
	}
	return &huma.Response{Description: r.description, Headers: headers, Content: map[string]*huma.MediaType{
		"application/json": {Schema: refTo(ErrorName), Example: example},
	}}
}
