// Package openapitool implements the tool port with OpenAPI documents: each operation is a tool.
//
// A document is not trusted. Its size, the number of its operations and the work of reading it are limited
// (document.go). References cannot lead to other documents, and circular references end. Only the parts that operations
// need are read. The package must not know runs. It imports its port, httptool and a YAML library.
package openapitool

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
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
	if err := e.Selection.Check(); err != nil {
		return nil, err
	}
	raw := e.Document
	if len(raw) == 0 {
		var err error
		if raw, err = k.fetch(ctx, e); err != nil {
			return nil, err
		}
	}
	if len(raw) > tool.MaxDocument {
		return nil, errLarge
	}
	d, err := read(ctx, raw)
	if err != nil {
		return nil, err
	}
	all, err := chosen(e, d)
	if err != nil {
		return nil, err
	}
	return operations(e, d, all)
}

func (k *Kind) fetch(ctx context.Context, e tool.Endpoint) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, e.URL, nil)
	if err != nil {
		return nil, tool.Fail("the URL of the document is not valid")
	}
	answer, err := httptool.Send(k.Client, request, e.Credentials)
	if err != nil {
		return nil, err
	}
	defer func() { _ = answer.Body.Close() }()
	if answer.StatusCode != http.StatusOK {
		return nil, tool.Fail("the server of the document answered %d", answer.StatusCode)
	}
	return httptool.Read(answer, tool.MaxDocument+1)
}

// listed is an operation before it is read. An operation with a fault cannot be read.
type listed struct {
	path, method string
	item, parts  map[string]any
	fault        error
}

// maxOperations bounds the operations from which a selection chooses: a path is short, and may refer to a long item.
const maxOperations = 50_000

// operations lists the operations of a document, in the order of their paths. A broken path stands for its operations.
// It returns a [tool.Error] if they are in another document or too many, and after the context has ended.
func (d *document) operations() (all []listed, err error) {
	paths := d.object(d.root["paths"])
	if fault := d.cleared(); fault != nil {
		return nil, fault
	}
	for _, path := range slices.Sorted(maps.Keys(paths)) {
		if err := d.ended(); err != nil {
			return nil, err
		}
		if len(all) > maxOperations {
			return nil, tool.Fail("the document has over %d operations: send a smaller one", maxOperations)
		}
		if strings.HasPrefix(path, "x-") {
			continue
		}
		item := d.object(paths[path])
		if fault := d.cleared(); fault != nil {
			all = append(all, listed{path: path, fault: fault})
			continue
		}
		for _, method := range methods {
			if one, there := item[strings.ToLower(method)]; there {
				parts := d.object(one)
				all = append(all, listed{path, method, item, parts, d.cleared()})
			}
		}
	}
	return all, nil
}

// chosen are the operations that an endpoint's selection chooses.
func chosen(e tool.Endpoint, d *document) ([]listed, error) {
	all, err := d.operations()
	if err != nil {
		return nil, err
	}
	if len(all) == 0 {
		return nil, tool.Fail("the document has no operations")
	}
	if e.Selection.IsAll() && len(all) <= tool.MaxTools {
		return all, nil
	}
	candidates := make([]tool.Candidate, 0, len(all))
	for _, one := range all {
		candidates = append(candidates, one.candidate(d, e.Names))
	}
	which, err := e.Selection.Choose(candidates, e.Requested)
	if err != nil {
		return nil, err
	}
	if len(which) > tool.MaxTools {
		return nil, &tool.Error{Field: "include", Message: fmt.Sprintf("the document has over %d operations (%d): "+
			"choose some with include, for example %s", tool.MaxTools, len(which),
			tool.Parts(candidates, tool.MaxOffered))}
	}
	list := make([]listed, 0, len(which))
	for _, i := range which {
		list = append(list, all[i])
	}
	return list, nil
}

// maxTags bounds the tags of an operation, and maxTag the bytes of each.
const (
	maxTags = 20
	maxTag  = 300
)

func (l listed) candidate(d *document, names tool.Names) tool.Candidate {
	id := l.id()
	c := tool.Candidate{Names: append([]string{id, tool.Name(id)}, names[id]...), Path: l.path}
	tags := list(l.parts["tags"])
	for _, tag := range tags[:min(len(tags), maxTags)] {
		if name := text(tag); name != "" && len(name) <= maxTag {
			c.Tags = append(c.Tags, name)
		}
	}
	d.step(1 + len(c.Tags))
	return c
}

