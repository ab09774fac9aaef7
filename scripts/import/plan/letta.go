package plan

import (
	"cmp"
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strings"
)

const letta = "letta"

// file is an agent file that is being planned. Its ids are valid only within the file.
type file struct {
	blocks  map[string]*object
	tools   map[string]*object
	sources map[string]*object
	servers map[string]*object // by name
	bases   map[string]string  // marks, by the source's id
	called  map[string]int     // how many files have a name

	offered  map[string]bool // servers whose toolkit an agent has
	offers   map[*object]*offer
	sections map[*object]section
}

const lettaDo = "see whether the agent needs it"

// letta plans an agent file, of the form with several agents or of the older one with one.
func (p *planner) letta(o *object) {
	o.source = "agent file " + path.Base(o.file)
	f := &file{
		blocks: map[string]*object{}, tools: map[string]*object{}, sources: map[string]*object{},
		servers: map[string]*object{}, bases: map[string]string{}, called: map[string]int{},
		offered: map[string]bool{}, offers: map[*object]*offer{}, sections: map[*object]section{},
	}
	o.ignore("is the date and the version of the export", "created_at", "updated_at", "version")
	if given(o.members["core_memory"]) {
		for i, t := range o.objects("tools") {
			f.tools[fmt.Sprint(i)] = t
		}
		p.lettaAgent(o, f, true)
		return
	}
	if m := o.open("metadata"); m != nil {
		m.ignore("is the version of the export", "revision_id")
		m.rest("keep it where you need it")
	}
	o.index("blocks", f.blocks)
	o.index("tools", f.tools)
	o.index("sources", f.sources)
	for _, s := range o.objects("mcp_servers") {
		s.ignore("is only valid within the file", "id")
		s.source = fmt.Sprintf("MCP server %q", s.peek("server_name"))
		s.keep(f.servers, s.peek("server_name"))
	}
	for _, s := range o.objects("skills") {
		s.whole(fmt.Sprintf("skill %q: a folder of instructions and files, which no agent here has", s.peek("name")),
			"write what it says into the instructions, or its files into a knowledge base")
	}
	p.lettaSources(o, f)
	for _, a := range o.objects("agents") {
		p.lettaAgent(a, f, false)
	}
	for _, g := range o.objects("groups") {
		g.whole("agents that work as a group: here each agent works by itself",
			"offer agents to each other as MCP tools")
	}
	f.leftover()
	o.rest("")
}

// index opens a list of objects by their ids.
func (o *object) index(name string, into map[string]*object) {
	for _, one := range o.objects(name) {
		one.ignore("is only valid within the file", "id")
		one.source = fmt.Sprintf("%s %q", strings.TrimSuffix(name, "s"), one.label())
		one.keep(into, one.peek("id"))
	}
}

// keep records the first object with an id or name. Others are reported.
func (o *object) keep(into map[string]*object, id string) {
	if id == "" || into[id] != nil {
		o.whole(fmt.Sprintf("%q is not a unique id, so nothing can refer to it", id),
			"export the agent again")
		return
	}
	into[id] = o
}

func (o *object) label() string {
	for _, name := range []string{"name", "label", "file_name"} {
		if text := o.peek(name); text != "" {
			return text
		}
	}
	return o.peek("id")
}

// lettaSources plans a knowledge base for each source, with the files that belong to it.
func (p *planner) lettaSources(o *object, f *file) {
	files := map[string][]*object{}
	for _, one := range o.objects("files") {
		one.source = fmt.Sprintf("file %q", one.label())
		f.called[one.fileName()]++
		one.ignore("is only valid within the file", "id")
		source := one.text("source_id")
		files[source] = append(files[source], one)
	}
	for _, id := range sortedKeys(f.sources) {
		s := f.sources[id]
		name := strings.TrimSpace(s.text("name"))
		b := Base{Mark: letta + ":" + digest("source", name, s.peek("description")), Shared: true}
		b.Name = cmp.Or(s.fit("name", name, maxName), "Letta source")
		about := s.fit("description", s.text("description"), maxAbout-150)
		s.report(Changed, "a knowledge base cannot contain instructions",
			"write it into the agent's instructions", "instructions")
		s.embedding()
		s.report(LeftOut, "a knowledge base has no metadata", "write it into the description", "metadata",
			"metadata_")
		for _, one := range files[id] {
			if d, ok := p.lettaFile(one, f.called); ok {
				b.Documents = append(b.Documents, d)
			}
		}
		delete(files, id)
		s.rest(lettaDo)
		if p.marks[b.Mark] {
			p.append(b)
			s.about(Notice, "the export has a source of this name and description already: one knowledge base has the "+
				"documents of both", "give it a name of its own in the export where it is another one, and run again")
		} else {
			p.base(b, about)
		}
		f.bases[id] = b.Mark
	}
	for _, id := range sortedKeys(files) {
		for _, one := range files[id] {
			one.whole("its source is not in the file", "upload it to a knowledge base")
		}
	}
}

