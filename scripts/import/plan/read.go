package plan

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"

	"agentplatform/internal/platform/strictjson"
)

// Bounds of an export. Letta's files hold whole conversations, so they may be large.
const (
	maxFiles  = 20_000
	maxJSON   = 64 << 20 // bytes of a file of JSON
	maxRead   = 256 << 20
	maxDepth  = 64
	maxValues = 4_000_000
)

// Folders of an export that hold documents, not descriptions.
const (
	originals   = "files"       // the bytes of a document, named by its id or its own name
	contents    = "contents"    // its text as OpenAI has parsed it, ID.json
	collections = "collections" // folders named by a collection's id, with its documents
)

// export has the things that were found in the folder.
type export struct {
	root       fs.FS
	documents  map[string]string // files below originals and contents, by name and by name without its ending
	collection map[string][]string
	used       map[string]bool
	read       int64
	known      int // descriptions that were recognised

	assistants, stores, storeFiles, files []*object // OpenAI
	talk                                  []talk
	agents                                []*object // Letta: whole files
	passages                              []*object // of Letta's archival memory
	graphs                                []*object // LangGraph
}

// talk is a list of messages.
type talk struct {
	file, path, what string
	n                int
}

// Read makes the plan of an export: of all files in a folder, or of the one that is named. Findings are in the order of
// the export. It returns an error if the folder cannot be read, or if nothing in it is a known export.
func Read(root fs.FS, only string, options Options) (*Plan, error) {
	p := &planner{
		options: options, marks: map[string]bool{}, used: map[string]bool{}, found: map[string]bool{},
		alike: map[[2]string]int{}, takes: map[[2]string]string{}, shared: map[string]*shared{},
		export: &export{
			root: root, documents: map[string]string{}, collection: map[string][]string{}, used: map[string]bool{},
		},
	}
	names, err := p.list(only)
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		if (only == "" || name == only) && !p.document(name) {
			p.describe(name, only != "")
		}
	}
	if p.export.known == 0 {
		why := ""
		for _, f := range p.Findings {
			why += "\n  " + Clean(f.File+": "+f.What)
		}
		return nil, fmt.Errorf("the path has no export of OpenAI Assistants, Letta or LangGraph%s", why)
	}
	p.openai()
	for _, o := range p.export.agents {
		p.letta(o)
	}
	p.passages()
	for _, o := range p.export.graphs {
		p.langgraph(o)
	}
	p.conversations()
	p.unused(names, only)
	p.more()
	return &p.Plan, nil
}

// list names the regular files of the export in order. These are all files of the folder, or the one file and the
// content of the document folders next to it. Links and other special files are reported and never followed.
func (p *planner) list(only string) (names []string, err error) {
	from := []string{"."}
	if only != "" {
		from = []string{only, originals, contents, collections}
	}
	for _, dir := range from {
		if err := p.walk(dir, &names); err != nil {
			return nil, err
		}
	}
	return names, nil
}

func (p *planner) walk(from string, names *[]string) error {
	return fs.WalkDir(p.export.root, from, func(name string, d fs.DirEntry, err error) error {
		switch hidden := strings.HasPrefix(path.Base(name), ".") && name != from; {
		case errors.Is(err, fs.ErrNotExist) && name == from:
			return nil
		case err != nil:
			return err
		case d.IsDir() && hidden:
			return fs.SkipDir
		case d.IsDir(), hidden:
			return nil
		case !d.Type().IsRegular():
			p.find(Finding{Kind: LeftOut, Source: "file", File: name, Do: "put a copy in its place",
				What: "is not a regular file: links are not followed"})
			return nil
		case len(*names) == maxFiles:
			return fmt.Errorf("the export has more than %d files", maxFiles)
		}
		*names = append(*names, name)
		p.index(name)
		return nil
	})
}

// index records the place of a document's content.
func (p *planner) index(name string) {
	dir, base := path.Split(name)
	parts := strings.Split(strings.Trim(dir, "/"), "/")
	switch parts[0] {
	case originals, contents:
		for _, known := range []string{base, strings.TrimSuffix(base, path.Ext(base))} {
			key := parts[0] + "/" + known
			if _, taken := p.export.documents[key]; !taken {
				p.export.documents[key] = name
			}
		}
	case collections:
		if len(parts) > 1 {
			p.export.collection[parts[1]] = append(p.export.collection[parts[1]], name)
		}
	}
}

