package httpapi

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"agentplatform/internal/core/lifecycle"
	"agentplatform/internal/platform/problem"
	"agentplatform/internal/store/record"
)

// apiError is the one body of all errors: a problem as the answer to a call.
type apiError struct {
	problem *problem.Error
	status  int
	call    *Call
}

func (e *apiError) Error() string  { return e.problem.Message }
func (e *apiError) GetStatus() int { return e.status }

func (e *apiError) GetHeaders() http.Header {
	if after := e.retryAfter(); after > 0 {
		return http.Header{"Retry-After": {strconv.Itoa(after)}}
	}
	return nil
}

// retryAfter is in whole seconds; 0 where the kind of problem has none.
func (e *apiError) retryAfter() int {
	if e.problem.Kind == problem.Limited || e.problem.Kind == problem.Unavailable {
		return wholeSeconds(e.problem.RetryAfter)
	}
	return 0
}

// MarshalJSON writes the body: the fixed members, then the extra members of the code.
func (e *apiError) MarshalJSON() ([]byte, error) {
	body := map[string]any{}
	maps.Copy(body, e.problem.Extras)
	body["status"], body["code"], body["request_id"] = "error", e.problem.Code, e.call.id
	body["message"], body["detail"] = e.problem.Message, e.problem.Message
	if e.problem.Fields != nil {
		body["errors"] = e.problem.Fields
	}
	if after := e.retryAfter(); after > 0 {
		body["retry_after"] = after
	}
	if e.call.spoken {
		body["error"] = e.asSpoken()
	}
	return json.Marshal(body)
}

// asSpoken is the error in the form of Open Responses: one of OpenAI's SDKs reads no other form.
func (e *apiError) asSpoken() spokenError {
	out := spokenError{Message: e.problem.Message, Type: "invalid_request", Code: e.problem.Code}
	switch {
	case e.status == http.StatusNotFound:
		out.Type = "not_found"
	case e.status == http.StatusTooManyRequests:
		out.Type = "too_many_requests"
	case e.status >= 500:
		out.Type = "server_error"
	}
	if len(e.problem.Fields) > 0 {
		param := strings.TrimPrefix(strings.TrimPrefix(e.problem.Fields[0].Location, "body."), "query.")
		out.Param = &param
	}
	return out
}

// spokenPaths is where the operations of Open Responses begin.
const spokenPaths = Base + "/responses"

var statuses = map[problem.Kind]int{
	problem.Internal:           http.StatusInternalServerError,
	problem.Invalid:            http.StatusBadRequest,
	problem.TooLarge:           http.StatusRequestEntityTooLarge,
	problem.Unauthenticated:    http.StatusUnauthorized,
	problem.Forbidden:          http.StatusForbidden,
	problem.NotFound:           http.StatusNotFound,
	problem.Conflict:           http.StatusConflict,
	problem.PreconditionFailed: http.StatusPreconditionFailed,
	problem.Limited:            http.StatusTooManyRequests,
	problem.Unavailable:        http.StatusServiceUnavailable,
	problem.Full:               http.StatusInsufficientStorage,
}

// fail answers with an error.
func fail(log *slog.Logger, w http.ResponseWriter, c *Call, err error) {
	e := answerFor(log, c, err)
	maps.Copy(w.Header(), e.GetHeaders())
	_ = WriteJSON(w, e.status, e)
}

// answerFor turns any error into an answer. An error that is not a problem is ours: the client receives a bland 500,
// and the log the details.
func answerFor(log *slog.Logger, c *Call, err error) *apiError {
	if ready, is := errors.AsType[*apiError](err); is {
		return errorOf(c, ready.status, ready.problem)
	}
	if tooLarge, is := errors.AsType[*http.MaxBytesError](err); is {
		err = problem.New(
			problem.TooLarge, "payload_too_large", "the request body has more than %d bytes", tooLarge.Limit,
		)
	}
	if errors.Is(err, record.ErrConflict) || errors.Is(err, lifecycle.ErrRefused) {
		err = problem.Retry(err) // another writer was faster every time
	}
	p, ok := problem.As(err)
	if !ok {
		p = ours(err)
	}
	switch {
	case errors.Is(p.Cause, context.Canceled): // its client has gone, and reads no answer; nothing of ours is broken
		log.Info("a request was given up", "request_id", c.id)
	case p.Cause != nil && p.Kind != problem.Full: // of which the store notes one in a while
		log.Error("a request failed", "request_id", c.id, "code", p.Code, "error", p.Cause)
	}
	return errorOf(c, statuses[p.Kind], p)
}

