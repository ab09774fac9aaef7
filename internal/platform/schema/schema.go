// Package schema validates JSON against JSON schemas: arguments of tools, structured answers of agents.
//
// A schema is not trusted. It may not refer to other documents, and its cost is bounded. The size bounds compiling; a
// budget of steps bounds validating (budget.go). The package knows no run. It imports the schema library.
package schema

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"golang.org/x/text/language"
	"golang.org/x/text/message"
)

// Schema is a compiled JSON schema. It is safe for concurrent use; checks of one schema run one after the other.
type Schema struct {
	compiled *jsonschema.Schema
	meter    *meter
}

// noLoader refuses to load other documents.
type noLoader struct{}

func (noLoader) Load(string) (any, error) { return nil, errors.New("it refers to another document") }

// MaxSize is the maximal size of a schema in bytes.
const MaxSize = 64 << 10

// Compile compiles a schema. The error is the reason why a schema cannot be used, in words for its author. The schema
// is larger than [MaxSize], is not a JSON object, is invalid, refers to other documents, or exceeds a limit of
// budget.go.
func Compile(raw json.RawMessage) (s Schema, err error) {
	if len(raw) > MaxSize {
		return s, fmt.Errorf("it has more than %d KiB", MaxSize>>10)
	}
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		return s, fmt.Errorf("it is not JSON: %w", plain(err))
	}
	if _, ok := document.(map[string]any); !ok {
		return s, errors.New("it is not a JSON object")
	}
	form, err := survey(document)
	if err == nil && form.schemas > maxSchemas {
		err = fmt.Errorf("it has more than %d objects", maxSchemas)
	}
	if err != nil {
		return s, err
	}
	withoutDrafts(document)
	defer recoverTo(&err)
	c := jsonschema.NewCompiler()
	c.UseLoader(noLoader{})
	c.DefaultDraft(jsonschema.Draft2020)
	m := &meter{}
	c.UseRegexpEngine(m.pattern)
	const here = "schema:///it"
	if err := c.AddResource(here, document); err != nil {
		return s, plain(err)
	}
	compiled, err := c.Compile(here)
	if err != nil {
		return s, plain(err)
	}
	if err := m.watch(compiled); err != nil {
		return s, err
	}
	return Schema{compiled, m}, nil
}

// withoutDrafts removes unknown drafts from a schema: it is then read as one of today's draft.
func withoutDrafts(v any) {
	for _, one := range list(v) {
		withoutDrafts(one)
	}
	s := object(v)
	if draft, is := s["$schema"].(string); is && !drafts.MatchString(draft) {
		delete(s, "$schema")
	}
	for name, one := range s {
		switch of := keywords[name]; {
		case of == someValues, name == "const", name == "default": // of values
		case of == someSchemas, of == somePatterns, name == "dependencies":
			for _, one := range object(one) {
				withoutDrafts(one)
			}
		default:
			withoutDrafts(one)
		}
	}
}

// recoverTo turns a panic of the library into an error. The library was not made for hostile schemas.
func recoverTo(err *error) {
	switch p := recover().(type) {
	case nil:
	case spent:
		*err = p.error
	default:
		*err = errors.New("it cannot be read")
	}
}

// maxFault is the maximal length of one message in bytes.
const maxFault = 500

func clip(text string) string {
	if len(text) > maxFault {
		return strings.ToValidUTF8(text[:maxFault], "") + "…"
	}
	return text
}

func plain(err error) error {
	return errors.New(clip(strings.ReplaceAll(err.Error(), "schema:///it", "")))
}

// maxFaults is how many violations one error reports.
const maxFaults = 8

// Check validates a JSON value. The error lists the violations with their locations, in words for the author of the
// value. It is another error if the value is not JSON or too expensive to check, and ctx's error if ctx ended.
func (s Schema) Check(ctx context.Context, raw json.RawMessage) (err error) {
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		return fmt.Errorf("no JSON: %w", plain(err))
	}
	form, err := survey(value)
	if err != nil {
		return err
	}
	if err := s.meter.begin(ctx, form); err != nil {
		return err
	}
	defer s.meter.end()
	defer recoverTo(&err)
	err = s.compiled.Validate(value)
	var wrong *jsonschema.ValidationError
	if !errors.As(err, &wrong) {
		return err
	}
	var faults []string
	printer, more := message.NewPrinter(language.English), 0
	leaves(wrong, func(e *jsonschema.ValidationError) {
		if len(faults) == maxFaults {
			more++
			return
		}
		at := strings.Join(e.InstanceLocation, ".")
		if at != "" {
			at += ": "
		}
		faults = append(faults, clip(at+e.ErrorKind.LocalizedString(printer)))
	})
	if more > 0 {
		faults = append(faults, fmt.Sprintf("and %d more", more))
	}
	return errors.New(strings.Join(faults, "; "))
}

// Fits returns how a value violates a schema, as [Schema.Check] does. A schema that cannot be compiled takes
// everything: its author checks the value.
func Fits(ctx context.Context, schema, value json.RawMessage) error {
	s, err := Compile(schema)
	if err != nil {
		return nil //nolint:nilerr // see above
	}
	return s.Check(ctx, value)
}

func leaves(e *jsonschema.ValidationError, visit func(*jsonschema.ValidationError)) {
	if len(e.Causes) == 0 {
		visit(e)
	}
	for _, c := range e.Causes {
		leaves(c, visit)
	}
}
