// Package openapitool is the kind of toolkit that an OpenAPI document describes: each operation is a tool.
//
// A document is not trusted: its size, its number of operations and the size of what they take are bounded, references
// lead nowhere outside, and circles end. It knows no run. It imports its port, httptool and the OpenAPI library.
package openapitool

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/getkin/kin-openapi/openapi3"

	"agentplatform/internal/tool"
	"agentplatform/internal/tool/httptool"
)

// Kind is the kind "openapi".
type Kind struct{ Client *http.Client }

// Call makes the operation's request.
func (k *Kind) Call(ctx context.Context, e tool.Endpoint, d tool.Definition, i tool.Invocation) (tool.Result, error) {
	return httptool.Do(ctx, k.Client, e.Credentials, d.Binding, i)
}

// Discover reads the document and makes a tool of each operation.
func (k *Kind) Discover(ctx context.Context, e tool.Endpoint) ([]tool.Definition, error) {
	raw := e.Document
	if len(raw) == 0 {
		var err error
		if raw, err = k.fetch(ctx, e); err != nil {
			return nil, err
		}
	}
	if len(raw) > tool.MaxDocument {
		return nil, tool.Fail("the document is over %d MiB", tool.MaxDocument>>20)
	}
	loader := openapi3.NewLoader()
	loader.Context = ctx
	document, err := loader.LoadFromData(raw)
	if err != nil {
		return nil, tool.Fail("the document is no OpenAPI 3 document: %s", tool.Clip(err.Error(), tool.EnoughText))
	}
	if document.OpenAPI == "" || !strings.HasPrefix(document.OpenAPI, "3.") {
		return nil, tool.Fail("the document is no OpenAPI 3 document: openapi is %q", document.OpenAPI)
	}
	base, err := baseOf(e, document)
	if err != nil {
		return nil, err
	}
	return operations(document, base)
}

func (k *Kind) fetch(ctx context.Context, e tool.Endpoint) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, e.URL, nil)
	if err != nil {
		return nil, tool.Fail("the URL of the document is none")
	}
	answer, err := httptool.Send(k.Client, request, e.Credentials)
	if err != nil {
		return nil, err
	}
	defer func() { _ = answer.Body.Close() }()
	if answer.StatusCode != http.StatusOK {
		return nil, tool.Fail("the server of the document answered %d", answer.StatusCode)
	}
	raw, err := io.ReadAll(io.LimitReader(answer.Body, tool.MaxDocument+1))
	if err != nil {
		return nil, httptool.Unreachable(err)
	}
	return raw, nil
}

