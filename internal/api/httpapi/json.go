package httpapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"agentplatform/internal/platform/problem"
	"agentplatform/internal/platform/strictjson"
)

// maxJSON bounds a JSON body, which is held whole; an OpenAPI document of 5 MiB fits. Files come as forms, which are
// not.
const maxJSON = 8 << 20

// Bounds of JSON (its size: maxJSON). An OpenAPI document of 5 MiB has about 250,000 values, 20 deep.
const (
	maxDepth  = 64
	maxValues = 300_000
)

// CheckJSON refuses a body that is not JSON, is not UTF-8, goes too deep, has too many values, or has one member twice.
// (Of a member that is there twice, two readers could choose a different one.) It reads the body once. It returns an
// invalid field, with a place below at.
func CheckJSON(at string, body []byte) error {
	d := jsontext.NewDecoder(bytes.NewBuffer(body)) // a buffer is read in place
	whole := false                                  // the value is
	for values := 0; ; values++ {
		_, err := d.ReadToken()
		if errors.Is(err, io.EOF) && whole {
			return nil
		}
		if err != nil {
			return notJSON(at, d, err)
		}
		switch {
		case whole:
			return problem.InvalidField(at, "must be one JSON value, with nothing after it")
		case d.StackDepth() > maxDepth:
			at = Short(at + strictjson.Location(d.StackPointer()))
			return problem.InvalidField(at, "must not have values nested more than %d deep", maxDepth)
		case values > maxValues:
			return problem.InvalidField(at, "must have at most %d values", maxValues)
		}
		whole = d.StackDepth() == 0
	}
}

func notJSON(at string, d *jsontext.Decoder, err error) error {
	where, what := d.StackPointer(), err
	var syntax *jsontext.SyntacticError
	if errors.As(err, &syntax) {
		where, what = syntax.JSONPointer, syntax.Err
	}
	at = Short(at + strictjson.Location(where))
	switch {
	case errors.Is(err, jsontext.ErrDuplicateName):
		return problem.InvalidField(at, "must not be repeated")
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return problem.InvalidField(at, "is not valid JSON: the end is missing")
	}
	return problem.InvalidField(at, "is not valid JSON: %s", Short(what.Error()))
}

// maxLocation bounds the place of a fault in an error, in bytes: the names in it are the client's.
const maxLocation = 256

// Short is a client's text, shortened for an answer.
func Short(s string) string {
	if len(s) > maxLocation {
		s = s[:maxLocation] + "…"
	}
	return strings.ToValidUTF8(s, "\uFFFD")
}

// Decode reads JSON that [CheckJSON] has accepted, and that stands at a place in the request. A value of a wrong type
// is an invalid field, named by its place.
func Decode(at string, body []byte, into any) error {
	err := strictjson.Unmarshal(body, into)
	if wrong, ok := errors.AsType[*strictjson.TypeError](err); ok {
		return problem.InvalidField(Short(at+wrong.Location), "%s", wrong.Wanted)
	}
	if err != nil {
		return problem.InvalidField(at, "is not valid JSON: %s", Short(err.Error()))
	}
	return nil
}

// WriteJSON writes an answer of JSON. It returns an error when the body cannot be written as JSON. It ignores that a
// client has gone: nobody would receive the error.
func WriteJSON(w http.ResponseWriter, status int, body any) error {
	b, err := json.Marshal(body)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(append(b, '\n'))
	return nil
}
