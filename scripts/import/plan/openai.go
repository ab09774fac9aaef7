package plan

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
)

const openAI = "openai"

// openaiObject sorts an object of OpenAI's API by its kind.
func (p *planner) openaiObject(o *object, kind string) bool {
	e := p.export
	switch kind {
	case "assistant":
		e.assistants = append(e.assistants, o)
	case "vector_store":
		e.stores = append(e.stores, o)
	case "vector_store.file":
		e.storeFiles = append(e.storeFiles, o)
	case "file":
		e.files = append(e.files, o)
	case "thread", "thread.message", "thread.run", "thread.run.step":
		what := map[string]string{
			"thread": "threads", "thread.message": "messages", "thread.run": "runs", "thread.run.step": "steps",
		}[kind]
		list := o.path[:max(0, strings.LastIndex(o.path, "["))]
		last := len(e.talk) - 1
		if last >= 0 && e.talk[last].file == o.file && e.talk[last].what == what {
			e.talk[last].n++
			return true
		}
		e.talk = append(e.talk, talk{o.file, list, what, 1})
	default:
		return false
	}
	return true
}

// openai plans vector stores first, to which assistants refer.
func (p *planner) openai() {
	files, called := map[string]*object{}, map[string]int{}
	for _, o := range p.export.files {
		id := o.text("id")
		o.source = fmt.Sprintf("file %q", id)
		files[id] = o
		called[plainName(o.peek("filename"))]++
	}
	within := map[string][]*object{}
	for _, o := range p.export.storeFiles {
		store := o.text("vector_store_id")
		o.source = fmt.Sprintf("file %q of vector store %q", o.peek("id"), store)
		within[store] = append(within[store], o)
	}
	stores := map[string]string{}
	for _, o := range p.export.stores {
		id := o.peek("id")
		stores[id] = p.vectorStore(o, within[id], files, called)
		delete(within, id)
	}
	for _, id := range slices.Sorted(maps.Keys(within)) {
		for _, o := range within[id] {
			o.whole("its vector store is not in the export", "save GET /v1/vector_stores as well, and run again")
		}
	}
	for _, o := range p.export.assistants {
		p.assistant(o, stores)
	}
	for _, o := range p.export.files {
		if !o.done["filename"] {
			o.report(LeftOut, fmt.Sprintf("%q is in no vector store of the export", o.peek("filename")),
				"upload it to a knowledge base, if agents shall search it", "filename")
		}
		o.ignore("is made anew", "object", "created_at", "bytes", "status", "status_details", "purpose")
		o.report(LeftOut, "documents do not expire", "delete the document when its time has come",
			"expires_at")
		o.rest("")
	}
}

// plainName returns a file's name without any folders.
func plainName(name string) string {
	return path.Base(strings.ReplaceAll(strings.TrimSpace(name), "\\", "/"))
}

// vectorStore plans the knowledge base of a vector store, and returns its mark. called counts the files with each name.
func (p *planner) vectorStore(
	o *object, files []*object, known map[string]*object, called map[string]int,
) string {
	id := o.text("id")
	o.source = named("vector store", o.peek("name"), id)
	b := Base{Mark: markOf(openAI, id)}
	if p.marks[b.Mark] {
		o.whole("the export has this vector store twice", "take one of them out, and run again")
		return b.Mark
	}
	name := o.fit("name", strings.TrimSpace(o.text("name")), maxName)
	b.Name = cmp.Or(name, cut("Vector store "+id, maxName))
	about := o.fit("description", o.text("description"), maxAbout-150)
	o.ignore("is counted anew", "object", "created_at", "usage_bytes", "bytes", "file_counts", "last_active_at",
		"status")
	o.report(LeftOut, "a knowledge base does not expire", "delete it when its time has come",
		"expires_after", "expires_at")
	o.report(LeftOut, "a knowledge base has no metadata", "write it into the description", "metadata")
	o.rest("")
	for _, f := range files {
		if d, ok := p.storedFile(f, known, called); ok {
			b.Documents = append(b.Documents, d)
		}
	}
	if len(files) == 0 {
		o.about(Notice, "the export has none of its files: the knowledge base is empty",
			"save GET /v1/vector_stores/"+id+"/files as well, and run again")
	}
	return p.base(b, about)
}

// storedFile plans the document of a file in a vector store. It returns false if its content is not in the export.
func (p *planner) storedFile(o *object, known map[string]*object, called map[string]int) (Document, bool) {
	d := Document{}
	id := o.text("id")
	if a := o.open("attributes"); a != nil {
		d.Metadata = a.attributes()
	}
	o.ignore("is made anew", "object", "created_at", "usage_bytes")
	if o.peek("status") == "completed" {
		o.ignore("is made anew", "status")
	}
	o.report(Notice, "OpenAI had not processed it", "see whether the document becomes ready here", "status",
		"last_error")
	o.chunking()
	o.rest("")
	name, own := id, id // own: under which an original may stand
	if f := known[id]; f != nil && f.text("filename") != "" {
		name = plainName(f.peek("filename"))
	}
	if called[name] <= 1 { // if several have one name, only the id identifies one
		own = name
	}
	d.Title, d.Name = cut(name, maxTitle), cut(name, maxName)
	if d.Path = p.fileOf(originals, id, own); d.Path != "" {
		if path.Ext(name) == "" {
			d.Name = cut(path.Base(d.Path), maxName)
		}
		return d, p.sized(o, d.Path)
	}
	at := p.fileOf(contents, id)
	if at == "" {
		o.about(LeftOut, "its content is not in the export",
			fmt.Sprintf("put the file there as %s/%s, or its text as OpenAI has it as %s/%s.json, and run again",
				originals, own, contents, id))
		return d, false
	}
	d.Name = cut(name, maxName-4) + ".txt"
	var ok bool
	d.Text, ok = p.parsedText(o, at)
	return d, ok
}

