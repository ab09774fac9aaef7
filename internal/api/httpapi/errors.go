package httpapi

import (
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

// ourFault is all that clients are told of an error that is ours.
const ourFault = "something went wrong on our side"

// apiError is the one body of all errors.
type apiError struct {
	status     int
	code       string
	message    string
	requestID  string
	fields     []problem.Field
	extras     map[string]any
	retryAfter int  // whole seconds
	spoken     bool // the client is one of Open Responses
}

func (e *apiError) Error() string  { return e.message }
func (e *apiError) GetStatus() int { return e.status }

func (e *apiError) GetHeaders() http.Header {
	h := http.Header{}
	if e.retryAfter > 0 {
		h.Set("Retry-After", strconv.Itoa(e.retryAfter))
	}
	return h
}

// MarshalJSON writes the body: the fixed members, then whatever the code brings with it.
func (e *apiError) MarshalJSON() ([]byte, error) {
	body := map[string]any{}
	maps.Copy(body, e.extras)
	body["status"], body["code"], body["request_id"] = "error", e.code, e.requestID
	body["message"], body["detail"] = e.message, e.message
	if e.fields != nil {
		body["errors"] = e.fields
	}
	if e.retryAfter > 0 {
		body["retry_after"] = e.retryAfter
	}
	if e.spoken {
		body["error"] = e.asSpoken()
	}
	return json.Marshal(body)
}

// asSpoken is the error as Open Responses has it: one of OpenAI's SDKs looks at nothing else.
func (e *apiError) asSpoken() spokenError {
	said := spokenError{Message: e.message, Type: "invalid_request", Code: e.code}
	switch {
	case e.status == http.StatusNotFound:
		said.Type = "not_found"
	case e.status == http.StatusTooManyRequests:
		said.Type = "too_many_requests"
	case e.status >= 500:
		said.Type = "server_error"
	}
	if len(e.fields) > 0 {
		param := strings.TrimPrefix(strings.TrimPrefix(e.fields[0].Location, "body."), "query.")
		said.Param = &param
	}
	return said
}

// spokenPaths is where the operations of Open Responses begin.
const spokenPaths = Base + "/responses"

func (e *apiError) write(w http.ResponseWriter) {
	for k, v := range e.GetHeaders() {
		w.Header()[k] = v
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(e.status)
	_ = json.NewEncoder(w).Encode(e)
}

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
}

// fail answers with an error.
func fail(log *slog.Logger, w http.ResponseWriter, c *Call, err error) {
	answerFor(log, c, err).write(w)
}

// answerFor turns any error into an answer. What is no problem is ours: the client gets a bland 500 and the log the
// rest.
func answerFor(log *slog.Logger, r *Call, err error) *apiError {
	var ready *apiError
	if errors.As(err, &ready) {
		ready.requestID, ready.spoken, r.code = r.id, r.spoken, ready.code
		return ready
	}
	var tooLarge *http.MaxBytesError
	if errors.As(err, &tooLarge) {
		err = problem.New(
			problem.TooLarge, "payload_too_large", "the request's body has more than %d bytes", tooLarge.Limit,
		)
	}
	if errors.Is(err, record.ErrConflict) || errors.Is(err, lifecycle.ErrRefused) {
		err = problem.Retry(err) // somebody was faster every time
	}
	p, ok := problem.As(err)
	if !ok {
		p = &problem.Error{Kind: problem.Internal, Code: "internal", Message: ourFault, Cause: err}
	}
	switch {
	case errors.Is(p.Cause, context.Canceled): // its client has gone, and reads no answer; nothing of ours is broken
		log.Info("a request was given up", "request_id", r.id)
	case p.Cause != nil:
		log.Error("a request failed", "request_id", r.id, "code", p.Code, "error", p.Cause)
	}
	a := &apiError{
		status:    statuses[p.Kind],
		code:      p.Code,
		message:   p.Message,
		requestID: r.id,
		spoken:    r.spoken,
		fields:    p.Fields,
		extras:    p.Extras,
	}
	r.code = a.code
	if p.Kind == problem.Limited || p.Kind == problem.Unavailable {
		a.retryAfter = wholeSeconds(p.RetryAfter)
	}
	return a
}

func wholeSeconds(d time.Duration) int { return max(1, int(math.Ceil(d.Seconds()))) }

// maxFaults is how many faults of a body its refusal names.
const maxFaults = 20

var shapeOnce sync.Once

// setErrorShape makes the framework's own errors (validation, content types) take our body. Its hook is a global.
func setErrorShape() {
	shapeOnce.Do(func() {
		huma.NewErrorWithContext = func(ctx huma.Context, status int, message string, errs ...error) huma.StatusError {
			a := frameworkError(status, message, errs)
			if ctx != nil {
				c := callOf(ctx.Context())
				a.requestID, a.spoken, c.code = c.id, c.spoken, a.code
			}
			return a
		}
		huma.NewError = func(status int, message string, errs ...error) huma.StatusError {
			return frameworkError(status, message, errs)
		}
	})
}

// ErrorOf is an error that a library has answered by itself, with its status and its text, as our one error body has
// it.
func ErrorOf(status int, text string) error {
	a := frameworkError(status, text, nil)
	a.status = status // clients of a protocol go by it
	if status == http.StatusMethodNotAllowed {
		a.code, a.fields = "method_not_allowed", nil
	}
	return a
}

// missing is how the framework says that a member is not there.
var missing = regexp.MustCompile("^expected required property (.*) to be present$")

func frameworkError(status int, message string, errs []error) *apiError {
	a := &apiError{status: status, code: "internal", message: ourFault}
	switch {
	case status == http.StatusRequestEntityTooLarge:
		a.code, a.message = "payload_too_large", "the request's body is too large"
	case status == http.StatusUnsupportedMediaType:
		a.status, a.code = http.StatusBadRequest, "invalid_request"
		a.message = "the body must be sent as application/json"
		a.fields = []problem.Field{{Location: "header.content-type", Message: a.message}}
	case status >= 400 && status < 500:
		a.status, a.code = http.StatusBadRequest, "invalid_request"
		var sentences []string
		if len(errs) > maxFaults {
			errs = append(errs[:maxFaults:maxFaults], fmt.Errorf("and %d faults more", len(errs)-maxFaults))
		}
		for _, err := range errs {
			var detail *huma.ErrorDetail
			f := problem.Field{Location: "body", Message: err.Error()}
			if errors.As(err, &detail) {
				f = problem.Field{Location: detail.Location, Message: detail.Message}
				at, what, nearer := strings.Cut(detail.Message, ": ")
				if nearer && strings.HasPrefix(at, f.Location+".") { // as Decode says it
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
			f.Location, f.Message = Short(f.Location), Short(f.Message)
			a.fields = append(a.fields, f)
			sentences = append(sentences, f.Location+": "+f.Message)
		}
		a.message = strings.Join(sentences, "; ")
		if a.message == "" {
			a.message = message
		}
		if a.fields == nil {
			a.fields = []problem.Field{{Location: "body", Message: a.message}}
		}
	}
	return a
}