// shared is a base with the documents of several sources.
type shared struct {
	at  int // in the plan
	has map[[3]string]bool
}

// append adds to a base of the plan the documents that it lacks.
func (p *planner) append(more Base) {
	key := func(d Document) [3]string { return [3]string{d.Name, d.Path, d.Text} }
	known := p.shared[more.Mark]
	if known == nil {
		at := slices.IndexFunc(p.Bases, func(b Base) bool { return b.Mark == more.Mark })
		known = &shared{at, map[[3]string]bool{}}
		for _, d := range p.Bases[at].Documents {
			known.has[key(d)] = true
		}
		p.shared[more.Mark] = known
	}
	b := &p.Bases[known.at]
	for _, d := range more.Documents {
		if !known.has[key(d)] {
			known.has[key(d)] = true
			b.Documents = append(b.Documents, d)
		}
	}
}

// fileName returns the name of a file, without folders.
func (o *object) fileName() string {
	if name := o.peek("original_file_name"); name != "" {
		return plainName(name)
	}
	return plainName(o.peek("file_name"))
}

// lettaFile plans a document: the content is in the agent file, or in a file next to it.
func (p *planner) lettaFile(o *object, called map[string]int) (Document, bool) {
	name := o.fileName()
	if o.text("original_file_name") == "" {
		o.take("file_name")
	}
	o.ignore("is another name of it", "file_name")
	o.ignore("is made anew", "file_path", "file_type", "file_size", "file_creation_date", "file_last_modified_date",
		"processing_status", "total_chunks", "chunks_embedded", "created_at", "updated_at", "organization_id")
	o.report(Notice, "Letta had not processed it", "see whether the document becomes ready here", "error_message")
	d := Document{Title: cut(name, maxTitle), Name: cut(name, maxName-4)}
	d.Text = o.text("content")
	o.rest(lettaDo)
	if strings.TrimSpace(d.Text) != "" {
		if ext := strings.ToLower(path.Ext(name)); !slices.Contains([]string{".txt", ".md", ".csv", ".json"}, ext) {
			d.Name += ".txt" // Letta keeps the text of a document, not its bytes
		}
		return d, true
	}
	if called[name] > 1 {
		o.about(LeftOut, "its content is not in the export, and other files have its name", "upload it yourself")
		return d, false
	}
	if d.Path = p.fileOf(originals, name); d.Path != "" {
		return d, p.sized(o, d.Path)
	}
	o.about(LeftOut, "its content is not in the export", "put the file there as "+originals+"/"+name+", and run again")
	return d, false
}

// embedding explains why a model of embeddings is not taken over.
func (o *object) embedding() {
	o.report(Changed, "texts are embedded again, by the first embedding model of the deployment",
		"PATCH embedding_model of the knowledge base for another one", "embedding_config", "embedding",
		"embedding_chunk_size")
}

