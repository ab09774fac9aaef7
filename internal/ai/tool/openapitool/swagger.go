package openapitool

import (
	"maps"
	"slices"
	"strings"

	"agentplatform/internal/ai/tool"
	"agentplatform/internal/ai/tool/httptool"
)

// Swagger 2.0 differs from OpenAPI 3 in where a document names the server, in its parameters and in its bodies. An
// operation is rewritten when it is read: references stay as they are, and only chosen operations are read.

// host is the address of the server of a Swagger document, relative where it names no host.
func (d *document) host(e tool.Endpoint) (at string, ok bool) {
	host, path := text(d.root["host"]), text(d.root["basePath"])
	if len(host)+len(path) > maxAddress {
		return "", false
	}
	if path != "" && !strings.HasPrefix(path, "/") {
		path = "/" + path
	}
	if host == "" {
		return path, true
	}
	scheme := "https"
	if schemes := list(d.root["schemes"]); len(schemes) > 0 && !slices.Contains(schemes, any("https")) {
		scheme = text(schemes[0])
	} else if len(schemes) == 0 && strings.HasPrefix(strings.ToLower(e.URL), "http:") {
		scheme = "http" // the standard's default: that of the document
	}
	return scheme + "://" + host + path, true
}

// upgraded are a path and an operation of a Swagger document in the form of OpenAPI 3.
func (d *document) upgraded(item, o map[string]any) (path, operation map[string]any) {
	path, operation = map[string]any{}, maps.Clone(o)
	if operation == nil {
		operation = map[string]any{}
	}
	consumes := list(d.root["consumes"])
	if own, there := o["consumes"]; there {
		consumes = list(own)
	}
	consumes = consumes[:min(len(consumes), maxParameters)]
	f := form{properties: map[string]any{}, encoding: map[string]any{}}
	for _, level := range []struct{ from, to map[string]any }{{item, path}, {o, operation}} {
		all := list(level.from["parameters"])
		if level.to["parameters"] = all; len(all) > maxParameters {
			continue // which is refused
		}
		var parameters []any
		for _, one := range all {
			switch p := d.object(one); p["in"] {
			case "body":
				operation["requestBody"] = bodyOf(p, consumes)
			case "formData":
				f.add(p)
			default:
				parameters = append(parameters, upgradedParameter(p))
			}
		}
		level.to["parameters"] = parameters
	}
	if len(f.properties) > 0 {
		operation["requestBody"] = f.body(consumes)
	}
	return path, operation
}

func bodyOf(p map[string]any, consumes []any) map[string]any {
	content := map[string]any{}
	for _, kind := range consumes {
		content[text(kind)] = map[string]any{"schema": p["schema"]}
	}
	if len(content) == 0 {
		content["application/json"] = map[string]any{"schema": p["schema"]}
	}
	return map[string]any{"description": p["description"], "required": p["required"], "content": content}
}

// upgradedParameter is a parameter whose schema stands in a member of its own: its keywords are those of a schema.
func upgradedParameter(p map[string]any) map[string]any {
	out := map[string]any{"schema": p}
	for _, name := range []string{"name", "in", "description", "required"} {
		out[name] = p[name]
	}
	if p["type"] == "array" {
		maps.Copy(out, collected(p))
	}
	return out
}

// collected is how the items of a list are written: with commas by default.
func collected(p map[string]any) map[string]any {
	style := map[string]string{"ssv": httptool.Spaced, "pipes": httptool.Piped, "tsv": httptool.Tabbed}
	format := text(p["collectionFormat"])
	out := map[string]any{"explode": format == "multi"}
	if one := style[format]; one != "" && p["in"] != "path" && p["in"] != "header" {
		out["style"] = one
	}
	return out
}

// form is a body of the parameters in a form.
type form struct {
	properties, encoding map[string]any
	required             []any
	files                bool
}

// add adds a parameter. A parameter of an operation replaces one of its path, which is added before.
func (f *form) add(p map[string]any) {
	name := text(p["name"])
	f.files = f.files || p["type"] == "file"
	f.properties[name] = p
	if p["required"] == true {
		f.required = append(f.required, name)
	}
	if p["type"] == "array" {
		f.encoding[name] = collected(p)
	}
}

func (f *form) body(consumes []any) map[string]any {
	kind := "application/x-www-form-urlencoded"
	if parted := any("multipart/form-data"); f.files || slices.Contains(consumes, parted) &&
		!slices.Contains(consumes, any(kind)) {
		kind = "multipart/form-data"
	}
	schema := map[string]any{"type": "object", "properties": f.properties, "required": f.required}
	return map[string]any{"required": len(f.required) > 0, "content": map[string]any{
		kind: map[string]any{"schema": schema, "encoding": f.encoding},
	}}
}