// errorOf makes a problem the answer to a call.
func errorOf(c *Call, status int, p *problem.Error) *apiError {
	c.code = p.Code
	return &apiError{p, status, c}
}

// ours is a failure of the service. Clients receive no details of it.
func ours(cause error) *problem.Error {
	return &problem.Error{
		Kind: problem.Internal, Code: "internal", Cause: cause,
		Message: "the service had an internal error; try again later",
	}
}

func wholeSeconds(d time.Duration) int { return max(1, int(math.Ceil(d.Seconds()))) }

// maxFaults is how many faults of a body its refusal names.
const maxFaults = 20

// setErrorShape makes the framework's own errors (validation, content types) take our body. Its hook is a global.
var setErrorShape = sync.OnceFunc(func() {
	huma.NewErrorWithContext = func(ctx huma.Context, status int, message string, errs ...error) huma.StatusError {
		p := frameworkError(status, message, errs)
		return errorOf(callOf(ctx.Context()), statuses[p.Kind], p)
	}
})

// ErrorOf is a library's own error in the form of our one error body, with its status and its text.
func ErrorOf(status int, text string) error {
	p := frameworkError(status, text, nil)
	if status == http.StatusMethodNotAllowed {
		p = problem.New(problem.Invalid, "method_not_allowed", "%s", text)
	}
	return &apiError{problem: p, status: status} // clients of a protocol go by it
}

func frameworkError(status int, message string, errs []error) *problem.Error {
	p := &problem.Error{Kind: problem.Invalid, Code: "invalid_request", Message: message}
	switch {
	case status == http.StatusRequestEntityTooLarge:
		return problem.New(problem.TooLarge, "payload_too_large", "the request body is too large")
	case status == http.StatusUnsupportedMediaType:
		p.Message = "the body must be sent as application/json"
		p.Fields = []problem.Field{{Location: "header.content-type", Message: p.Message}}
		return p
	case status < 400 || status >= 500:
		return ours(nil)
	}
	var sentences []string
	if len(errs) > maxFaults {
		errs = append(errs[:maxFaults:maxFaults], fmt.Errorf("and %d more errors", len(errs)-maxFaults))
	}
	for _, err := range errs {
		f := faultOf(err)
		p.Fields = append(p.Fields, f)
		sentences = append(sentences, f.Location+": "+f.Message)
	}
	p.Message = cmp.Or(strings.Join(sentences, "; "), message)
	if p.Fields == nil {
		p.Fields = []problem.Field{{Location: "body", Message: p.Message}}
	}
	return p
}

// missing matches the framework's message for a member that is not there.
var missing = regexp.MustCompile("^expected required property (.*) to be present$")

// faultOf is a fault that the framework has found.
func faultOf(err error) problem.Field {
	f := problem.Field{Location: "body", Message: err.Error()}
	if detail, is := errors.AsType[*huma.ErrorDetail](err); is {
		f = problem.Field{Location: detail.Location, Message: detail.Message}
		at, what, nearer := strings.Cut(detail.Message, ": ")
		if nearer && strings.HasPrefix(at, f.Location+".") { // as Decode writes it
			f = problem.Field{Location: at, Message: what}
		}
		if found := missing.FindStringSubmatch(f.Message); found != nil {
			f = problem.Field{Location: f.Location + "." + found[1], Message: "is required"}
		}
	}
	if query, index, is := strings.Cut(f.Location, "["); is && strings.HasPrefix(query, "query.") {
		f.Location = query // of a list, which a query gives as one text
		f.Message = strings.ReplaceAll(f.Message, query+"["+index, query)
	}
	return problem.Field{Location: Short(f.Location), Message: Short(f.Message)}
}
