package httptool

import (
	"bytes"
	"encoding/json"
	"mime/multipart"
	"net/textproto"
	"regexp"
	"strconv"
	"strings"
)

// Field is a part of a request that an argument fills, written in a style of OpenAPI.
type Field struct {
	Name     string `json:"name"`
	Argument string `json:"argument"`
	// Style is a style of OpenAPI, or one of the styles below. Empty: simple in the path and in headers, form
	// elsewhere.
	Style    string `json:"style,omitempty"`
	Joined   bool   `json:"joined,omitempty"`       // a list or an object becomes one value (explode is false)
	Reserved bool   `json:"reserved,omitempty"`     // reserved characters are not encoded where the query allows it
	Content  string `json:"content_type,omitempty"` // of a part of a multipart body
}

// The styles. Swagger 2.0 has tab-separated lists, and a parameter with a content is JSON.
const (
	Simple = "simple"
	Label  = "label"
	Matrix = "matrix"
	Form   = "form"
	Deep   = "deepObject"
	Spaced = "spaceDelimited"
	Piped  = "pipeDelimited"
	Tabbed = "tabDelimited"
	JSON   = "json"
)

// Characters that are not encoded, beside letters and digits.
const (
	unreserved   = "-_.~"
	subDelimiter = "!$&'()*+,;="
	inQuery      = ":/?@!$'()*,;" // reserved characters that end neither a query nor a value
	inCookie     = "!#$&'()*+/:<=>?@[]^`{|}"
)

// member is a member of an object, or an item of a list, which has no name.
type member struct {
	name  string
	value json.RawMessage
}

// isNull reports whether an argument is absent or null.
func isNull(raw json.RawMessage) bool { return len(raw) == 0 || string(raw) == "null" }

func isList(raw json.RawMessage) bool { return len(raw) > 0 && raw[0] == '[' }

func isObject(raw json.RawMessage) bool { return len(raw) > 0 && raw[0] == '{' }

// members are the parts of a list or an object in their order, without those that are null.
func members(raw json.RawMessage) (list []member) {
	decoder := json.NewDecoder(bytes.NewReader(raw))
	if _, err := decoder.Token(); err != nil {
		return nil
	}
	for decoder.More() {
		var one member
		if isObject(raw) {
			name, err := decoder.Token()
			if err != nil {
				return nil
			}
			one.name, _ = name.(string)
		}
		if decoder.Decode(&one.value) != nil {
			return nil
		}
		if !isNull(one.value) {
			list = append(list, one)
		}
	}
	return list
}

// textOf is a value as text: a string without its quotation marks, anything else as JSON.
func textOf(raw json.RawMessage) string {
	var text string
	if isNull(raw) || raw[0] == '"' && json.Unmarshal(raw, &text) == nil {
		return text
	}
	return string(raw)
}

// texts are the items of a list, or the names and values of an object: joined by equals, or one after another.
func texts(raw json.RawMessage, equals string, encode func(string) string) (list []string) {
	for _, one := range members(raw) {
		switch value := encode(textOf(one.value)); {
		case isList(raw):
			list = append(list, value)
		case equals != "":
			list = append(list, encode(one.name)+equals+value)
		default:
			list = append(list, encode(one.name), value)
		}
	}
	return list
}

// inPath is an argument as a part of the path.
func (f Field) inPath(raw json.RawMessage) string {
	strict := func(text string) string { return escape(text, unreserved) }
	before, between, name := "", ",", ""
	switch f.Style {
	case Label:
		before = "."
	case Matrix:
		before, name = ";", strict(f.Name)
	}
	if f.Style == JSON || !isList(raw) && !isObject(raw) {
		text := f.plain(raw)
		switch {
		case before == "": // a server reads the delimiters as parts of the value
			return escape(text, unreserved+subDelimiter)
		case name != "" && text != "":
			return before + name + "=" + strict(text)
		}
		return before + name + strict(text)
	}
	equals := ""
	if !f.Joined {
		equals = "="
		if before != "" {
			between = before
		}
	}
	list := texts(raw, equals, strict)
	switch {
	case len(list) == 0:
		return ""
	case name != "" && f.Joined:
		before += name + "="
	case name != "" && isList(raw):
		between += name + "="
		before = between
	}
	return before + strings.Join(list, between)
}

// inHeader is an argument as a header's value; there is none of an empty list.
func (f Field) inHeader(raw json.RawMessage) (value string, ok bool) {
	if f.Style == JSON || !isList(raw) && !isObject(raw) {
		return f.plain(raw), !isNull(raw)
	}
	equals := "="
	if f.Joined {
		equals = ""
	}
	list := texts(raw, equals, func(text string) string { return text })
	return strings.Join(list, ","), len(list) > 0
}

