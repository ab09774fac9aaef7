package httpapi

import (
	"encoding/json"
	"errors"
	"reflect"

	jsonv2 "github.com/go-json-experiment/json"

	"agentplatform/internal/problem"
	"agentplatform/internal/strictjson"
)

// decode reads JSON that the door has judged, below a place in the request. What has a wrong type is named.
func decode(at string, body []byte, into any) error {
	err := strictjson.Unmarshal(body, into)
	var wrong *jsonv2.SemanticError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &wrong):
		return problem.InvalidField(location(at, wrong.JSONPointer), "%s", wanted(wrong.GoType))
	}
	return problem.InvalidField(at, "is not valid JSON: %s", short(err.Error()))
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