// lettaAgent plans an agent. flat: its blocks and tools are inside it, not in lists of their own.
func (p *planner) lettaAgent(o *object, f *file, flat bool) {
	o.source = fmt.Sprintf("agent %q", o.peek("name"))
	if p.memory > maxRead { // few blocks of many agents would become a large plan
		p.find(Finding{Kind: Unread, Source: o.source, File: o.file, Path: o.path, Whole: true,
			What: fmt.Sprintf("the agents before it have %d MiB of memory together", maxRead>>20),
			Do:   "divide the export, and import its parts one after the other"})
		return
	}
	mark := letta + ":" + digest("agent", o.peek("name"), o.peek("agent_type"), o.peek("system"))
	a := o.begin(mark, "Letta agent")
	o.ignore("is only valid within the file", "id")
	system := o.text("system")
	a.Instructions = o.fitBytes("system", strings.TrimSpace(system+o.memory(f, flat)))
	a.OutputSchema = o.responseFormat()
	a.Model = o.lettaModel(&a)
	o.lettaTools(f, &a, flat)
	o.sources(f, &a)
	o.metadataOf(&a)
	o.lettaTalk()
	o.lettaSecrets()
	o.embedding()
	o.report(LeftOut, "the kind of loop: this service has one of its own, which calls tools until the model answers",
		lettaDo, "agent_type")
	o.report(LeftOut, "agents that work as a group: here each agent works by itself",
		"offer agents to each other as MCP tools", "group_ids", "multi_agent_group", "managed_group")
	o.report(LeftOut, "agents do not open files: they search knowledge bases", lettaDo,
		"max_files_open", "per_file_view_window_char_limit", "files_agents")
	if o.peek("timezone") == "UTC" {
		o.ignore("is the default", "timezone")
	}
	o.rest(lettaDo)
	if p.marks[a.Mark] {
		at := slices.IndexFunc(p.Agents, func(other Agent) bool { return other.Mark == a.Mark })
		if p.Agents[at].Instructions != a.Instructions {
			o.about(LeftOut, "the export has an agent of this name, kind and system prompt already, with other "+
				"memory, like agents of one template: the import cannot distinguish them",
				"give it a name of its own in the export, and run again")
			return
		}
	}
	o.agent(a)
}

// memory returns the text of the memory blocks for the instructions. Text that does not fit into them is left out.
func (o *object) memory(f *file, flat bool) string {
	var blocks []*object
	if flat {
		blocks = o.objects("core_memory")
	} else {
		blocks = o.objects("memory_blocks")
		for _, id := range Union(o.texts("block_ids")) {
			if b := f.blocks[id]; b != nil {
				blocks = append(blocks, b)
				continue
			}
			o.about(LeftOut, fmt.Sprintf("memory block %q is not in the file", id), "export the agent again",
				"block_ids")
		}
	}
	if len(blocks) == 0 {
		return ""
	}
	var text strings.Builder
	var labels []string
	text.WriteString("\n\n# Memory")
	for _, b := range blocks {
		s := f.section(b)
		labels = append(labels, s.label)
		if text.Len() <= maxInstructions {
			text.WriteString(s.text)
		}
	}
	o.p.memory += min(text.Len(), maxInstructions)
	o.about(Changed, "memory blocks ("+cut(strings.Join(labels, ", "), 200)+") are part of the instructions: the "+
		"agent reads them but cannot change them, and all users get their contents",
		"remove personal data and references to memory tools from the instructions")
	return text.String()
}

// section is a memory block in the form of instructions, not longer than these may be.
type section struct{ label, text string }

// section reads a memory block once, for any number of agents.
func (f *file) section(b *object) section {
	if s, known := f.sections[b]; known {
		return s
	}
	label := b.text("label")
	text := "\n\n## " + label + "\n"
	if about := b.text("description"); about != "" {
		text += "(" + about + ")\n"
	}
	text += "\n" + strings.TrimSpace(b.text("value")) + "\n"
	b.ignore("is made anew", "created_at", "updated_at")
	b.ignore("limits the agent's writes to memory, which do not exist here", "limit", "read_only")
	b.rest("")
	s := section{cut(label, maxName), strings.Clone(text[:min(len(text), maxInstructions)])}
	f.sections[b] = s
	return s
}

// lettaModel maps llm_config, or the handle that newer files have instead. Either may have the response format.
func (o *object) lettaModel(a *Agent) Model {
	c := o.open("llm_config")
	if c == nil {
		provider, name, _ := strings.Cut(o.text("model"), "/")
		m := o.model("model", provider, name)
		if s := o.open("model_settings"); s != nil {
			s.settings(&m, "temperature", "max_output_tokens")
			s.ignore("is the provider of the model", "provider_type")
			s.answers(a)
			s.rest(lettaDo)
		}
		o.settings(&m, "temperature", "max_tokens")
		return m
	}
	provider := c.text("model_endpoint_type")
	m := c.model("model", provider, c.text("model"))
	c.settings(&m, "temperature", "max_tokens")
	c.answers(a)
	c.ignore("is another name of the model or its provider", "handle", "provider_name", "display_name")
	if address := c.peek("model_endpoint"); address == "" || isProvidersOwn(address) {
		c.ignore("is the provider's own address", "model_endpoint")
	}
	c.report(LeftOut, "addresses of model providers are settings of the deployment",
		"set OPENAI_BASE_URL of the deployment, if it speaks OpenAI's API", "model_endpoint")
	if c.peek("provider_category") == "base" {
		c.ignore("is the default", "provider_category")
	}
	c.report(LeftOut, "the window of a model is known by its provider", "set limits of the agent to spend less",
		"context_window")
	c.rest(lettaDo)
	o.report(LeftOut, "llm_config already contains it", lettaDo, "model", "model_settings", "max_tokens")
	return m
}

