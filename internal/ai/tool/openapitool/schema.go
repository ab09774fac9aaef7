package openapitool

import (
	"encoding/json"
	"maps"
	"math"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"agentplatform/internal/ai/tool"
)

// Limits on expanded schemas. Beyond them a schema allows anything, which is true, but less helpful.
const (
	maxDepth   = 8
	maxNodes   = 2_000          // of an operation
	maxPattern = 300            // bytes of a regular expression
	maxBytes   = tool.MaxSchema // of an operation's texts
	maxWork    = 400_000        // steps of a document for each depth, in equal shares of its operations
	maxFound   = 10 << 20       // bytes of all that is found in a document; schemas may be half of it
)

// writer expands the schemas of an operation to JSON schemas without references, which model providers do not
// support.
type writer struct {
	*document

	nodes, bytes int
	until        int             // the steps of the document after which no more is written
	depth        int             // how deep schemas are expanded
	cut          bool            // parts were left out
	readOnly     map[string]bool // names of properties that only the server sends
	above        []uintptr       // the schemas being expanded: one that occurs again is a circular reference
	withoutFiles bool            // properties that are files are left out
	file         string          // one of them that is required, or stands alone
}

func (w *writer) take(bytes int) {
	w.bytes += bytes
	w.step(min(bytes, maxBytes) / 256)
}

func (w *writer) over() bool { return w.bytes > maxBytes }

func (w *writer) write(v any, depth int) map[string]any {
	out := map[string]any{}
	w.nodes++
	if !w.room(0) || w.over() || !w.step(1) {
		return out
	}
	s := w.schema(v)
	w.plain(s, out)
	if own, _ := v.(map[string]any); own["$ref"] != nil {
		w.beside(own, s, out)
	}
	w.pattern(s, out)
	at := reflect.ValueOf(s).Pointer()
	if s == nil || depth >= w.depth || slices.Contains(w.above, at) {
		return out
	}
	w.above = append(w.above, at)
	defer func() { w.above = w.above[:len(w.above)-1] }()
	for _, name := range []string{"anyOf", "oneOf", "allOf"} {
		if of := list(s[name]); len(of) > 0 && w.room(len(of)) {
			each := make([]any, 0, len(of))
			for _, one := range of {
				each = append(each, w.write(one, depth+1))
			}
			if out[name] = each; name != "allOf" { // whose parts all hold
				w.discriminate(s["discriminator"], of, each)
			}
		}
	}
	if items, there := s["items"]; there {
		out["items"] = w.write(items, depth+1)
	}
	whole := w.properties(s, out, depth)
	switch more := s["additionalProperties"].(type) {
	case map[string]any:
		if whole {
			out["additionalProperties"] = w.write(more, depth+1)
		}
	case bool:
		if whole {
			out["additionalProperties"] = more
		}
	}
	return out
}

// room reports whether n more nodes are within the limit.
func (w *writer) room(n int) bool {
	fits := w.nodes+n <= maxNodes && w.work <= w.until
	w.cut = w.cut || !fits
	return fits
}

// properties expands the properties of an object, and reports whether all of them fitted.
func (w *writer) properties(s, out map[string]any, depth int) bool {
	of, _ := s["properties"].(map[string]any)
	must := list(s["required"])
	if !w.room(len(of)+len(must)) || !w.step(len(of)+len(must)) {
		return false
	}
	properties, file := map[string]any{}, ""
	for _, name := range slices.Sorted(maps.Keys(of)) {
		if w.take(len(name)); !w.room(0) {
			properties[name] = map[string]any{}
			continue
		}
		p := w.schema(of[name])
		own, _ := of[name].(map[string]any)
		switch {
		case own["readOnly"] == true, w.isReadOnly(p):
			w.readOnly[name] = true
		case w.withoutFiles && w.isFile(p):
			file = name
		default:
			properties[name] = w.write(of[name], depth+1)
		}
	}
	if len(of) > 0 {
		out["properties"] = properties
	}
	if file != "" && len(properties) == 0 {
		w.file = file
	}
	var required []string
	for _, one := range must {
		name := text(one)
		p, there := of[name]
		switch _, kept := properties[name]; {
		case kept, !there && name != "" && !w.readOnly[name] && s["additionalProperties"] != false:
			w.take(len(name))
			required = append(required, name)
		case w.withoutFiles && w.isFile(w.schema(p)):
			w.file = name
		}
	}
	if len(required) > 0 {
		out["required"] = required
	}
	return true
}

