// Package strictjson reads untrusted JSON and gives it a normal form.
//
// Two parsers may understand one text differently: JSON leaves duplicate members, lone surrogates and the spelling of
// numbers open. So JSON of models, tools and clients is parsed here once. All else uses the normal form: no duplicate
// members, valid Unicode without needless escapes, one spelling for each number, no white space, the original order.
//
// The package knows no run. It imports only the JSON library.
package strictjson

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strconv"
	"strings"
	"time"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Limits bounds a JSON text.
type Limits struct {
	Bytes int // maximal length of the text, and of its normal form
	Depth int // maximal nesting of arrays and objects
}

// Within checks the size of JSON before it is decoded into Go structures. There a value may need a hundred times its
// size. It accepts duplicate members and invalid UTF-8.
//
// The error is in words for the sender: the text is not JSON, or exceeds a limit of bytes, depth or number of values. A
// member's name and the end of an array or object count as values.
func Within(raw []byte, limits Limits, values int) error {
	if len(raw) > limits.Bytes {
		return fmt.Errorf("the JSON has %d bytes, the limit is %d", len(raw), limits.Bytes)
	}
	in := jsontext.NewDecoder(bytes.NewBuffer(raw), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	for n := 0; ; n++ {
		if _, err := in.ReadToken(); errors.Is(err, io.EOF) && n > 0 {
			return nil
		} else if err != nil {
			return fault(err)
		}
		if in.StackDepth() > limits.Depth {
			return fmt.Errorf("the JSON is nested more than %d levels deep", limits.Depth)
		}
		if n > values {
			return fmt.Errorf("the JSON has more than %d values", values)
		}
	}
}

// maxDigits bounds a number without exponent; longer ones are not used in practice.
const maxDigits = 400

// maxLocation is how many bytes of the location of a fault are reported.
const maxLocation = 200

// Value returns the normal form of one JSON value. The error is in words for the sender. Its causes are a limit, the
// syntax, a duplicate member, invalid Unicode, text after the value, or a number that is too long. It contains no part
// of the text except the location.
func Value(raw []byte, limits Limits) (json.RawMessage, error) {
	if len(raw) > limits.Bytes {
		return nil, fmt.Errorf("the JSON has %d bytes, the limit is %d", len(raw), limits.Bytes)
	}
	in := jsontext.NewDecoder(bytes.NewReader(raw))
	var out bytes.Buffer
	to := jsontext.NewEncoder(&out)
	for {
		token, err := in.ReadToken()
		if errors.Is(err, io.EOF) && out.Len() > 0 {
			return bytes.TrimSuffix(out.Bytes(), []byte("\n")), nil
		}
		if err != nil {
			return nil, fault(err)
		}
		if in.StackDepth() > limits.Depth {
			return nil, fmt.Errorf("the JSON is nested more than %d levels deep", limits.Depth)
		}
		if out.Len() > 0 && to.StackDepth() == 0 {
			return nil, errors.New("the JSON value must be the only content")
		}
		if token.Kind() == '0' {
			plain, ok := Number(token.String())
			if !ok {
				return nil, fmt.Errorf("a number has more than %d digits", maxDigits)
			}
			err = to.WriteValue(jsontext.Value(plain))
		} else {
			err = to.WriteToken(token)
		}
		if err != nil {
			return nil, fault(err)
		}
		if out.Len() > limits.Bytes+1 { // a number with an exponent may become long
			return nil, fmt.Errorf("the JSON has more than %d bytes when its numbers are written out", limits.Bytes)
		}
	}
}

// Object is [Value] for JSON objects; any other value is an error, too.
func Object(raw []byte, limits Limits) (json.RawMessage, error) {
	v, err := Value(raw, limits)
	if err == nil && v[0] != '{' {
		err = errors.New("it is not a JSON object")
	}
	return v, err
}

// Number writes a JSON number without exponent and without needless zeros, exactly. ok is false if it would have more
// than maxDigits digits.
func Number(text string) (plain string, ok bool) {
	sign, digits := "", text
	if rest, negative := strings.CutPrefix(text, "-"); negative {
		sign, digits = "-", rest
	}
	exponent := 0
	if at := strings.IndexAny(digits, "eE"); at >= 0 {
		n, err := strconv.Atoi(digits[at+1:])
		if err != nil {
			n = maxDigits * maxDigits // beyond the range of int, so beyond maxDigits
			if digits[at+1] == '-' {
				n = -n
			}
		}
		digits, exponent = digits[:at], n
	}
	whole, fraction, _ := strings.Cut(digits, ".")
	digits = strings.TrimLeft(whole+fraction, "0")
	point := len(digits) - len(fraction) + exponent // the position of the decimal point among the digits
	digits = strings.TrimRight(digits, "0")
	switch {
	case digits == "":
		return "0", true
	case point > maxDigits || point < -maxDigits || len(digits) > maxDigits:
		return "", false
	case point <= 0:
		return sign + "0." + strings.Repeat("0", -point) + digits, true
	case point >= len(digits):
		return sign + digits + strings.Repeat("0", point-len(digits)), true
	default:
		return sign + digits[:point] + "." + digits[point:], true
	}
}

// Canonical writes a value as JSON in one form: members are sorted, and each number has one spelling. Values that are
// equal as JSON have equal forms, however the raw JSON in them was written.
func Canonical(value any) (json.RawMessage, error) {
	raw, err := json.Marshal(value)
	if err != nil {
		return nil, err
	}
	in := json.NewDecoder(bytes.NewReader(raw))
	in.UseNumber()
	var of any
	if err := in.Decode(&of); err != nil {
		return nil, err
	}
	return json.Marshal(plain(of))
}

// Same reports whether values are equal as JSON.
func Same(a, b any) bool {
	one, err := Canonical(a)
	if err != nil {
		return false
	}
	other, err := Canonical(b)
	return err == nil && bytes.Equal(one, other)
}

// plain writes the numbers in a decoded value as [Number] does; those that are too long stay as they are.
func plain(value any) any {
	switch v := value.(type) {
	case json.Number:
		if text, ok := Number(v.String()); ok {
			return json.Number(text)
		}
	case []any:
		for i := range v {
			v[i] = plain(v[i])
		}
	case map[string]any:
		for name := range v {
			v[name] = plain(v[name])
		}
	}
	return value
}

// fault translates an error of the library into one that contains no part of the text except the location.
func fault(err error) error {
	var at *jsontext.SyntacticError
	if !errors.As(err, &at) {
		if errors.Is(err, io.EOF) {
			return errors.New("the JSON is empty")
		}
		return err
	}
	what := "is not valid JSON"
	switch {
	case errors.Is(err, jsontext.ErrDuplicateName):
		what = "is repeated"
	case errors.Is(err, io.ErrUnexpectedEOF):
		return errors.New("the JSON is cut off")
	case strings.Contains(err.Error(), "UTF-8"), strings.Contains(err.Error(), "surrogate"):
		what = "is not valid Unicode"
	}
	location := string(at.JSONPointer)
	if location == "" {
		return fmt.Errorf("it %s (at byte %d)", what, at.ByteOffset)
	}
	if len(location) > maxLocation {
		location = strings.ToValidUTF8(location[:maxLocation], "") + "…"
	}
	return fmt.Errorf("%s %s (at byte %d)", location, what, at.ByteOffset)
}

// TypeError is the error of a value of the wrong type. Its text has no words of Go.
type TypeError struct {
	Location string // of the value, as of [Location]; empty for the text's own
	Wanted   string // the required type, like "must be a string"
}

func (e *TypeError) Error() string {
	return cmp.Or(strings.TrimPrefix(e.Location, "."), "it") + " " + e.Wanted
}

// Unmarshal decodes JSON of a client into a structure. Names of members are case-sensitive. (The standard library
// accepts "Level" for "level", so two parsers could choose different members.) Unknown members are ignored. A duplicate
// member or invalid syntax is an error. The error is a [*TypeError] if a value has the wrong type. All errors are in
// words for the sender.
func Unmarshal(raw []byte, into any) error {
	err := jsonv2.Unmarshal(raw, into)
	if wrong, ok := errors.AsType[*jsonv2.SemanticError](err); ok {
		return &TypeError{Location(wrong.JSONPointer), wanted(wrong.GoType)}
	}
	if err != nil {
		return fault(err)
	}
	return nil
}

// Location is a location in a JSON text as errors name it: .model.name, .tools[3]. The names in it are the sender's.
func Location(p jsontext.Pointer) string {
	var b strings.Builder
	for name := range p.Tokens() {
		if name != "" && strings.Trim(name, "0123456789") == "" {
			b.WriteString("[" + name + "]")
		} else {
			b.WriteString("." + name)
		}
		if b.Len() > maxLocation {
			return strings.ToValidUTF8(b.String()[:maxLocation], "") + "…"
		}
	}
	return b.String()
}

// wanted returns the type that a value must have, in the words of JSON.
func wanted(t reflect.Type) string {
	for t != nil && t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch {
	case t == reflect.TypeFor[time.Time]():
		return "must be a time, like 2026-01-31T12:00:00Z"
	case t == nil, reflect.PointerTo(t).Implements(reflect.TypeFor[json.Unmarshaler]()):
		return "has the wrong type"
	}
	switch t.Kind() {
	case reflect.String:
		return "must be a string"
	case reflect.Bool:
		return "must be true or false"
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return "must be a whole number"
	case reflect.Float32, reflect.Float64:
		return "must be a number"
	case reflect.Slice, reflect.Array:
		return "must be a list"
	case reflect.Struct, reflect.Map:
		return "must be an object"
	}
	return "has the wrong type"
}
