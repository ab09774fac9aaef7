package schema

import (
	"bytes"
	"encoding/json"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// WithoutBooleans is a schema that means the same and has objects where a schema may be an object or a boolean: {} for
// true, {"not":{}} for false. The order of members stays. So does a boolean of additionalProperties and
// additionalItems: they took one before schemas could be booleans, and clients look for it. The error says that the
// schema is not JSON.
func WithoutBooleans(schema json.RawMessage) (json.RawMessage, error) {
	lenient := []jsontext.Options{jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true),
		jsontext.PreserveRawStrings(true)}
	var out bytes.Buffer
	in, to := jsontext.NewDecoder(bytes.NewReader(schema), lenient...), jsontext.NewEncoder(&out, lenient...)
	err := rewrite(in, to, "not")
	return bytes.TrimSuffix(out.Bytes(), []byte("\n")), err
}

// rewrite writes the value of a keyword without booleans. That of "not" is a schema.
func rewrite(in *jsontext.Decoder, to *jsontext.Encoder, keyword string) error {
	var isSchema, byName bool
	switch keywords[keyword] {
	case aSchema, aRule, aList, anOldSchema:
		isSchema = true
	case someSchemas, somePatterns, oldSchemas:
		byName = true
	}
	next, depth := in.PeekKind(), in.StackDepth()
	if open := next == '{' && (isSchema || byName) || next == '[' && isSchema; !open {
		v, err := in.ReadValue()
		if isSchema && !strings.HasPrefix(keyword, "additional") {
			switch next {
			case 't':
				v = jsontext.Value(`{}`)
			case 'f':
				v = jsontext.Value(`{"not":{}}`)
			}
		}
		if err == nil {
			err = to.WriteValue(v)
		}
		return err
	}
	for begun := false; ; begun = true {
		token, err := in.ReadToken() // a bracket, or the name of a member
		if err == nil {
			err = to.WriteToken(token)
		}
		if err != nil || in.StackDepth() == depth {
			return err
		}
		if name := token.String(); next == '{' && begun {
			if byName {
				name = "not"
			}
			err = rewrite(in, to, name)
		}
		for next == '[' && err == nil && in.PeekKind() != ']' {
			err = rewrite(in, to, "not")
		}
		if err != nil {
			return err
		}
	}
}