// answers maps the response format, unless the agent has one.
func (o *object) answers(a *Agent) {
	if a.OutputSchema == nil {
		a.OutputSchema = o.responseFormat()
	}
}

// lettaTools maps an agent's tools and the rules for them.
func (o *object) lettaTools(f *file, a *Agent, flat bool) {
	o.rules(a)
	ids := sortedKeys(f.tools)
	if !flat {
		ids = o.texts("tool_ids")
		o.report(LeftOut, "tools by name alone", "export the agent again, with its tools", "tools")
	}
	mcp := map[string][]string{} // tools, by server
	for _, id := range Union(ids) {
		t := f.tools[id]
		if t == nil {
			o.about(LeftOut, fmt.Sprintf("tool %q is not in the file", id), "export the agent again", "tool_ids")
			continue
		}
		if f.offers[t] == nil {
			f.offers[t] = t.lettaTool()
		}
		f.offers[t].to(a, mcp)
		if f.offers[t].archival {
			o.about(LeftOut, "its archival memory is not in an agent file",
				"save GET /v1/agents/{agent_id}/archival-memory into the export, and run again")
		}
	}
	for _, name := range sortedKeys(mcp) {
		f.offered[name] = true
		if mark := o.lettaServer(f, name, mcp[name]); mark != "" {
			a.Toolkits = append(a.Toolkits, mark)
		}
	}
}

// rules maps those tool rules that require an approval. The others order a loop that this service does not have.
func (o *object) rules(a *Agent) {
	for _, r := range o.objects("tool_rules") {
		if r.peek("type") == "requires_approval" {
			r.take("type")
			a.Approval = append(a.Approval, r.text("tool_name"))
			r.ignore("is how Letta tells the model", "prompt_template")
			r.rest("")
			continue
		}
		r.whole(fmt.Sprintf("rule %s of tool %s: the model decides the order of calls", r.peek("type"),
			r.peek("tool_name")), "write the order into the instructions")
	}
}

// offer is the result of mapping a tool, for each agent that has it.
type offer struct {
	name     string
	asks     bool   // a human decides before each call
	server   string // the MCP server's name; empty: it belongs to none
	toolkit  string // mark; empty: it has no toolkit of its own
	archival bool   // it is one of the tools for archival memory
}

func (t *offer) to(a *Agent, mcp map[string][]string) {
	if t.asks {
		a.Approval = append(a.Approval, t.name)
	}
	if t.server != "" {
		mcp[t.server] = append(mcp[t.server], t.name)
	}
	if t.toolkit != "" {
		a.Toolkits = append(a.Toolkits, t.toolkit)
	}
}

// lettaTool maps a tool. A tool of an MCP server is enabled in the server's toolkit. A program becomes a toolkit if the
// user named a URL.
func (o *object) lettaTool() *offer {
	name := o.text("name")
	o.source = fmt.Sprintf("tool %q", name)
	t := &offer{name: name, archival: strings.HasPrefix(name, "archival_memory_")}
	if string(o.members["default_requires_approval"]) == "true" {
		o.take("default_requires_approval")
		t.asks = true
	}
	kind := o.text("tool_type")
	o.ignore("is made anew", "created_at", "updated_at", "created_by_id", "last_updated_by_id", "organization_id",
		"project_id")
	o.ignore("answers of tools have the service's own bounds", "return_char_limit")
	o.ignore("calls of a round run in parallel here", "enable_parallel_execution")
	server := ""
	for _, tag := range o.texts("tags") {
		if of, isMCP := strings.CutPrefix(tag, "mcp:"); isMCP {
			server = of
		}
	}
	switch {
	case kind == "external_mcp" && server != "":
		t.server = server
		o.ignore("the server provides it itself", "description", "json_schema", "args_json_schema")
		o.ignore("is Letta's way to the server", "source_code", "source_type")
	case kind == "custom" || kind == "" || kind == "external_mcp":
		t.toolkit = o.program(name)
	default:
		o.about(LeftOut, fmt.Sprintf("tool %s (%s): it is a part of Letta", name, kind),
			"knowledge bases are searched by a tool of their own; for others look for an MCP server")
		o.ignore("belongs to Letta", "description", "json_schema", "args_json_schema", "source_code", "source_type")
	}
	o.report(LeftOut, "packages of a program that stays behind", lettaDo, "pip_requirements", "npm_requirements")
	o.rest("")
	return t
}

