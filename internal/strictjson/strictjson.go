// Package strictjson reads JSON that nobody vouches for, and gives it a normal form.
//
// JSON leaves open what a member that stands twice means, what a lone surrogate is, and how a number is spelled; two readers of
// one text may understand it differently. So whatever a model, a tool or a client sends as JSON of its own making is read here,
// once, and everything after (policies, people who approve, what is stored, what is sent on) works on the normal form: no
// member twice in one object, valid Unicode with no needless escapes, one spelling for each number, no white space, the members
// in the order in which they came.
//
// It knows no run. It imports the JSON library alone.
package strictjson

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Limits bounds what is read.
type Limits struct {
	Bytes int // of the text, and of its normal form
	Depth int // of arrays and objects in each other
}

// Within says what is too much in JSON that is then read into structures: there, a value may cost a hundred times what it
// weighs. It is lenient otherwise, and keeps nothing.
func Within(raw []byte, limits Limits, values int) error {
	if len(raw) > limits.Bytes {
		return fmt.Errorf("the JSON has %d bytes, it may have %d", len(raw), limits.Bytes)
	}
	in := jsontext.NewDecoder(bytes.NewBuffer(raw), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	for n := 0; ; n++ { // a member's name counts, too, and so does an end
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

// maxDigits bounds a number that is written out: more are no number that anybody computes with.
const maxDigits = 400

// maxPlace bounds how much of the place of a fault is told.
const maxPlace = 200

// Value is the normal form of one JSON value, or what is wrong with it, in words for whoever made it.
func Value(raw []byte, limits Limits) (json.RawMessage, error) {
	if len(raw) > limits.Bytes {
		return nil, fmt.Errorf("the JSON has %d bytes, it may have %d", len(raw), limits.Bytes)
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
			return nil, errors.New("something follows the JSON value")
		}
		if token.Kind() == '0' {
			err = number(to, token.String())
		} else {
			err = to.WriteToken(token)
		}
		if err != nil {
			return nil, fault(err)
		}
		if out.Len() > limits.Bytes+1 { // a short number may be a long one when it is written out
			return nil, fmt.Errorf("the JSON has more than %d bytes when its numbers are written out", limits.Bytes)
		}
	}
}

// Object is [Value] of an object.
func Object(raw []byte, limits Limits) (json.RawMessage, error) {
	v, err := Value(raw, limits)
	if err == nil && v[0] != '{' {
		err = errors.New("it is no JSON object")
	}
	return v, err
}

func number(to *jsontext.Encoder, text string) error {
	plain, ok := Number(text)
	if !ok {
		return fmt.Errorf("a number has more than %d digits", maxDigits)
	}
	return to.WriteValue(jsontext.Value(plain))
}

// Number writes a JSON number out exactly: no exponent, no needless zeros. It says no to one that would be very long.
func Number(text string) (plain string, ok bool) {
	sign, digits := "", text
	if rest, negative := strings.CutPrefix(text, "-"); negative {
		sign, digits = "-", rest
	}
	exponent := 0
	if at := strings.IndexAny(digits, "eE"); at >= 0 {
		n, err := strconv.Atoi(digits[at+1:])
		if err != nil {
			n = maxDigits * maxDigits // out of the range of int, and so of everything
			if digits[at+1] == '-' {
				n = -n
			}
		}
		digits, exponent = digits[:at], n
	}
	whole, fraction, _ := strings.Cut(digits, ".")
	digits = strings.TrimLeft(whole+fraction, "0")
	point := len(digits) - len(fraction) + exponent // where the decimal point stands among the digits
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

// fault says what is wrong in words that hold no more of the text than its place.
func fault(err error) error {
	var at *jsontext.SyntacticError
	if !errors.As(err, &at) {
		if errors.Is(err, io.EOF) {
			return errors.New("there is no JSON")
		}
		return err
	}
	what := "is no valid JSON"
	switch {
	case errors.Is(err, jsontext.ErrDuplicateName):
		what = "stands twice"
	case errors.Is(err, io.ErrUnexpectedEOF):
		return errors.New("the JSON is cut off")
	case strings.Contains(err.Error(), "UTF-8"), strings.Contains(err.Error(), "surrogate"):
		what = "is no valid Unicode"
	}
	place := string(at.JSONPointer)
	if place == "" {
		return fmt.Errorf("it %s (at byte %d)", what, at.ByteOffset)
	}
	if len(place) > maxPlace {
		place = strings.ToValidUTF8(place[:maxPlace], "") + "…"
	}
	return fmt.Errorf("%s %s (at byte %d)", place, what, at.ByteOffset)
}

// Unmarshal reads a value of a client into one of ours. A member is what its name says letter by letter: the standard
// library takes "Level" for "level", too, so that two readers could tell differently which of two was meant. A member
// that stands twice is an error; one that is unknown is left out. The error is a [jsonv2.SemanticError] where the type
// is wrong.
func Unmarshal(raw []byte, into any) error { return jsonv2.Unmarshal(raw, into) }