func (f Field) plain(raw json.RawMessage) string {
	if f.Style == JSON {
		return string(raw)
	}
	return textOf(raw)
}

// pairs writes an argument as name=value, each encoded, for the query, cookies and forms. keep are the characters that
// are not encoded.
func (f Field) pairs(raw json.RawMessage, keep string) []string {
	encode := func(text string) string { return escape(text, keep) }
	if f.Reserved {
		encode = escapeReserved
	}
	name := escape(f.Name, keep)
	switch {
	case isNull(raw):
		return nil
	case f.Style == JSON, !isList(raw) && !isObject(raw):
		return []string{name + "=" + encode(f.plain(raw))}
	case f.Style == Deep:
		return deep(name, raw, encode)
	case !f.Joined && isObject(raw):
		return f.exploded(raw, keep)
	}
	list := texts(raw, "", encode)
	if !f.Joined || len(list) == 0 {
		for i := range list {
			list[i] = name + "=" + list[i]
		}
		return list
	}
	between := map[string]string{Spaced: "%20", Piped: "%7C", Tabbed: "%09"}[f.Style]
	if between == "" {
		between = ","
	}
	return []string{name + "=" + strings.Join(list, between)}
}

// exploded returns the members of an object, each as a parameter of its own. A member that is a list is written like a
// parameter that is one.
func (f Field) exploded(raw json.RawMessage, keep string) (list []string) {
	for _, one := range members(raw) {
		own := Field{Name: one.name, Reserved: f.Reserved}
		if isObject(one.value) {
			own.Style = JSON
		}
		list = append(list, own.pairs(one.value, keep)...)
	}
	return list
}

// deep writes name[member]=value. OpenAPI does not define deeper values; servers that accept them read this form.
func deep(name string, raw json.RawMessage, encode func(string) string) (list []string) {
	if !isList(raw) && !isObject(raw) {
		return []string{name + "=" + encode(textOf(raw))}
	}
	for i, one := range members(raw) {
		at := escape(one.name, unreserved)
		if isList(raw) && (isList(one.value) || isObject(one.value)) {
			at = strconv.Itoa(i)
		}
		list = append(list, deep(name+"%5B"+at+"%5D", one.value, encode)...)
	}
	return list
}

func (r Request) form(body json.RawMessage) string {
	var list []string
	for _, one := range members(body) {
		f := r.property(one)
		for _, pair := range f.pairs(one.value, unreserved) {
			if !f.Reserved {
				pair = strings.ReplaceAll(pair, ",", "%2C") // forms encode what joins a list, too
			}
			list = append(list, pair)
		}
	}
	return strings.ReplaceAll(strings.Join(list, "&"), "%20", "+")
}

// property is how a member of a form's body is written: an object as JSON without an encoding.
func (r Request) property(m member) Field {
	for _, f := range r.Form {
		if f.Name == m.name {
			return f
		}
	}
	f := Field{Name: m.name}
	if isObject(m.value) {
		f.Style, f.Content = JSON, "application/json"
	}
	return f
}

// multipart is a body of parts without files, and its media type.
func (r Request) multipart(body json.RawMessage) ([]byte, string, error) {
	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	for _, one := range members(body) {
		f, values := r.property(one), []member{one}
		if isList(one.value) && f.Style != JSON {
			values = members(one.value)
		}
		for _, v := range values {
			header := textproto.MIMEHeader{}
			header.Set("Content-Disposition", `form-data; name="`+quoted.Replace(f.Name)+`"`)
			if f.Content != "" {
				header.Set("Content-Type", f.Content)
			}
			part, err := w.CreatePart(header)
			if err != nil {
				return nil, "", err
			}
			if _, err = part.Write([]byte(f.plain(v.value))); err != nil {
				return nil, "", err
			}
		}
	}
	err := w.Close()
	return b.Bytes(), w.FormDataContentType(), err
}

var quoted = strings.NewReplacer(`"`, "%22", "\r", "%0D", "\n", "%0A")

// escapeReserved encodes characters that would end a query's value. Encoded ones stay.
func escapeReserved(text string) string {
	return encodedOrAny.ReplaceAllStringFunc(text, func(one string) string {
		if len(one) == len("%2F") && one[0] == '%' {
			return one
		}
		return escape(one, unreserved+inQuery)
	})
}

var encodedOrAny = regexp.MustCompile(`(?s)%[0-9A-Fa-f]{2}|.`)
