package openapitool

import (
	"cmp"
	"fmt"
	"maps"
	"mime"
	"slices"
	"strings"

	"agentplatform/internal/ai/tool"
	"agentplatform/internal/ai/tool/httptool"
)

var errLongNames = tool.Fail("its parameters have names that are too long")

// parameter is one parameter of an operation, or a property of a form.
type parameter struct {
	name, in, description string
	required, reserved    bool
	style                 string
	explode               any // whether it is exploded, where the document has it
	schema                any
}

// stylesIn are the styles that OpenAPI defines for each part of a request, the default first.
var stylesIn = map[string][]string{
	"query":  {httptool.Form, httptool.Spaced, httptool.Piped, httptool.Tabbed, httptool.Deep, httptool.JSON},
	"header": {httptool.Simple, httptool.JSON},
	"cookie": {httptool.Form, httptool.JSON},
	"path":   {httptool.Simple, httptool.Label, httptool.Matrix, httptool.JSON},
}

// ignored reports whether a parameter is not an argument. This is so for the API key of a security scheme and for a
// reserved header. It is also so for the idempotency key of a request that is not safe: its call has the key.
func (p parameter) ignored(d *document, method string) bool {
	key := strings.EqualFold(p.name, httptool.IdempotencyKey) && !httptool.Safe(method)
	return p.in == "header" && (key || httptool.Reserved(p.name)) || d.secures(p.in, p.name)
}

// secures reports whether an API key of a security scheme has this name in this part of a request.
func (d *document) secures(in, name string) bool {
	if d.keys == nil {
		d.keys = map[[2]string]bool{}
		schemes, _ := d.follow(d.root["securityDefinitions"]) // of Swagger
		if components, _ := d.follow(d.root["components"]); !d.swagger {
			schemes, _ = d.follow(components["securitySchemes"])
		}
		for _, one := range schemes {
			if s, _ := d.follow(one); s["type"] == "apiKey" {
				d.keys[keyIn(text(s["in"]), text(s["name"]))] = true
			}
		}
	}
	return d.keys[keyIn(in, name)]
}

// keyIn identifies a parameter of a request. Names of headers are the same in any case.
func keyIn(in, name string) [2]string {
	if in == "header" {
		name = strings.ToLower(name)
	}
	return [2]string{in, name}
}

// field describes how the parameter is written. fault is the reason why it cannot be written.
func (p parameter) field() (f httptool.Field, fault string) {
	styles := stylesIn[p.in]
	style := cmp.Or(p.style, styles[0])
	if !slices.Contains(styles, style) {
		return f, fmt.Sprintf("OpenAPI does not define the style %q of its parameter %s in the %s",
			tool.Clip(style, 100), tool.Clip(p.name, 100), p.in)
	}
	f = httptool.Field{Name: p.name, Reserved: p.reserved && p.in == "query"}
	if style != styles[0] {
		f.Style = style
	}
	exploded := style == httptool.Form
	if explode, ok := p.explode.(bool); ok {
		exploded = explode
	}
	f.Joined = !exploded && style != httptool.Deep && style != httptool.JSON
	return f, ""
}

// parameters are an operation's own, and those of its path item that the operation does not replace.
func parameters(d *document, method string, item, o map[string]any) (all []parameter, err error) {
	type key struct{ in, name string }
	there, names := map[key]bool{}, 0
	for _, from := range [][]any{list(o["parameters"]), list(item["parameters"])} {
		own := map[key]bool{}
		if len(from) > maxParameters {
			return nil, tool.Fail("it takes over %d parameters", maxParameters)
		}
		for _, one := range from {
			m := d.object(one)
			p := parameter{
				name: text(m["name"]), in: text(m["in"]), description: text(m["description"]),
				required: m["required"] == true, reserved: m["allowReserved"] == true,
				style: text(m["style"]), explode: m["explode"], schema: m["schema"],
			}
			if p.name == "" || stylesIn[p.in] == nil || there[key{p.in, p.name}] || p.ignored(d, method) {
				continue
			}
			if names += len(p.name); names > maxNames {
				return nil, errLongNames
			}
			if p.schema == nil {
				if content := d.object(m["content"]); len(content) == 1 {
					for kind, media := range content {
						p.schema = d.object(media)["schema"]
						if rank(kind) <= anyJSON {
							p.style = httptool.JSON
						}
					}
				}
			}
			own[key{p.in, p.name}] = true
			all = append(all, p)
		}
		maps.Copy(there, own)
	}
	return all, nil
}

// The kinds of bodies, those first that models write best.
const (
	plainJSON = iota
	anyJSON
	urlForm
	partedForm
	plainText
	jsonPatch
	anyText
	binary
)

// rank is which kind of body a media type is.
func rank(kind string) int {
	if len(kind) > maxKind {
		return binary
	}
	media, _, err := mime.ParseMediaType(kind)
	if err != nil {
		media = strings.ToLower(strings.TrimSpace(kind))
	}
	switch {
	case media == "application/json":
		return plainJSON
	case media == "application/json-patch+json":
		return jsonPatch
	case httptool.IsJSON(media), media == "*/*", media == "application/*", media == "":
		return anyJSON
	case media == "application/x-www-form-urlencoded":
		return urlForm
	case media == "multipart/form-data":
		return partedForm
	case media == "text/plain":
		return plainText
	case httptool.IsText(media):
		return anyText
	}
	return binary
}

// body takes the body in the media type that models write best.
func (m *maker) body(body map[string]any) {
	content := m.object(body["content"])
	if len(content) == 0 || len(content) > maxParameters {
		return
	}
	kinds := slices.Sorted(maps.Keys(content))
	kind := slices.MinFunc(kinds, func(a, b string) int { return rank(a) - rank(b) })
	of, media := rank(kind), m.object(content[kind])
	about, must := text(body["description"]), body["required"] == true
	if len(kind) > maxKind || media == nil {
		return
	}
	m.request.Body, m.request.Content = bodyArgument, kind
	if kind == "" || strings.Contains(kind, "*") {
		m.request.Content = "application/json"
	}
	switch of {
	case binary:
		m.fault(fmt.Sprintf("its body is %s, which a model cannot write", tool.Clip(kind, 100)))
	case anyText:
		about = strings.TrimSpace(about + "\nThe body, as text of the type " + kind + ".")
		media = map[string]any{"schema": map[string]any{"type": "string"}}
	case urlForm, partedForm:
		m.request.Form = m.form(m.object(media["encoding"]))
	}
	m.add(argument{name: bodyArgument, schema: media["schema"], description: about, required: must,
		form: of == urlForm || of == partedForm})
}

// form are the properties of a form's body that have an encoding.
func (m *maker) form(encoding map[string]any) (fields []httptool.Field) {
	if len(encoding) > maxParameters {
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(encoding)) {
		e := m.object(encoding[name])
		p := parameter{name: name, in: "query", style: text(e["style"]), explode: e["explode"],
			reserved: e["allowReserved"] == true}
		if kind := text(e["contentType"]); p.style == "" && p.explode == nil && kind != "" && rank(kind) <= anyJSON {
			p.style = httptool.JSON
		}
		field, fault := p.field()
		m.fault(fault)
		if kind := text(e["contentType"]); len(kind) <= maxKind && !strings.ContainsAny(kind, "*,\r\n") {
			field.Content = kind
		}
		fields = append(fields, field)
	}
	return fields
}
