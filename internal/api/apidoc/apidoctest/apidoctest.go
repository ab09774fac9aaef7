// Package apidoctest checks answers against the OpenAPI document: the document must have every answer that a test
// receives. Only tests import it.
package apidoctest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// Document is an OpenAPI document that answers are held against.
type Document struct {
	raw      map[string]any
	compiler *jsonschema.Compiler
	mu       sync.Mutex
	compiled map[string]*jsonschema.Schema // by pointer
}

const at = "https://document.test/openapi.json"

// New reads a document. It fails when the document is not JSON.
func New(document []byte) (*Document, error) {
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(document))
	if err != nil {
		return nil, err
	}
	raw, is := value.(map[string]any)
	if !is {
		return nil, errors.New("the document is no object")
	}
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	d := &Document{raw: raw, compiler: c, compiled: map[string]*jsonschema.Schema{}}
	return d, c.AddResource(at, raw)
}

// maxBody is the largest body that is checked, in bytes. Larger ones are lists of rows that smaller ones have, too.
const maxBody = 256 << 10

// Answer is nil when the document has the answer to a request of a method and a path. The document must have its status
// by number, its type, its body and its headers. A request that belongs to no operation is not checked.
func (d *Document) Answer(method string, u *url.URL, status int, header http.Header, body []byte) error {
	path, operation := d.operation(method, u.EscapedPath())
	if operation == nil {
		return nil
	}
	errorf := func(format string, of ...any) error {
		return fmt.Errorf("%s %s: %d: "+format, append([]any{method, path, status}, of...)...)
	}
	responses, _ := operation["responses"].(map[string]any)
	pointer := "#/paths/" + escaped(path) + "/" + strings.ToLower(method) + "/responses/" + strconv.Itoa(status)
	response, _ := responses[strconv.Itoa(status)].(map[string]any)
	if ref, is := response["$ref"].(string); is {
		pointer, response = ref, d.at(ref)
	}
	if response == nil {
		return errorf("is not listed")
	}
	if err := headersFit(response, header); err != nil {
		return errorf("%w", err)
	}
	content, _ := response["content"].(map[string]any)
	if len(content) == 0 {
		return nil
	}
	kind, _, _ := mime.ParseMediaType(header.Get("Content-Type"))
	if content[kind] == nil {
		if content["*/*"] == nil {
			return errorf("the type %s is not listed", kind)
		}
		return nil
	}
	if len(body) > maxBody {
		return nil
	}
	if err := refusalFits(body); err != nil {
		return errorf("%w", err)
	}
	pointer += "/content/" + escaped(kind) + "/schema"
	for _, one := range values(kind, body) {
		if err := d.fits(pointer, one); err != nil {
			return errorf("%w\n%.2000s", err, one)
		}
	}
	return nil
}

// Webhook is nil when the document has a push of an event with that body.
func (d *Document) Webhook(event string, body []byte) error {
	return d.fits("#/webhooks/"+escaped(event)+"/post/requestBody/content/application~1json/schema", body)
}

// headersFit returns an error when an answer lacks a header that it always has, or has one that is not described.
func headersFit(response map[string]any, header http.Header) error {
	described, _ := response["headers"].(map[string]any)
	names := slices.Collect(maps.Keys(described))
	for _, name := range []string{
		"ETag", "X-Request-Id", "Location", "X-Agent-Run-Id", "Idempotent-Replayed", "Idempotent-Mismatch",
		"Retry-After", "RateLimit-Limit",
	} {
		i := slices.IndexFunc(names, func(known string) bool { return strings.EqualFold(known, name) })
		if i < 0 {
			if header.Get(name) != "" {
				return fmt.Errorf("the header %s is not described", name)
			}
			continue
		}
		of, _ := described[names[i]].(map[string]any)
		always := of["required"] == true || alwaysThere[fmt.Sprint(of["$ref"])]
		if name == "ETag" && strings.HasPrefix(header.Get("Content-Type"), "text/event-stream") {
			always = false // a stream, where the other body has one
		}
		if always && header.Get(name) == "" {
			return fmt.Errorf("the header %s is not there", name)
		}
	}
	return nil
}

// alwaysThere are the shared headers that each response has that refers to them.
var alwaysThere = map[string]bool{
	"#/components/headers/ETag": true, "#/components/headers/RequestID": true, "#/components/headers/RetryAfter": true,
}

// refusalFits returns an error where the refusal of a share lacks a member that describes the limit.
func refusalFits(body []byte) error {
	var refusal map[string]any
	_ = json.Unmarshal(body, &refusal) // other bodies are not refusals
	if refusal["code"] != "share_exceeded" && refusal["code"] != "paused_runs_limit" {
		return nil
	}
	for _, name := range []string{"limit", "scope", "max", "used", "retry_after"} {
		if refusal[name] == nil {
			return fmt.Errorf("%s is not there", name)
		}
	}
	return nil
}

// values are those that a body has: one, or those of a stream's events or lines.
func values(kind string, body []byte) (list [][]byte) {
	switch kind {
	case "text/event-stream":
		for line := range bytes.Lines(body) {
			if data, is := bytes.CutPrefix(line, []byte("data: ")); is {
				list = append(list, data)
			}
		}
	case "application/x-ndjson":
		for line := range bytes.Lines(body) {
			if len(bytes.TrimSpace(line)) > 0 {
				list = append(list, line)
			}
		}
	case "application/json":
		list = append(list, body)
	}
	return list
}

func (d *Document) fits(pointer string, value []byte) error {
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(value))
	if err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	s := d.compiled[pointer]
	if s == nil {
		if s, err = d.compiler.Compile(at + pointer); err != nil {
			return err
		}
		d.compiled[pointer] = s
	}
	return s.Validate(v)
}

// operation finds the operation of a request; a path without parameters comes before one with.
func (d *Document) operation(method, requestPath string) (path string, found map[string]any) {
	paths, _ := d.raw["paths"].(map[string]any)
	best := 1000
	for p, item := range paths {
		operation, _ := item.(map[string]any)[strings.ToLower(method)].(map[string]any)
		if n := strings.Count(p, "{"); operation != nil && n < best && matches(p, requestPath) {
			path, found, best = p, operation, n
		}
	}
	return path, found
}

func matches(pattern, path string) bool {
	a, b := strings.Split(pattern, "/"), strings.Split(path, "/")
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] != b[i] && !strings.HasPrefix(a[i], "{") || b[i] == "" && i > 0 {
			return false
		}
	}
	return true
}

// at is the object that a reference names.
func (d *Document) at(ref string) map[string]any {
	var value any = d.raw
	for part := range strings.SplitSeq(strings.TrimPrefix(ref, "#/"), "/") {
		object, _ := value.(map[string]any)
		value = object[strings.NewReplacer("~1", "/", "~0", "~").Replace(part)]
	}
	object, _ := value.(map[string]any)
	return object
}

func escaped(part string) string {
	return url.PathEscape(strings.NewReplacer("~", "~0", "/", "~1").Replace(part))
}
