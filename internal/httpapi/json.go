package httpapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"reflect"
	"strings"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"agentplatform/internal/problem"
	"agentplatform/internal/strictjson"
)

// maxJSON bounds a JSON body, which is held whole; an OpenAPI document of 5 MiB fits. Files come as forms, which are
// not.
const maxJSON = 8 << 20

// Bounds of JSON (its size: maxJSON). An OpenAPI document of 5 MiB has about 250,000 values, 20 deep.
const (
	maxDepth  = 64
	maxValues = 300_000
)

// CheckJSON refuses JSON that is no JSON, is not UTF-8, goes too deep, has too many values, or says one member twice;
// which of the two was meant, two readers could tell differently. Its work is one pass. It returns an invalid field at
// a place below the one that is named.
func CheckJSON(at string, body []byte) error {
	d := jsontext.NewDecoder(bytes.NewBuffer(body)) // a buffer is read in place
	for values := 0; ; values++ {
		token, err := d.ReadToken()
		if errors.Is(err, io.EOF) && values > 0 && d.StackDepth() == 0 {
			return nil
		}
		if err != nil {
			return notJSON(at, d, err)
		}
		switch {
		case d.StackDepth() == 0 && values > 0 && token.Kind() != '}' && token.Kind() != ']':
			return problem.InvalidField(at, "must be one JSON value, with nothing after it")
		case d.StackDepth() > maxDepth:
			at = location(at, d.StackPointer())
			return problem.InvalidField(at, "must not have values nested more than %d deep", maxDepth)
		case values > maxValues:
			return problem.InvalidField(at, "must have at most %d values", maxValues)
		}
	}
}

func notJSON(at string, d *jsontext.Decoder, err error) error {
	where, what := d.StackPointer(), err
	var syntax *jsontext.SyntacticError
	if errors.As(err, &syntax) {
		where, what = syntax.JSONPointer, syntax.Err
	}
	at = location(at, where)
	switch {
	case errors.Is(err, jsontext.ErrDuplicateName):
		return problem.InvalidField(at, "must not be there twice")
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return problem.InvalidField(at, "is not valid JSON: it ends too early")
	}
	return problem.InvalidField(at, "is not valid JSON: %s", Short(what.Error()))
}

// maxLocation bounds what is said of where a fault is: the names in it are the client's.
const maxLocation = 256

// location is a place in JSON as errors name it: body.model.name, body.tools[3].
func location(at string, p jsontext.Pointer) string {
	var b strings.Builder
	b.WriteString(at)
	for name := range p.Tokens() {
		if name != "" && strings.Trim(name, "0123456789") == "" {
			b.WriteString("[" + name + "]")
		} else {
			b.WriteString("." + name)
		}
	}
	return Short(b.String())
}

// Short is a text of a client's, made short enough to be said in an answer.
func Short(s string) string {
	if len(s) > maxLocation {
		s = s[:maxLocation] + "…"
	}
	return strings.ToValidUTF8(s, "\uFFFD")
}

// Decode reads JSON that [CheckJSON] has let through, and that stands at a place in the request. What has a wrong type
// is an invalid field, named by its place.
func Decode(at string, body []byte, into any) error {
	err := strictjson.Unmarshal(body, into)
	var wrong *jsonv2.SemanticError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &wrong):
		return problem.InvalidField(location(at, wrong.JSONPointer), "%s", wanted(wrong.GoType))
	}
	return problem.InvalidField(at, "is not valid JSON: %s", Short(err.Error()))
}

// wanted says what a value must be, in the words of JSON.
func wanted(t reflect.Type) string {
	for t != nil && t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t == nil || t == reflect.TypeFor[json.RawMessage]() {
		return "has a wrong type"
	}
	switch t.Kind() {
	case reflect.String:
		return "must be a string"
	case reflect.Bool:
		return "must be true or false"
	case reflect.Int, reflect.Int64:
		return "must be a whole number"
	case reflect.Float64:
		return "must be a number"
	case reflect.Slice, reflect.Array:
		return "must be a list"
	case reflect.Struct, reflect.Map:
		return "must be an object"
	}
	return "has a wrong type"
}