// program maps a tool that is a program.
func (o *object) program(name string) string {
	f := function{name: name, description: o.text("description")}
	language := o.text("source_type")
	if source := o.peek("source_code"); source != "" {
		f.where = fmt.Sprintf(", its source (%s, %d lines) is at %s of %s", language,
			strings.Count(strings.TrimSpace(source), "\n")+1, o.at("source_code"), path.Base(o.file))
	}
	o.take("source_code")
	if s := o.open("json_schema"); s != nil {
		s.ignore("the tool contains it too", "name", "description", "type", "strict")
		f.parameters = s.take("parameters")
		s.rest("")
	}
	o.ignore("json_schema has it", "args_json_schema")
	return o.callable(letta, f)
}

// lettaServer plans the toolkit of an MCP server for an agent. The result is empty if it can have none.
func (o *object) lettaServer(f *file, name string, tools []string) string {
	s := f.servers[name]
	if s == nil {
		o.about(LeftOut, fmt.Sprintf("MCP server %q is not in the file; its tools are %s", name,
			cut(strings.Join(tools, ", "), 500)), "create the toolkit yourself: POST /toolkits with kind mcp")
		return ""
	}
	return s.mcpServer(name, tools)
}

func (o *object) mcpServer(name string, tools []string) string {
	first := !o.done["server_type"]
	kind := o.text("server_type")
	o.take("server_name")
	if first {
		o.credentials("token", "custom_headers", "auth_header", "auth_token", "token_enc", "custom_headers_enc")
		o.ignore("is made anew", "created_by_id", "last_updated_by_id", "organization_id", "created_at", "updated_at")
		o.report(LeftOut, fmt.Sprintf("a server that is a program: %s", command(o.members["stdio_config"])),
			"allow the command by TOOL_COMMANDS and create the toolkit: POST /toolkits with kind mcp and command",
			"stdio_config")
		if kind == "sse" {
			o.report(Changed, "the older transport SSE: this service speaks streamable HTTP",
				"give the toolkit the server's address for streamable HTTP, often /mcp", "server_type")
		}
		defer o.rest("")
	}
	address := o.text("server_url")
	if kind == "stdio" || address == "" {
		return ""
	}
	return o.server(letta, name, "server_url", address, tools)
}

// command returns a program's name and the number of words after it, but not the words: they often hold keys. It leaves
// out the environment.
func command(raw json.RawMessage) string {
	var c struct {
		Command string
		Args    []string
	}
	_ = json.Unmarshal(raw, &c)
	words := strings.Fields(c.Command)
	at := slices.IndexFunc(words, func(word string) bool { return !strings.Contains(word, "=") })
	if at < 0 {
		return "it names none"
	}
	if more := len(words) - 1 + len(c.Args); more > 0 {
		return fmt.Sprintf("%s with %d arguments", shownName(words[at]), more)
	}
	return shownName(words[at])
}

// sources maps the knowledge bases that an agent may search.
func (o *object) sources(f *file, a *Agent) {
	for _, member := range []string{"source_ids", "folder_ids"} {
		for _, id := range o.texts(member) {
			mark := f.bases[id]
			if mark == "" {
				o.about(LeftOut, fmt.Sprintf("source %q is not in the file", id), "export the agent again", member)
			} else {
				a.Bases = append(a.Bases, mark)
			}
		}
	}
}

