package openapitool

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"agentplatform/internal/ai/tool"
	"agentplatform/internal/ai/tool/httptool"
	"agentplatform/internal/platform/schema"
)

// Limits on a document.
const (
	maxMarks      = 2_500_000 // characters that may begin a value
	maxYAML       = 1_200_000 // of them in YAML, which takes longer to read
	maxUnfolded   = 1_000_000 // values, with aliases expanded
	maxNesting    = 200
	maxParameters = 200
	maxNames      = 16_384 // bytes of the names of an operation's parameters
	maxKind       = 255    // bytes of a body's media type
	maxVariables  = 100
	maxAddress    = 2_048
	maxHops       = 16 // of references to references
)

var errLarge = tool.Fail("the document is over %d MiB", tool.MaxDocument>>20)

// document is an OpenAPI document as JSON values, parts of which may be shared.
type document struct {
	ctx  context.Context //nolint:containedctx // of the one call that reads it
	root map[string]any

	keys    map[[2]string]bool // where the API keys of security schemes are; nil: not read yet
	swagger bool               // of Swagger 2.0
	work    int                // steps so far
	share   int                // of them for a schema of an operation
	fault   error              // the first error of what is being read
}

// read parses JSON or YAML. It returns a [tool.Error] where the document cannot be read or is too large.
func read(ctx context.Context, raw []byte) (*document, error) {
	raw = bytes.TrimPrefix(raw, []byte("\ufeff"))
	if !utf8.Valid(raw) || bytes.IndexByte(raw, 0) >= 0 {
		if text, ok := httptool.Decode("text/plain", "", raw, tool.MaxDocument); ok {
			raw = []byte(text)
		}
		if len(raw) > tool.MaxDocument {
			return nil, errLarge
		}
	}
	if bytes.HasPrefix(bytes.TrimSpace(raw), []byte("<")) {
		return nil, tool.Fail("this is an HTML or XML page: send the URL of the OpenAPI document itself")
	}
	marks := bytes.Count(raw, []byte("- "))
	for _, c := range []byte("\n,[{:") {
		marks += bytes.Count(raw, []byte{c})
	}
	if marks > maxMarks {
		return nil, tool.Fail("the document has too many parts: send a smaller one")
	}
	d := &document{ctx: ctx}
	var root any
	var err error
	switch {
	case json.Valid(raw):
		decoder := json.NewDecoder(bytes.NewReader(raw))
		decoder.UseNumber()
		err = decoder.Decode(&root)
	case marks > maxYAML:
		return nil, tool.Fail("the document has too many parts: send it as JSON, or send a smaller one")
	default:
		root, err = d.yaml(raw)
	}
	if ctx.Err() != nil {
		return nil, tool.Fail("the document could not be read in time")
	}
	if err != nil {
		return nil, tool.Fail("the document is not an OpenAPI 3 document: %s", tool.Clip(err.Error(), tool.EnoughText))
	}
	d.root, _ = root.(map[string]any)
	return d, d.version()
}

// version finds out which standard the document follows. It returns a [tool.Error] for an unknown one.
func (d *document) version() error {
	value := func(name string) string {
		if n, ok := d.root[name].(json.Number); ok { // YAML reads 3.1 as a number
			return n.String()
		}
		return text(d.root[name])
	}
	open, swagger := value("openapi"), value("swagger")
	d.swagger = open == "" && (swagger == "2" || strings.HasPrefix(swagger, "2."))
	if d.swagger || open == "3" || strings.HasPrefix(open, "3.") {
		return nil
	}
	if swagger != "" && open == "" {
		return tool.Fail("the document has version Swagger %s: only Swagger 2.0 and OpenAPI 3 are supported",
			tool.Clip(swagger, 100))
	}
	return tool.Fail("the document is not an OpenAPI 3 document: openapi is %q", tool.Clip(open, 100))
}

// lasting is a reader that fails once its context has ended.
type lasting struct {
	io.Reader
	ctx context.Context //nolint:containedctx // the YAML library takes no context
}

func (l lasting) Read(p []byte) (int, error) {
	if err := l.ctx.Err(); err != nil {
		return 0, err
	}
	return l.Reader.Read(p)
}

func (d *document) yaml(raw []byte) (any, error) {
	var node yaml.Node
	if err := yaml.NewDecoder(lasting{bytes.NewReader(raw), d.ctx}).Decode(&node); err != nil {
		return nil, err
	}
	u := unfolding{known: map[*yaml.Node]unfolded{}}
	v := u.value(&node, 0)
	return v.value, u.fault
}

// unfolding converts YAML to JSON values. The value of an alias is made once and shared, but counted at each use,
// as each use is visited later.
type unfolding struct {
	known map[*yaml.Node]unfolded
	fault error
}

type unfolded struct {
	value any
	size  int
	made  bool
}

