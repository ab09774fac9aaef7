// Package openapitool implements the tool port with OpenAPI documents: each operation is a tool.
//
// A document is not trusted: its size, the number of its operations and the work of reading it are limited
// (document.go), references cannot lead to other documents, and circular references end. Only what operations need
// is read. The package must not know runs. It imports its port, httptool and a YAML library.
package openapitool

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"agentplatform/internal/ai/tool"
	"agentplatform/internal/ai/tool/httptool"
)

// Kind is the kind "openapi".
type Kind struct{ Client *http.Client }

// Call makes the operation's request; errors as of [httptool.Do].
func (k *Kind) Call(ctx context.Context, e tool.Endpoint, d tool.Definition, i tool.Invocation) (tool.Result, error) {
	return httptool.Do(ctx, k.Client, e.Credentials, d.Binding, i)
}

// Discover fetches and reads the document, and makes a tool of each operation. It returns a [tool.Error] where the
// document cannot be fetched or used, and the context's error when that ends first.
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
	d, err := read(ctx, raw)
	if err != nil {
		return nil, err
	}
	items, err := itemsOf(d)
	if err != nil {
		return nil, err
	}
	base, err := baseOf(e, d)
	if err != nil {
		return nil, err
	}
	return operations(d, items, base)
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

// baseOf is the base URL of the operations: the toolkit's, or else the document's, which may be relative to the
// address that the document came from.
func baseOf(e tool.Endpoint, d *document) (string, error) {
	at := e.BaseURL
	if servers := list(d.root["servers"]); at == "" && len(servers) > 0 {
		server := d.object(servers[0])
		at = text(server["url"])
		variables := d.object(server["variables"])
		if len(at) > maxAddress || len(variables) > maxVariables {
			return "", tool.Fail("the document's server is no URL")
		}
		for _, name := range slices.Sorted(maps.Keys(variables)) {
			open, means := "{"+name+"}", text(d.object(variables[name])["default"])
			if len(at)+strings.Count(at, open)*len(means) > maxAddress {
				return "", tool.Fail("the document's server is no URL")
			}
			at = strings.ReplaceAll(at, open, means)
		}
	}
	if at == "" {
		at = "/" // the standard's default where a document names no server
	}
	u, err := url.Parse(at)
	if err != nil {
		return "", tool.Fail("the document's server %q is no URL", tool.Clip(at, 100))
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
	if u.Host == "" || u.User != nil || u.RawQuery != "" || u.ForceQuery || u.Fragment != "" ||
		strings.ContainsAny(at, `{}\`) {
		return "", tool.Fail("the document's server must be a URL of a host and a path, without open variables: " +
			"base_url may say it")
	}
	return strings.TrimSuffix(u.String(), "/"), nil
}

// itemsOf are the path items of a document.
func itemsOf(d *document) (map[string]map[string]any, error) {
	paths, items := d.object(d.root["paths"]), map[string]map[string]any{}
	if len(paths) > maxPaths {
		return nil, tool.Fail("the document has over %d paths: name a smaller one", maxPaths)
	}
	for path, item := range paths {
		if strings.HasPrefix(path, "x-") {
			continue
		}
		if len(path) > maxAddress || !strings.HasPrefix(path, "/") || strings.HasPrefix(path, "//") ||
			strings.Contains(path, `\`) {
			return nil, tool.Fail("the path %q must begin with one slash and be no longer than an address",
				tool.Clip(path, 100))
		}
		items[path] = d.object(item)
	}
	return items, d.fault
}

func operations(d *document, items map[string]map[string]any, base string) ([]tool.Definition, error) {
	var found []tool.Definition
	names := map[string]bool{}
	schemas, told := 0, 0 // bytes of the schemas found, and of everything else
	for _, path := range slices.Sorted(maps.Keys(items)) {
		item := items[path]
		for _, method := range methods {
			one, there := item[strings.ToLower(method)]
			if !there {
				continue
			}
			if len(found) == tool.MaxTools {
				return nil, tool.Fail("the document has over %d operations: name a smaller one", tool.MaxTools)
			}
			definition, err := operation(d, base, path, method, item, d.object(one))
			if err != nil {
				return nil, err
			}
			definition.Name = unique(names, definition.Name)
			told += len(definition.Name) + len(definition.Description) + len(definition.Binding)
			// beyond half of the limit, tools with imprecise schemas are better than none
			if schemas += len(definition.Parameters); schemas > maxTold/2 {
				schemas -= len(definition.Parameters)
				definition.Parameters = anything
				told += len(anything)
			}
			if told > maxTold/2 {
				return nil, tool.Fail("the document's operations have too much to say: name a smaller one")
			}
			found = append(found, definition)
		}
		if d.fault != nil {
			return nil, d.fault
		}
	}
	if d.fault != nil {
		return nil, d.fault
	}
	if len(found) == 0 {
		return nil, tool.Fail("the document has no operations")
	}
	return found, nil
}

// anything is the schema of a tool of which nothing more precise can be said.
var anything = json.RawMessage(`{"type":"object"}`)

// methods are the HTTP methods of operations that become tools, in order.
var methods = []string{http.MethodDelete, http.MethodGet, http.MethodHead, http.MethodPatch, http.MethodPost,
	http.MethodPut}

// unique makes a name that is not taken: two operation ids may become the same name.
func unique(taken map[string]bool, name string) string {
	candidate := name
	for n := 2; taken[candidate]; n++ {
		suffix := fmt.Sprintf("_%d", n)
		candidate = name[:min(len(name), tool.MaxName-len(suffix))] + suffix
	}
	taken[candidate] = true
	return candidate
}

func operation(d *document, base, path, method string, item, o map[string]any) (tool.Definition, error) {
	name := text(o["operationId"])
	if name = name[:min(len(name), maxAddress)]; name == "" {
		name = strings.ToLower(method) + path
	}
	m := maker{
		writer: writer{document: d}, request: httptool.Request{Method: method, URL: base}, path: path,
		properties: map[string]any{},
	}
	if err := m.take(item, o); err != nil {
		return tool.Definition{}, tool.Fail("the path %q: %s", tool.Clip(m.path, 100), err)
	}
	parameters, err := m.schema()
	if err != nil {
		return tool.Definition{}, err
	}
	binding, err := json.Marshal(m.request)
	return tool.Definition{
		Spec: tool.Spec{
			Name: tool.Name(name), Description: describe(o), Parameters: parameters, RetrySafe: httptool.Safe(method),
		},
		Binding: binding, Problem: m.problem,
	}, err
}

// maker makes the request and the arguments of an operation.
type maker struct {
	writer

	request    httptool.Request
	path       string // with names of arguments
	properties map[string]any
	required   []string
	problem    string
}

// take takes the parameters and the body.
func (m *maker) take(item, o map[string]any) error {
	all, err := parameters(m.document, item, o)
	if err != nil {
		return err
	}
	for _, p := range all {
		argument := p.name
		if _, taken := m.properties[argument]; taken || argument == bodyArgument {
			argument = p.in + "_" + p.name // two parameters of one name in different places
		}
		m.argument(argument, p.schema, p.description, p.required || p.in == "path")
		field, fault := p.field()
		m.fault(fault)
		field.Argument = argument
		switch p.in {
		case "query":
			m.request.Query = append(m.request.Query, field)
		case "header":
			m.request.Header = append(m.request.Header, field)
		case "cookie":
			m.request.Cookie = append(m.request.Cookie, field)
		case "path":
			if field.Style != "" || !field.Joined {
				m.request.Path = append(m.request.Path, field)
			}
			if m.path = strings.ReplaceAll(m.path, "{"+p.name+"}", "{"+argument+"}"); len(m.path) > maxAddress {
				return errLongNames
			}
		}
	}
	if body := m.object(o["requestBody"]); body != nil {
		m.body(body)
	}
	m.request.URL += m.path
	return httptool.CheckAddress(m.request.URL)
}

// fault notes why the operation cannot be called as a tool; the first reason counts.
func (m *maker) fault(why string) { m.problem = cmp.Or(m.problem, why) }

func (m *maker) argument(name string, of any, description string, must bool) {
	one := m.write(of, 0)
	if _, there := one["description"]; !there && description != "" {
		one["description"] = description
		m.writer.take(len(description))
	}
	m.properties[name] = one
	if must {
		m.required = append(m.required, name)
	}
}

// schema is that of the arguments; where it is too large, a less precise one: such a tool is better than none.
func (m *maker) schema() (json.RawMessage, error) {
	if !m.over() {
		whole := map[string]any{"type": "object", "properties": m.properties}
		if len(m.required) > 0 {
			whole["required"] = m.required
		}
		if encoded, err := json.Marshal(whole); err != nil || len(encoded) <= tool.MaxSchema {
			return encoded, err
		}
	}
	if encoded := shallow(m.properties, m.required); len(encoded) <= tool.MaxSchema {
		return encoded, nil
	}
	return anything, nil
}

// bodyArgument is the name of the argument that holds the body.
const bodyArgument = "body"

func describe(o map[string]any) string {
	said, more := text(o["summary"]), text(o["description"])
	if more != "" && more != said {
		said = strings.TrimSpace(tool.Clip(said, 1024) + "\n" + tool.Clip(more, 1024))
	}
	return tool.Clip(said, 1024) // the limit of model providers
}

// shallow is a schema of the parameters' types only.
func shallow(properties map[string]any, required []string) json.RawMessage {
	plain := map[string]any{}
	for name, p := range properties {
		one := map[string]any{}
		if m, ok := p.(map[string]any); ok && m["type"] != nil {
			one["type"] = m["type"]
		}
		plain[name] = one
	}
	b, _ := json.Marshal(map[string]any{"type": "object", "properties": plain,
		"required": append([]string{}, required...)})
	return b
}