// id is the operation's id in the document, or else its method and path.
func (l listed) id() string {
	id := cmp.Or(text(l.parts["operationId"]), strings.ToLower(l.method)+l.path)
	return id[:min(len(id), maxAddress)]
}

// operations reads the chosen operations. One with a fault becomes a tool that is off. If all have faults, the error is
// that of the first.
func operations(e tool.Endpoint, d *document, all []listed) ([]tool.Definition, error) {
	var found []tool.Definition
	var first error
	whole, schemas, others := 0, 0, 0 // operations without a fault; bytes of the schemas found, and of all else
	base, homeless := baseOf(e, d, d.root)
	d.share = maxWork / len(all)
	for _, one := range all {
		definition, fault := operation(e, d, base, homeless, one)
		if err := d.ended(); err != nil {
			return nil, err
		}
		if fault == nil {
			whole++
		} else {
			first = cmp.Or(first, fault)
			definition.Problem, definition.Parameters = tool.Clip(fault.Error(), tool.EnoughText), anything
		}
		others += len(definition.Name) + len(definition.Own) + len(definition.Description) + len(definition.Binding) +
			len(definition.Problem)
		// beyond half of the limit, tools with imprecise schemas are better than none
		if schemas += len(definition.Parameters); schemas > maxFound/2 {
			schemas -= len(definition.Parameters)
			definition.Parameters = anything
			others += len(anything)
		}
		if others > maxFound/2 {
			return nil, tool.Fail("the document's operations are too large: choose some with include")
		}
		found = append(found, definition)
	}
	if whole == 0 {
		return nil, first
	}
	return found, nil
}

// anything is the schema of a tool whose document gives no more precise one.
var anything = json.RawMessage(`{"type":"object"}`)

// methods are the HTTP methods of operations that become tools, in order.
var methods = []string{http.MethodDelete, http.MethodGet, http.MethodHead, http.MethodPatch, http.MethodPost,
	http.MethodPut}

// operation reads one operation. homeless is why the document has no base; an operation may have its own.
func operation(
	e tool.Endpoint, d *document, base string, homeless error, l listed,
) (tool.Definition, error) {
	item, o := l.item, l.parts
	if d.swagger {
		item, o = d.upgraded(item, o)
	}
	m := maker{
		writer: writer{document: d, readOnly: map[string]bool{}}, path: l.path, taken: map[string]bool{},
		request: httptool.Request{Method: l.method, URL: base},
	}
	fault := l.fault
	for _, level := range []map[string]any{item, o} { // servers of their own
		if level["servers"] != nil {
			own, err := baseOf(e, d, level)
			if homeless = err; err == nil {
				m.request.URL, m.request.Beside = own, tool.Origin(own) != tool.Origin(base)
			}
		}
	}
	if fault = cmp.Or(fault, homeless); fault == nil {
		fault = m.take(item, o)
	}
	parameters, err := m.schema()
	fault = cmp.Or(fault, d.cleared(), err)
	binding, err := json.Marshal(m.request)
	return tool.Definition{
		Spec: tool.Spec{
			Name: tool.Name(l.id()), Description: describe(o), Parameters: parameters,
			RetrySafe: httptool.Safe(l.method),
		},
		Own:     l.id(),
		Binding: binding, Problem: m.problem,
	}, cmp.Or(fault, err)
}

// maker makes the request and the arguments of an operation.
type maker struct {
	writer

	request   httptool.Request
	path      string // with names of arguments
	arguments []argument
	taken     map[string]bool // names of arguments
	problem   string
}

// argument is an argument before its schema is written.
type argument struct {
	name, description string
	schema            any
	required, form    bool
}

