// Package schema holds JSON against JSON schemas: tools' arguments, agents' structured answers.
//
// A schema comes from outside and is not trusted: it refers to nothing but itself, and what it may cost is bounded. Reading one
// is bounded by its size, holding a value against one by a budget of steps (budget.go). The package knows no run. It imports the
// schema library.
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

// Schema is a JSON schema that can be held against, by one at a time.
type Schema struct {
	compiled *jsonschema.Schema
	meter    *meter
}

// nowhere loads nothing: a schema refers to itself alone.
type nowhere struct{}

func (nowhere) Load(string) (any, error) { return nil, errors.New("it refers to another document") }

// MaxSize is how many bytes a schema may have.
const MaxSize = 64 << 10

// Compile reads a schema.
func Compile(raw json.RawMessage) (s Schema, err error) {
	if len(raw) > MaxSize {
		return s, fmt.Errorf("it has more than %d KiB", MaxSize>>10)
	}
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		return s, fmt.Errorf("it is no JSON: %w", plain(err))
	}
	if _, ok := document.(map[string]any); !ok {
		return s, errors.New("it is no JSON object")
	}
	form, err := survey(document)
	if err == nil && form.schemas > maxSchemas {
		err = fmt.Errorf("it has more than %d objects", maxSchemas)
	}
	if err != nil {
		return s, err
	}
	defer survive(&err)
	c := jsonschema.NewCompiler()
	c.UseLoader(nowhere{})
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

// survive makes an error of what the library does not survive: it was not made for schemas that mean harm.
func survive(err *error) {
	switch p := recover().(type) {
	case nil:
	case spent:
		*err = p.error
	default:
		*err = errors.New("it breaks the reader of schemas")
	}
}

// enough is how much is said of one fault.
const enough = 500

func clip(text string) string {
	if len(text) > enough {
		return strings.ToValidUTF8(text[:enough], "") + "…"
	}
	return text
}

func plain(err error) error {
	return errors.New(clip(strings.ReplaceAll(err.Error(), "schema:///it", "")))
}

// maxFaults bounds how many faults are told at once.
const maxFaults = 8

// Check says what of a value does not fit, in words for whoever made it: the place and what is wrong there.
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
	defer survive(&err)
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

func leaves(e *jsonschema.ValidationError, visit func(*jsonschema.ValidationError)) {
	if len(e.Causes) == 0 {
		visit(e)
	}
	for _, c := range e.Causes {
		leaves(c, visit)
	}
}