// isReadOnly reports whether only the server sends a property, by its own keyword or by a schema that it extends.
func (w *writer) isReadOnly(s map[string]any) bool {
	if s["readOnly"] == true {
		return true
	}
	for _, one := range list(s["allOf"]) {
		if part, _ := one.(map[string]any); part["readOnly"] == true {
			return true
		}
		if !w.step(1) || !w.room(0) {
			break
		}
	}
	return false
}

// isFile reports whether a property of a form is a file, or a list of files.
func (w *writer) isFile(s map[string]any) bool {
	if items := w.schema(s["items"]); items != nil {
		s = items
	}
	if s["type"] == "file" || s["format"] == "binary" {
		return true
	}
	kind := text(s["contentMediaType"])
	return kind != "" && s["contentEncoding"] == nil && rank(kind) == binary
}

func (w *writer) plain(s, out map[string]any) {
	setTypes(out, typesOf(s))
	for _, name := range []string{"description", "format", "enum", "default", "minimum", "maximum", "minLength",
		"maxLength", "minItems", "maxItems"} {
		w.copy(name, s[name], out)
	}
	if one, there := s["const"]; there { // which fewer providers take
		w.copy("enum", []any{one}, out)
	}
}

// pattern describes the pattern of a text. Documents have wrong patterns, and those of other dialects: none is an
// error.
func (w *writer) pattern(s, out map[string]any) {
	if p := text(s["pattern"]); p != "" && len(p) <= maxPattern {
		w.take(len(p))
		out["description"] = strings.TrimSpace(text(out["description"]) + "\nPattern: " + p)
	}
}

// copy copies a keyword whose value has the right type.
func (w *writer) copy(name string, v any, out map[string]any) {
	if !fitting(name, v) {
		return
	}
	if w.take(w.size(v, maxBytes-w.bytes)); w.over() || !w.room(0) {
		return
	}
	switch types := out["type"]; name {
	case "enum":
		var values []any
		for _, one := range list(v) {
			if of, ok := typed(one, types); ok {
				values = append(values, of)
			}
		}
		if len(values) > 0 {
			v = values
		} else { // the type is wrong
			delete(out, "type")
		}
	case "default":
		var ok bool
		if v, ok = typed(v, types); !ok {
			return
		}
	}
	out[name] = v
}

// typed returns a value in one of the types of its schema. Documents write 1 for "1", and "true" for true. No argument
// would fit such a value.
func typed(v any, types any) (_ any, ok bool) {
	list, _ := types.([]string)
	if one, is := types.(string); is {
		list = []string{one}
	}
	is, written := "object", ""
	switch v := v.(type) {
	case nil:
		is = "null"
	case bool:
		is, written = "boolean", strconv.FormatBool(v)
	case json.Number:
		is, written = "number", v.String()
	case string:
		is, written = "string", v
	case []any:
		is = "array"
	}
	has := func(name string) bool { return slices.Contains(list, name) }
	switch {
	case len(list) == 0, has(is), is == "number" && has("integer") && isWhole(written):
		return v, true
	case written == "":
		return nil, false
	case has("string"):
		return written, true
	case has("boolean") && (written == "true" || written == "false"):
		return written == "true", true
	case has("number") || has("integer"):
		var n json.Number
		if json.Unmarshal([]byte(written), &n) != nil || n == "" {
			return nil, false
		}
		return n, has("number") || isWhole(written)
	}
	return nil, false
}