// chunking reports a way of chunking that is not OpenAI's default.
func (o *object) chunking() {
	var c struct {
		Type   string
		Static struct {
			Size    int `json:"max_chunk_size_tokens"`
			Overlap int `json:"chunk_overlap_tokens"`
		}
	}
	raw := o.members["chunking_strategy"]
	_ = json.Unmarshal(raw, &c)
	if c.Type == "auto" || c.Type == "static" && c.Static.Size == 800 && c.Static.Overlap == 400 {
		o.ignore("is the default", "chunking_strategy")
		return
	}
	o.report(Changed, fmt.Sprintf("chunks of %d tokens, %d of them shared: here the knowledge base says how its "+
		"documents are cut, in words", c.Static.Size, c.Static.Overlap),
		"PATCH chunking of the knowledge base", "chunking_strategy")
}

// parsedText returns a file's text as OpenAI has parsed it.
func (p *planner) parsedText(o *object, at string) (string, bool) {
	raw, err := p.load(at)
	if err != nil {
		o.about(Unread, "its content "+at+": "+err.Error(), "save it again, and run again")
		return "", false
	}
	page := p.object(at, "", o.source, raw)
	if page == nil {
		return "", false
	}
	page.ignore("is the type of the object", "object")
	page.ignore("belongs to the file and is in its own object", "file_id", "filename", "attributes")
	page.report(Unread, "its content has further pages", "save them all in one list, and run again",
		"has_more", "next_page")
	var text strings.Builder
	for _, part := range slices.Concat(page.objects("data"), page.objects("content")) {
		part.ignore("is always text", "type")
		text.WriteString(part.text("text"))
		text.WriteString("\n")
		part.rest("")
	}
	page.rest("")
	if strings.TrimSpace(text.String()) == "" {
		o.about(LeftOut, "its content "+at+" has no text", "put the original file there, and run again")
		return "", false
	}
	return text.String(), true
}

// assistant plans the agent of an assistant.
func (p *planner) assistant(o *object, stores map[string]string) {
	id := o.text("id")
	o.source = named("assistant", o.peek("name"), id)
	a := o.begin(markOf(openAI, id), "Assistant "+id)
	a.Instructions = o.fitBytes("instructions", o.text("instructions"))
	a.Model = o.model("model", openAI, o.text("model"))
	o.temperature(&a.Model, "temperature")
	if n := o.number("top_p"); n != nil && *n != 1 {
		o.about(LeftOut, fmt.Sprintf("top_p %v: an agent has a temperature alone", *n), "set the temperature",
			"top_p")
	}
	a.OutputSchema = o.responseFormat()
	o.assistantTools(&a)
	if r := o.open("tool_resources"); r != nil {
		p.resources(r, &a, stores)
	}
	if m := o.open("metadata"); m != nil {
		m.metadata(a.Metadata)
	}
	o.ignore("is made anew", "object", "created_at")
	o.rest("see whether the agent needs it")
	o.agent(a)
}

func (o *object) assistantTools(a *Agent) {
	for _, t := range o.objects("tools") {
		switch kind := t.text("type"); kind {
		case "file_search":
			t.fileSearch(a)
		case "function":
			f := t.open("function")
			if f == nil {
				t.about(LeftOut, "a function without a description", "fix the export and run again")
				break
			}
			f.ignore("arguments are always held to the schema", "strict")
			mark := f.callable(openAI, function{
				name: f.text("name"), description: f.text("description"),
				parameters: f.take("parameters"),
			})
			if mark != "" {
				a.Toolkits = append(a.Toolkits, mark)
			}
			f.rest("")
		case "code_interpreter":
			t.about(LeftOut, "code_interpreter: this service executes no programs of models",
				"add an MCP server that does as a toolkit of the agent")
		default:
			t.about(LeftOut, "a tool of the type "+kind, "look for an MCP server that offers it")
		}
		t.rest("")
	}
}

// fileSearch maps the settings of the tool file_search.
func (o *object) fileSearch(a *Agent) {
	s := o.open("file_search")
	if s == nil {
		return
	}
	if n := s.number("max_num_results"); n != nil {
		a.Passages = int(max(1, min(*n, maxPassages)))
		if float64(a.Passages) != *n {
			s.about(Changed, fmt.Sprintf("%v: a search has at most %d passages", *n, maxPassages),
				"see whether they suffice", "max_num_results")
		}
	}
	s.report(LeftOut, "searches rank in their own way", "see POST /search with min_score for a program of yours",
		"ranking_options")
	s.rest("")
}

// resources maps the resources of an assistant's tools.
func (p *planner) resources(o *object, a *Agent, stores map[string]string) {
	if s := o.open("file_search"); s != nil {
		for _, id := range s.texts("vector_store_ids") {
			if mark := stores[id]; mark != "" {
				a.Bases = append(a.Bases, mark)
				continue
			}
			s.about(LeftOut, fmt.Sprintf("vector store %q is not in the export", id),
				"save GET /v1/vector_stores and its files as well, and run again", "vector_store_ids")
		}
		s.rest("")
	}
	if c := o.open("code_interpreter"); c != nil {
		c.report(LeftOut, "files of code_interpreter, which this service has not",
			"upload them to a knowledge base, if the agent shall search them", "file_ids")
		c.rest("")
	}
	o.rest("")
}