// document reports whether a file is a document. A document is read when it is sent.
func (p *planner) document(name string) bool {
	first, _, below := strings.Cut(name, "/")
	return below && slices.Contains([]string{originals, contents, collections}, first)
}

// endings has the endings of descriptions. A file that is named itself is a description with any ending.
var endings = []string{".json", ".jsonl", ".ndjson", ".af"}

// describe reads a description and sorts it by its shape, for any name.
func (p *planner) describe(name string, named bool) {
	if !named && !slices.Contains(endings, strings.ToLower(path.Ext(name))) {
		return // reported as unused
	}
	raw, err := p.load(name)
	if p.export.read += int64(len(raw)); err == nil && p.export.read > maxRead {
		err = errLarge
	}
	if err != nil {
		p.export.used[name] = true
		do := "fix the file and run again"
		if errors.Is(err, errLarge) {
			do = "divide the export, and import its parts one after the other"
		}
		p.find(Finding{Kind: Unread, Source: "file", File: name, What: err.Error(), Do: do})
		return
	}
	if p.sort(name, "", raw) {
		p.export.used[name] = true
		p.export.known++
	}
}

var errLarge = fmt.Errorf("a file of JSON may have %d MiB and %d values, and all of them %d MiB", maxJSON>>20,
	maxValues, maxRead>>20)

// load reads a file of JSON within the bounds. Letta's API returns the JSON inside a string.
func (p *planner) load(name string) (json.RawMessage, error) {
	f, err := p.export.root.Open(name)
	if err != nil {
		return nil, errors.New("cannot be opened")
	}
	defer func() { _ = f.Close() }()
	raw, err := io.ReadAll(io.LimitReader(f, maxJSON+1))
	switch {
	case err != nil:
		return nil, errors.New("cannot be read")
	case len(raw) > maxJSON:
		return nil, errLarge
	case len(raw) > 1 && (raw[0] == 0 || raw[1] == 0 || raw[0] == 0xff && raw[1] == 0xfe ||
		raw[0] == 0xfe && raw[1] == 0xff):
		return nil, errors.New("is UTF-16: it must be UTF-8")
	}
	raw = lines(bytes.TrimPrefix(raw, []byte("\ufeff")))
	limits := strictjson.Limits{Bytes: maxJSON + 2, Depth: maxDepth} // lines become a list
	for range 2 {
		if err := strictjson.Within(raw, limits, maxValues); err != nil {
			if strings.HasSuffix(err.Error(), " values") { // there are too many
				err = errLarge
			}
			return nil, err
		}
		if raw, err = strictjson.Value(raw, limits); err != nil {
			return nil, err
		}
		var inner string
		if json.Unmarshal(raw, &inner) != nil {
			return raw, nil
		}
		raw = []byte(inner)
	}
	return nil, errors.New("is a text, not an export")
}

// lines makes a list of objects that stand one on each line. Anything else stays unchanged.
func lines(raw []byte) []byte {
	first, rest, _ := bytes.Cut(bytes.TrimSpace(raw), []byte("\n"))
	first = bytes.TrimSpace(first)
	if !bytes.HasPrefix(first, []byte("{")) || !json.Valid(first) || len(bytes.TrimSpace(rest)) == 0 {
		return raw
	}
	var list bytes.Buffer
	list.WriteString("[")
	list.Write(first)
	for line := range bytes.Lines(rest) {
		if line = bytes.TrimSpace(line); len(line) > 0 {
			list.WriteString(",")
			list.Write(line)
		}
	}
	list.WriteString("]")
	return list.Bytes()
}