func (m *maker) take(item, o map[string]any) error {
	if len(m.path) > maxAddress || !strings.HasPrefix(m.path, "/") || strings.HasPrefix(m.path, "//") ||
		strings.Contains(m.path, `\`) {
		return tool.Fail("the path %q must begin with one slash and be no longer than an address",
			tool.Clip(m.path, 100))
	}
	all, err := parameters(m.document, m.request.Method, item, o)
	if err != nil {
		return err
	}
	for _, p := range all {
		name := p.name
		if m.taken[name] || name == bodyArgument {
			name = p.in + "_" + p.name // two parameters of one name in different places
		}
		m.add(argument{name, p.description, p.schema, p.required || p.in == "path", false})
		field, fault := p.field()
		m.fault(fault)
		field.Argument = name
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
			if m.path = strings.ReplaceAll(m.path, "{"+p.name+"}", "{"+name+"}"); len(m.path) > maxAddress {
				return errLongNames
			}
		}
	}
	if body := m.object(o["requestBody"]); body != nil {
		m.body(body)
	}
	m.fill()
	isBody := func(a argument) bool { return a.name == bodyArgument }
	if i := slices.IndexFunc(m.arguments, isBody); i >= 0 { // the last: a large one leaves the others their schemas
		m.arguments = append(m.arguments, m.arguments[i])
		m.arguments = slices.Delete(m.arguments, i, i+1)
	}
	address := m.request.URL + m.path
	if err := httptool.CheckAddress(address); err != nil {
		return err
	}
	m.request.URL = address
	return nil
}

// fill makes an argument of each place of a path that no parameter fills. It makes parameters of those in the path's
// query: a path should have no query, but documents have some.
func (m *maker) fill() {
	for _, one := range httptool.Placeholder.FindAllString(m.path, -1) {
		if name := one[1 : len(one)-1]; !m.taken[name] {
			m.add(argument{name: name, schema: map[string]any{"type": "string"}, required: true})
		}
	}
	path, query, _ := strings.Cut(m.path, "?")
	var fixed []string
	for pair := range strings.SplitSeq(query, "&") {
		name, value, _ := strings.Cut(pair, "=")
		name, err := url.QueryUnescape(name)
		if err == nil && value != "" && value == httptool.Placeholder.FindString(value) {
			m.request.Query = append(m.request.Query, httptool.Field{Name: name, Argument: value[1 : len(value)-1]})
		} else if pair != "" {
			fixed = append(fixed, pair)
		}
	}
	if m.path = path; len(fixed) > 0 {
		m.path += "?" + strings.Join(fixed, "&")
	}
}

// fault notes why the operation cannot be called as a tool; the first reason counts.
func (m *maker) fault(why string) { m.problem = cmp.Or(m.problem, why) }

func (m *maker) add(a argument) {
	m.arguments = append(m.arguments, a)
	m.taken[a.name] = true
}

// schema is the schema of the arguments. If it is too large, it is a less precise one: such a tool is better than none.
func (m *maker) schema() (json.RawMessage, error) {
	whole, types := map[string]any{"type": "object"}, map[string]any{}
	const least = 1
	for m.depth = maxDepth; m.depth >= least; m.depth /= 2 {
		m.nodes, m.bytes, m.cut, m.until = 0, 0, false, m.work+m.share
		properties, required := map[string]any{}, []string{}
		for _, a := range m.arguments {
			properties[a.name] = m.property(a)
			if a.required {
				required = append(required, a.name)
			}
		}
		if m.file != "" {
			m.fault(fmt.Sprintf("it needs a file (%s), which a model cannot send", tool.Clip(m.file, 100)))
		}
		if whole["properties"] = properties; len(required) > 0 {
			whole["required"] = required
		}
		encoded, err := json.Marshal(whole)
		fits := !m.over() && len(encoded) <= tool.MaxSchema && (!m.cut || m.depth == least)
		if err != nil || fits {
			return encoded, err
		}
	}
	for name, one := range whole["properties"].(map[string]any) {
		types[name] = map[string]any{}
		if of := one.(map[string]any)["type"]; of != nil {
			types[name] = map[string]any{"type": of}
		}
	}
	whole["properties"] = types
	if encoded, err := json.Marshal(whole); err != nil || len(encoded) <= tool.MaxSchema {
		return encoded, err
	}
	return anything, nil
}

// property is the schema of an argument. The description of a parameter comes before that of its type.
func (m *maker) property(a argument) map[string]any {
	m.withoutFiles = a.form
	one := m.write(a.schema, 0)
	m.withoutFiles = false
	if a.description != "" {
		m.writer.take(len(a.description))
		one["description"] = a.description
		m.pattern(m.document.schema(a.schema), one)
	}
	return one
}

// bodyArgument is the name of the argument that holds the body.
const bodyArgument = "body"

func describe(o map[string]any) string {
	summary, more := text(o["summary"]), text(o["description"])
	if more != "" && more != summary {
		summary = strings.TrimSpace(tool.Clip(summary, 1024) + "\n" + tool.Clip(more, 1024))
	}
	return tool.Clip(summary, 1024) // the limit of model providers
}