func (u *unfolding) value(n *yaml.Node, depth int) (made unfolded) {
	if u.fault != nil {
		return made
	}
	if known, there := u.known[n]; there {
		if !known.made {
			u.fault = tool.Fail("an alias refers to its own parent")
		}
		return known
	}
	if depth > maxNesting {
		u.fault = tool.Fail("it is nested more than %d deep", maxNesting)
		return made
	}
	if n.Anchor != "" {
		u.known[n] = unfolded{}
		defer func() { u.known[n] = made }()
	}
	made = unfolded{size: 1, made: true}
	part := func(n *yaml.Node) any {
		one := u.value(n, depth+1)
		if made.size += one.size; made.size > maxUnfolded && u.fault == nil {
			u.fault = tool.Fail("its aliases expand to more than %d values", maxUnfolded)
		}
		return one.value
	}
	switch n.Kind {
	case yaml.DocumentNode:
		if len(n.Content) > 0 {
			made.value = part(n.Content[0])
		}
	case yaml.AliasNode:
		made.value = part(n.Alias)
	case yaml.SequenceNode:
		all := make([]any, 0, len(n.Content))
		for _, one := range n.Content {
			all = append(all, part(one))
		}
		made.value = all
	case yaml.MappingNode:
		made.value = members(n, part)
	default:
		made.value = scalar(n)
	}
	return made
}

// members are the members of a mapping and those merged into it (<<) that it does not replace.
func members(n *yaml.Node, part func(*yaml.Node) any) map[string]any {
	all := make(map[string]any, len(n.Content)/2)
	var others []any
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], part(n.Content[i+1])
		switch {
		case key.Kind == yaml.AliasNode:
			all[key.Alias.Value] = value
		case key.ShortTag() != "!!merge":
			all[key.Value] = value
		case len(list(value)) > 0:
			others = append(others, list(value)...)
		default:
			others = append(others, value)
		}
	}
	for _, other := range others {
		from, _ := other.(map[string]any)
		for name, value := range from {
			if _, there := all[name]; !there {
				all[name] = value
			}
		}
	}
	return all
}

func scalar(n *yaml.Node) any {
	var v any
	var number json.Number
	if tag := n.ShortTag(); (tag == "!!int" || tag == "!!float") && json.Unmarshal([]byte(n.Value), &number) == nil {
		return number // as it is written
	}
	if tag := n.ShortTag(); (tag == "!!int" || tag == "!!float" || tag == "!!bool" || tag == "!!null") &&
		n.Decode(&v) == nil {
		switch v := v.(type) {
		case nil, bool:
			return v
		case int:
			return json.Number(strconv.Itoa(v))
		case float64:
			if !math.IsNaN(v) && !math.IsInf(v, 0) {
				b, _ := json.Marshal(v)
				return json.Number(b)
			}
		}
	}
	return n.Value
}

// step counts n steps of work, and reports whether reading may continue.
func (d *document) step(n int) bool {
	if d.work += n; d.fault == nil {
		d.fault = d.ended()
	}
	return d.fault == nil
}

// ended returns an error once the context has ended.
func (d *document) ended() error {
	if d.ctx.Err() != nil {
		return tool.Fail("the document could not be read in time")
	}
	return nil
}

// cleared returns the fault of the parts that were read since the last call, or nil.
func (d *document) cleared() (fault error) {
	fault, d.fault = d.fault, nil
	return fault
}

// object follows references from v to an object; nil where they lead to something else.
func (d *document) object(v any) map[string]any {
	m, lost := d.follow(v)
	if lost != "" && d.fault == nil {
		d.fault = tool.Fail("the document refers to %q, %s", tool.Clip(lost, 100), d.why(lost))
	}
	return m
}

// schema is object for a schema. A broken reference within the document allows any value.
func (d *document) schema(v any) map[string]any {
	m, lost := d.follow(v)
	if lost != "" && !strings.HasPrefix(lost, "#") {
		return d.object(v)
	}
	return m
}

// follow follows references from v to an object. lost is the reference that leads nowhere, if one does.
func (d *document) follow(v any) (_ map[string]any, lost string) {
	for range maxHops {
		m, _ := v.(map[string]any)
		ref, is := m["$ref"].(string)
		if !is {
			return m, ""
		}
		if !d.step(1 + len(ref)/64) {
			return nil, ""
		}
		lost = ref
		var there bool
		if v, there = d.at(ref); !there {
			break
		}
	}
	return nil, lost
}

// why explains a reference that leads nowhere, and how to use a document of several files.
func (d *document) why(lost string) string {
	if _, there := d.at(lost); there {
		return "which is circular"
	}
	if strings.HasPrefix(lost, "#") {
		return "which is not in it"
	}
	return "which is not in it: first bundle its files into one, for example with npx @redocly/cli bundle"
}

func (d *document) at(ref string) (any, bool) {
	if !strings.HasPrefix(ref, "#/") || len(ref) > maxAddress {
		return nil, false
	}
	return schema.Target(d.root, ref)
}

func text(v any) string {
	s, _ := v.(string)
	return s
}

func list(v any) []any {
	l, _ := v.([]any)
	return l
}