func isWhole(number string) bool {
	n, err := strconv.ParseFloat(number, 64)
	return err == nil && n == math.Trunc(n)
}

// beside copies what stands beside a reference to s.
func (w *writer) beside(own, s, out map[string]any) {
	for _, name := range []string{"description", "default"} {
		w.copy(name, own[name], out)
	}
	if isNullable(own) {
		setTypes(out, withNull(typesOf(s)))
	}
}

func setTypes(out map[string]any, types []string) {
	switch len(types) {
	case 0:
	case 1:
		out["type"] = types[0]
	default:
		out["type"] = types
	}
}

// discriminate gives each alternative the values of the property that distinguishes it: those that are mapped to it,
// and its own name.
func (w *writer) discriminate(discriminator any, of, each []any) {
	d := w.object(discriminator)
	name, mapping := text(d["propertyName"]), w.object(d["mapping"])
	for i, one := range of {
		alternative, _ := one.(map[string]any)
		ref := text(alternative["$ref"])
		if name == "" || ref == "" || !w.room(len(mapping)) || !w.step(len(mapping)) {
			continue
		}
		own := ref[strings.LastIndexByte(ref, '/')+1:]
		if plain, err := url.PathUnescape(own); err == nil {
			own = plain
		}
		own = strings.NewReplacer("~1", "/", "~0", "~").Replace(own)
		var values []any
		for _, value := range slices.Sorted(maps.Keys(mapping)) {
			if to := text(mapping[value]); to == ref || to == own {
				values = append(values, value)
			}
		}
		if mapping[own] == nil {
			values = append(values, own)
		}
		into := each[i].(map[string]any)
		properties, _ := into["properties"].(map[string]any)
		if properties == nil {
			properties = map[string]any{}
			into["properties"] = properties
		}
		property, _ := properties[name].(map[string]any)
		if property == nil {
			property = map[string]any{"type": "string"}
			properties[name] = property
		}
		if property["enum"] == nil {
			w.copy("enum", values, property)
		}
	}
}

// types are the types of JSON schema.
var types = []string{"array", "boolean", "integer", "null", "number", "object", "string"}

// typesOf are the types that a schema names, each once, in the schema's order. The document may have any value
// there.
func typesOf(s map[string]any) (named []string) {
	values := list(s["type"])
	if one := text(s["type"]); one != "" {
		values = []any{one}
	}
	for _, one := range values[:min(len(values), len(types))] {
		if name := text(one); slices.Contains(types, name) && !slices.Contains(named, name) {
			named = append(named, name)
		}
	}
	if isNullable(s) {
		named = withNull(named)
	}
	return named
}

func isNullable(s map[string]any) bool { return s["nullable"] == true || s["x-nullable"] == true }

func withNull(types []string) []string {
	if len(types) > 0 && !slices.Contains(types, "null") {
		types = append(types, "null")
	}
	return types
}

// fitting reports whether a keyword's value has the right type: the document may have any value there.
func fitting(name string, v any) bool {
	switch name {
	case "description", "format":
		return text(v) != ""
	case "enum":
		return len(list(v)) > 0
	case "default":
		return v != nil
	}
	n, ok := v.(json.Number)
	if !ok {
		return false
	}
	count, err := n.Int64()
	return name == "minimum" || name == "maximum" || (err == nil && count >= 0)
}

// size is approximately the size of a value as JSON, in bytes; it stops counting at enough.
func (w *writer) size(v any, enough int) (bytes int) {
	if enough < 0 || !w.room(0) || !w.step(1) {
		return 1
	}
	bytes = 2
	switch v := v.(type) {
	case string:
		bytes += len(v)
	case json.Number:
		bytes += len(v)
	case []any:
		for _, one := range v {
			if bytes += w.size(one, enough-bytes); bytes > enough {
				break
			}
		}
	case map[string]any:
		for name, one := range v {
			if bytes += len(name) + w.size(one, enough-bytes); bytes > enough {
				break
			}
		}
	}
	return bytes
}
