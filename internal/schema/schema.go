// Package schema holds JSON against JSON schemas: tools' arguments, agents' structured answers.
//
// A schema comes from outside and is not trusted: it refers to nothing but itself. The package knows no run. It imports the
// schema library.
package schema

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"golang.org/x/text/language"
	"golang.org/x/text/message"
)

// Schema is a JSON schema that can be held against.
type Schema struct{ compiled *jsonschema.Schema }

// nowhere loads nothing: a schema refers to itself alone.
type nowhere struct{}

func (nowhere) Load(string) (any, error) { return nil, errors.New("it refers to another document") }

// Compile reads a schema.
func Compile(raw json.RawMessage) (s Schema, err error) {
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		return s, fmt.Errorf("it is no JSON: %w", err)
	}
	if _, ok := document.(map[string]any); !ok {
		return s, errors.New("it is no JSON object")
	}
	c := jsonschema.NewCompiler()
	c.UseLoader(nowhere{})
	c.DefaultDraft(jsonschema.Draft2020)
	const here = "schema:///it"
	if err := c.AddResource(here, document); err != nil {
		return s, plain(err)
	}
	if s.compiled, err = c.Compile(here); err != nil {
		return s, plain(err)
	}
	return s, nil
}

func plain(err error) error {
	text := strings.ReplaceAll(err.Error(), "schema:///it", "")
	if len(text) > 500 {
		text = strings.ToValidUTF8(text[:500], "") + "…"
	}
	return errors.New(text)
}

// maxFaults bounds how many faults are told at once.
const maxFaults = 8

// Check says what of a value does not fit, in words for whoever made it: the place and what is wrong there.
func (s Schema) Check(raw json.RawMessage) error {
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		return fmt.Errorf("no JSON: %w", err)
	}
	err = s.compiled.Validate(value)
	var wrong *jsonschema.ValidationError
	if !errors.As(err, &wrong) {
		return err
	}
	var faults []string
	leaves(wrong, func(e *jsonschema.ValidationError) {
		at := strings.Join(e.InstanceLocation, ".")
		if at != "" {
			at += ": "
		}
		faults = append(faults, at+e.ErrorKind.LocalizedString(message.NewPrinter(language.English)))
	})
	if len(faults) > maxFaults {
		faults = append(faults[:maxFaults], fmt.Sprintf("and %d more", len(faults)-maxFaults))
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