// baseOf is where the operations are: where the toolkit says, or the document, relative to where that is from.
func baseOf(e tool.Endpoint, d *openapi3.T) (string, error) {
	at := e.BaseURL
	if at == "" && len(d.Servers) > 0 {
		at = d.Servers[0].URL
		for name, v := range d.Servers[0].Variables {
			at = strings.ReplaceAll(at, "{"+name+"}", v.Default)
		}
	}
	u, err := url.Parse(at)
	if err != nil {
		return "", tool.Fail("the document's server %q is no URL", at)
	}
	if !u.IsAbs() {
		from, err := url.Parse(e.URL)
		if err != nil || !from.IsAbs() {
			return "", tool.Fail("the document names no absolute server: base_url is required")
		}
		u = from.ResolveReference(u)
	}
	if u.Scheme != "http" && u.Scheme != "https" {
		return "", tool.Fail("the document's server must be an http or https URL")
	}
	if u.Host == "" || u.User != nil || u.RawQuery != "" || u.ForceQuery || u.Fragment != "" || strings.ContainsAny(at, `{}\`) {
		return "", tool.Fail("the document's server must be a URL of a host and a path, without open variables: base_url may say it")
	}
	return strings.TrimSuffix(u.String(), "/"), nil
}

func operations(d *openapi3.T, base string) ([]tool.Definition, error) {
	var list []tool.Definition
	names := map[string]bool{}
	paths := d.Paths.Map()
	for _, path := range slices.Sorted(maps.Keys(paths)) {
		if !strings.HasPrefix(path, "/") || strings.HasPrefix(path, "//") || strings.Contains(path, `\`) {
			return nil, tool.Fail("the path %q must begin with one slash", tool.Clip(path, 100))
		}
		item := paths[path]
		of := item.Operations()
		for _, method := range slices.Sorted(maps.Keys(of)) {
			if method == http.MethodOptions || method == http.MethodTrace || method == http.MethodConnect {
				continue
			}
			if len(list) == tool.MaxTools {
				return nil, tool.Fail("the document has over %d operations: name a smaller one", tool.MaxTools)
			}
			definition, err := operation(base, path, method, item, of[method])
			if err != nil {
				return nil, err
			}
			definition.Name = unique(names, definition.Name)
			list = append(list, definition)
		}
	}
	if len(list) == 0 {
		return nil, tool.Fail("the document has no operations")
	}
	return list, nil
}

// unique makes a name that is not taken: two operations may have ids that become one name.
func unique(taken map[string]bool, name string) string {
	candidate := name
	for n := 2; taken[candidate]; n++ {
		suffix := fmt.Sprintf("_%d", n)
		candidate = name[:min(len(name), tool.MaxName-len(suffix))] + suffix
	}
	taken[candidate] = true
	return candidate
}

func operation(base, path, method string, item *openapi3.PathItem, o *openapi3.Operation) (tool.Definition, error) {
	name := o.OperationID
	if name == "" {
		name = strings.ToLower(method) + path
	}
	r := httptool.Request{Method: method}
	schema := map[string]any{"type": "object"}
	properties, required := map[string]any{}, []string{}
	take := func(argument string, ref *openapi3.SchemaRef, description string, must bool) {
		one := inline(ref)
		if description != "" {
			if _, there := one["description"]; !there {
				one["description"] = description
			}
		}
		properties[argument] = one
		if must {
			required = append(required, argument)
		}
	}
	for _, p := range parameters(item, o) {
		argument := p.Name
		if _, taken := properties[argument]; taken || argument == bodyArgument {
			argument = p.In + "_" + p.Name // one name in two places
		}
		ref := p.Schema
		if ref == nil {
			for _, m := range p.Content {
				ref = m.Schema
			}
		}
		take(argument, ref, p.Description, p.Required || p.In == openapi3.ParameterInPath)
		field := httptool.Field{Name: p.Name, Argument: argument, Joined: p.Explode != nil && !*p.Explode}
		switch p.In {
		case openapi3.ParameterInQuery:
			r.Query = append(r.Query, field)
		case openapi3.ParameterInHeader:
			field.Joined = true
			r.Header = append(r.Header, field)
		case openapi3.ParameterInCookie:
			r.Cookie = append(r.Cookie, field)
		case openapi3.ParameterInPath:
			path = strings.ReplaceAll(path, "{"+p.Name+"}", "{"+argument+"}")
		}
	}
	if o.RequestBody != nil && o.RequestBody.Value != nil {
		body := o.RequestBody.Value
		if content, media := bodyOf(body.Content); media != nil {
			r.Body, r.Content = bodyArgument, content
			take(bodyArgument, media.Schema, body.Description, body.Required)
		}
	}
	r.URL = base + path
	if err := httptool.CheckAddress(r.URL); err != nil {
		return tool.Definition{}, tool.Fail("the path %q: %s", tool.Clip(path, 100), err)
	}
	schema["properties"] = properties
	if len(required) > 0 {
		schema["required"] = required
	}
	encoded, err := json.Marshal(schema)
	if err != nil {
		return tool.Definition{}, err
	}
	if len(encoded) > tool.MaxSchema { // better a tool that says less than none
		encoded = shallow(properties, required)
	}
	binding, err := json.Marshal(r)
	return tool.Definition{
		Spec: tool.Spec{
			Name: tool.Name(name), Description: describe(o), Parameters: encoded, RetrySafe: httptool.Safe(method),
		},
		Binding: binding,
	}, err
}

// bodyArgument is the argument that is the body.
const bodyArgument = "body"

func describe(o *openapi3.Operation) string {
	text := o.Summary
	if o.Description != "" && o.Description != o.Summary {
		text = strings.TrimSpace(text + "\n" + o.Description)
	}
	return tool.Clip(text, 1024) // as providers of models take it
}

// shallow are parameters of which only the types are told.
func shallow(properties map[string]any, required []string) json.RawMessage {
	plain := map[string]any{}
	for name, p := range properties {
		one := map[string]any{}
		if m, ok := p.(map[string]any); ok && m["type"] != nil {
			one["type"] = m["type"]
		}
		plain[name] = one
	}
	b, _ := json.Marshal(map[string]any{"type": "object", "properties": plain, "required": append([]string{}, required...)})
	return b
}

// parameters are an operation's own and those of its path that it does not replace.
func parameters(item *openapi3.PathItem, o *openapi3.Operation) (list []*openapi3.Parameter) {
	for _, p := range o.Parameters {
		if p.Value != nil {
			list = append(list, p.Value)
		}
	}
	for _, p := range item.Parameters {
		if p.Value != nil && o.Parameters.GetByInAndName(p.Value.In, p.Value.Name) == nil {
			list = append(list, p.Value)
		}
	}
	return list
}

// bodyOf chooses among the forms of a body the one that a model writes best.
func bodyOf(content openapi3.Content) (string, *openapi3.MediaType) {
	for _, kind := range []string{"application/json", "application/x-www-form-urlencoded", "text/plain"} {
		if m := content[kind]; m != nil {
			return kind, m
		}
	}
	for _, kind := range slices.Sorted(maps.Keys(content)) {
		if strings.HasSuffix(kind, "+json") {
			return kind, content[kind]
		}
	}
	return "", nil
}