// sort adds a value to the list for its shape. It returns false for an unknown shape.
func (p *planner) sort(file, at string, raw json.RawMessage) bool {
	if raw[0] == '[' {
		var values []json.RawMessage
		if err := json.Unmarshal(raw, &values); err != nil {
			return false
		}
		return p.sortAll(file, elements(at, values))
	}
	if raw[0] != '{' {
		return false
	}
	o := p.object(file, at, "", raw)
	if o == nil {
		return false
	}
	has := func(names ...string) bool {
		return !slices.ContainsFunc(names, func(n string) bool { return !given(o.members[n]) })
	}
	switch kind := o.peek("object"); {
	case kind == "list", kind == "" && bytes.HasPrefix(o.members["data"], []byte("[")):
		o.ignore("an address of the API's pages", "object", "first_id", "last_id")
		return o.page("data", "has_more", "after=LAST_ID")
	case kind != "":
		return p.openaiObject(o, kind)
	case has("agents", "tools"), has("agents", "blocks"), has("agent_type", "core_memory"):
		p.export.agents = append(p.export.agents, o)
	case has("agent_type"):
		o.source = fmt.Sprintf("agent %q", o.peek("name"))
		p.find(Finding{Kind: Unread, Source: o.source, File: file, Path: at, Whole: true,
			What: "is an agent from the API's list, without its parts",
			Do:   "save GET /v1/agents/" + cut(o.peek("id"), 100) + "/export instead, and run again"})
	case has("text") && strings.HasPrefix(o.peek("id"), "passage-"):
		p.export.passages = append(p.export.passages, o)
	case has("assistant_id", "graph_id"):
		p.export.graphs = append(p.export.graphs, o)
	case has("assistants"):
		return o.page("assistants", "next", "offset")
	case has("graphs"):
		o.source = "file langgraph.json"
		o.report(LeftOut, "graphs are programs: only their assistants become agents",
			"serve the graph as an MCP server or behind a URL, and add it as a toolkit", "graphs")
		o.rest("is only needed to run the graph")
	default:
		return false
	}
	return true
}

// page sorts the elements of a list from an API, and reports if the list has more elements elsewhere.
func (o *object) page(elements, more, by string) bool {
	o.source = "list"
	o.report(Unread, "the list has further pages",
		"save them, too ("+by+"), take "+more+" out of this file, and run again", more)
	known := o.p.sortAll(o.file, o.list(elements))
	o.rest("")
	return known
}

func (p *planner) sortAll(file string, list []element) bool {
	known := true
	for _, e := range list {
		if !p.sort(file, e.path, e.raw) {
			known = false
			p.find(Finding{Kind: LeftOut, Source: "element", File: file, Path: e.path, Whole: true,
				What: "is unknown", Do: "take it out of the export, or report the format"})
		}
	}
	return known || len(list) > 0
}

// fileOf returns the place of a document's content, by its id or its name. It is empty if the content is not in the
// export.
func (p *planner) fileOf(folder string, names ...string) string {
	for _, name := range names {
		if at := p.export.documents[folder+"/"+path.Base(name)]; name != "" && at != "" {
			p.export.used[at] = true
			return at
		}
	}
	return ""
}

// sized reports a document that is too large for the service.
func (p *planner) sized(o *object, at string) bool {
	info, err := fs.Stat(p.export.root, at)
	switch {
	case err != nil:
		o.about(Unread, "its content "+at+" cannot be read", "fix the file and run again")
	case info.Size() == 0:
		o.about(LeftOut, "its content "+at+" is empty", "put the file's bytes there and run again")
	case info.Size() > maxDocument:
		o.about(LeftOut, fmt.Sprintf("its content %s has more than %d MiB", at, maxDocument>>20),
			"divide it and upload the parts")
	default:
		return true
	}
	return false
}

// conversations reports messages, which are not taken over.
func (p *planner) conversations() {
	for _, t := range p.export.talk {
		p.find(Finding{Kind: Conversation, Source: "conversations", File: t.file, Path: t.path,
			What: fmt.Sprintf("%d %s: conversations are not imported", t.n, t.what), Whole: true,
			Do: "keep the export as their archive"})
	}
}

// unused reports files that nothing has named, and options that matched nothing.
func (p *planner) unused(names []string, only string) {
	for _, name := range names {
		if p.export.used[name] || only != "" {
			continue
		}
		what, do := "is not a known export", "take it out of the folder; documents belong into "+originals+"/"
		if p.document(name) {
			what, do = "no knowledge base uses it", "upload it yourself if you need it"
		}
		p.find(Finding{Kind: LeftOut, Source: "file", File: name, What: what, Do: do})
	}
	for _, given := range []struct {
		option string
		values map[string]string
	}{{"-model", p.options.Models}, {"-tool", p.options.Tools}} {
		for _, name := range slices.Sorted(maps.Keys(given.values)) {
			if !p.used[given.option+name] {
				p.find(Finding{Kind: Notice, Source: "option " + given.option, What: "the export has no " + name,
					Do: "compare the spelling with the export"})
			}
		}
	}
}