// metadataOf maps tags and metadata, which the two forms spell differently.
func (o *object) metadataOf(a *Agent) {
	for _, name := range []string{"metadata", "metadata_"} {
		if m := o.open(name); m != nil {
			m.metadata(a.Metadata)
		}
	}
	if _, taken := a.Metadata["tags"]; taken || len(a.Metadata) >= maxMetadata-1 {
		o.report(LeftOut, "the agent's metadata has no place for tags", "take one out of the metadata in the export, "+
			"and run again", "tags")
		return
	}
	var tags []string
	if json.Unmarshal(o.members["tags"], &tags) == nil {
		o.take("tags")
	} else {
		tags = nil
		for _, t := range o.objects("tags") {
			tags = append(tags, t.text("tag"))
			t.rest("")
		}
	}
	if all := len(tags); slices.ContainsFunc(tags, secretText) {
		tags = slices.DeleteFunc(tags, secretText)
		o.about(Credentials, fmt.Sprintf("%d of %d are not taken: they look like credentials", all-len(tags), all),
			giveCredentials, "tags")
	}
	if len(tags) > 0 {
		a.Metadata["tags"] = o.fit("tags", strings.Join(tags, ", "), maxMetadataText)
	}
}

// lettaTalk reports the messages.
func (o *object) lettaTalk() {
	var messages []json.RawMessage
	_ = json.Unmarshal(o.members["messages"], &messages)
	o.report(Conversation, fmt.Sprintf("%d messages: conversations are not imported", len(messages)),
		"keep the export as their archive", "messages", "in_context_message_ids", "in_context_message_indices",
		"initial_message_sequence")
}

// lettaSecrets reports environment variables of tools by name.
func (o *object) lettaSecrets() {
	var names []string
	for _, member := range []string{"tool_exec_environment_variables", "secrets"} {
		var pairs map[string]json.RawMessage
		var list []struct{ Key string }
		if json.Unmarshal(o.members[member], &pairs) == nil {
			names = append(names, sortedKeys(pairs)...)
		} else if json.Unmarshal(o.members[member], &list) == nil {
			for _, one := range list {
				names = append(names, one.Key)
			}
		}
	}
	slices.Sort(names)
	o.report(Credentials, "environment variables of tools are not taken: "+
		cut(strings.Join(slices.Compact(names), ", "), 500), giveCredentials, "tool_exec_environment_variables",
		"secrets")
}

// passages plans a knowledge base for each archival memory whose list was saved.
func (p *planner) passages() {
	bases := map[string]*Base{}
	for _, o := range p.export.passages {
		owner := cmp.Or(o.peek("archive_id"), o.peek("agent_id"), o.peek("source_id"))
		o.source = fmt.Sprintf("passage %q", o.peek("id"))
		b := bases[owner]
		if b == nil {
			b = &Base{Mark: markOf(letta, owner), Name: cut("Archival memory of "+owner, maxName)}
			bases[owner] = b
			o.about(Notice, "a passage of the archival memory of "+owner+": its knowledge base has no agent",
				"give it to the agent: PATCH knowledge_base_ids")
		}
		for _, member := range []string{"archive_id", "agent_id", "source_id"} {
			o.text(member)
		}
		id := cut(o.text("id"), maxName-4)
		d := Document{Title: id, Name: id + ".txt", Text: o.text("text")}
		o.ignore("is made anew", "created_at", "updated_at", "created_by_id", "last_updated_by_id", "organization_id",
			"embedding", "embedding_config")
		o.rest(lettaDo)
		if strings.TrimSpace(d.Text) != "" {
			b.Documents = append(b.Documents, d)
		}
	}
	for _, owner := range sortedKeys(bases) {
		p.base(*bases[owner], "")
	}
}

// leftover reports everything that no agent of the file uses. Servers become toolkits all the same.
func (f *file) leftover() {
	for _, id := range sortedKeys(f.blocks) {
		if b := f.blocks[id]; !b.done["value"] {
			b.whole("a memory block that no agent of the file has", "write it into the instructions of an agent")
		}
	}
	for _, id := range sortedKeys(f.tools) {
		if t := f.tools[id]; !t.done["name"] {
			t.whole("a tool that no agent of the file has", "leave it behind")
		}
	}
	for _, name := range sortedKeys(f.servers) {
		if !f.offered[name] {
			s := f.servers[name]
			if mark := s.mcpServer(name, nil); mark != "" {
				s.about(Notice, "no agent of the file has tools of this server: all its tools are enabled in a "+
					"toolkit that no agent has", "give the toolkit to an agent, or delete it")
			}
		}
	}
}
