package plan

import (
	"bytes"
	"encoding/json"
	"fmt"
	"path"
	"strings"
)

const langGraph = "langgraph"

// langgraph plans the agent of an assistant of LangGraph. What an assistant configures is up to its graph; the names
// that are common are mapped, those of the Open Agent Platform among them.
func (p *planner) langgraph(o *object) {
	id := o.text("assistant_id", "agent metadata."+ImportedFrom)
	o.source = named("assistant", o.peek("name"), id)
	a := Agent{Mark: markOf(langGraph, id), Source: o.source, Metadata: map[string]string{}}
	a.Name = o.fit("name", strings.TrimSpace(o.text("name", "agent name")), maxName)
	if a.Name == "" {
		a.Name = cut("Assistant "+id, maxName)
	}
	a.Description = o.fit("description", o.text("description", "agent description"), maxDescription)
	graph := o.text("graph_id", "agent metadata.graph")
	a.Metadata["graph"] = cut(graph, maxMetadataText)
	o.note(Changed, fmt.Sprintf("graph %q is a program, which an export has not: the agent calls tools in the loop "+
		"of this service, until its model answers", graph),
		"where the graph does more, serve that as an MCP server or behind a URL, and add it as a toolkit")
	o.configuration(&a)
	if m := o.open("metadata"); m != nil {
		m.metadata(a.Metadata)
	}
	o.ignore("is made anew", "created_at", "updated_at", "version")
	o.rest("see whether the agent needs it")
	o.agent(a)
}

// configuration maps config.configurable and context, which the server keeps alike.
func (o *object) configuration(a *Agent) {
	var configurable json.RawMessage
	var settings []*object
	if c := o.open("config"); c != nil {
		configurable = c.members["configurable"]
		settings = append(settings, c.open("configurable"))
		c.report(LeftOut, "steps of a graph are not those of an agent here", "set limits.max_steps of the agent",
			"recursion_limit")
		c.report(LeftOut, "runs have metadata, not tags", "send metadata with the message", "tags")
		c.rest("see whether the agent needs it")
	}
	if bytes.Equal(o.members["context"], configurable) {
		o.ignore("says what config.configurable says", "context")
	} else {
		settings = append(settings, o.open("context"))
	}
	modelled := false
	for _, s := range settings {
		if s != nil {
			modelled = s.configurable(a, modelled) || modelled
		}
	}
	if !modelled {
		a.Model = o.model("config", "", "")
	}
}

// configurable maps one set of settings; what an earlier one has said holds. It says whether there is a model.
func (o *object) configurable(a *Agent, modelled bool) bool {
	for _, member := range []string{"model", "model_name", "llm"} {
		if !modelled && o.peek(member) != "" {
			a.Model = o.model(member, "", o.text(member, "agent model"))
			modelled = true
		}
	}
	if modelled {
		o.settings(&a.Model, "temperature", "max_tokens")
	}
	for _, member := range []string{"system_prompt", "prompt", "instructions", "system_message"} {
		if a.Instructions == "" && o.peek(member) != "" {
			a.Instructions = o.fitBytes(member, o.text(member, "agent instructions"))
		}
	}
	if m := o.open("mcp_config"); m != nil {
		m.mcp(a)
	}
	if r := o.open("rag"); r != nil {
		r.collections(a)
	}
	o.namedTools()
	for _, s := range o.list("agents") {
		o.p.find(Finding{Kind: LeftOut, Source: o.source, File: o.file, Path: s.path,
			What: "another agent that this one hands work to", Whole: true,
			Do: "offer it as an MCP tool: this service's own MCP server has every agent as a tool"})
	}
	o.ignore("names the run, not the assistant", "thread_id", "run_id", "assistant_id", "graph_id", "checkpoint_id",
		"checkpoint_ns", "user_id", "langgraph_auth_user_id")
	o.rest("see whether the agent needs it: what it means is up to the graph")
	return modelled
}

// mcp maps the MCP server of the Open Agent Platform, whose graphs add /mcp to its address.
func (o *object) mcp(a *Agent) {
	tools := o.texts("tools", "toolkit enabled")
	unclear := given(o.members["tools"]) && tools == nil // which is reported; all tools would be too many
	if string(o.members["auth_required"]) == "true" {
		o.report(Credentials, "the server wants credentials, which an export has not", giveCredentials,
			"auth_required")
	}
	address := strings.TrimRight(o.text("url", "toolkit url"), "/")
	o.rest("create the toolkit yourself: POST /toolkits with kind mcp")
	if address == "" || unclear {
		return
	}
	if base, query, has := strings.Cut(address, "?"); path.Base(base) != "mcp" {
		address = strings.TrimRight(base, "/") + "/mcp"
		if has {
			address += "?" + query
		}
		o.about(Changed, "the server is asked at /mcp below its address, as the graphs of the Open Agent Platform do",
			"PATCH url of the toolkit where that is wrong", "url")
	}
	if mark := o.server(langGraph, "", "url", address, tools); mark != "" {
		a.Toolkits = append(a.Toolkits, mark)
	}
}

// namedTools reports tools that a graph has by name.
func (o *object) namedTools() {
	for _, e := range o.list("tools") {
		name := ""
		if json.Unmarshal(e.raw, &name) != nil {
			if t := o.p.object(o.file, e.path, o.source, e.raw); t != nil {
				name = t.peek("name")
			}
		}
		o.p.find(Finding{Kind: LeftOut, Source: o.source, File: o.file, Path: e.path,
			What: fmt.Sprintf("tool %q is a program of the graph, which an export has not", name),
			Do:   "serve it as an MCP server or behind a URL, and add it as a toolkit", Whole: true})
	}
}

// collections maps the collections of a server of documents: the export's folder has their files, or nobody.
func (o *object) collections(a *Agent) {
	o.report(LeftOut, "the server of the documents is not asked", "save its documents as said below", "rag_url")
	for _, id := range o.texts("collections", "agent knowledge_base_ids") {
		mark := markOf(langGraph, id)
		if !o.p.marks[mark] {
			o.collection(mark, id)
		}
		a.Bases = append(a.Bases, mark)
	}
	o.rest("")
}

func (o *object) collection(mark, id string) {
	b := Base{Mark: mark, Name: cut("Collection "+id, maxName)}
	for _, at := range o.p.export.collection[id] {
		o.p.export.used[at] = true
		if o.p.sized(o, at) {
			name := path.Base(at)
			d := Document{Title: cut(name, maxTitle), Name: cut(name, maxName), Path: at}
			b.Documents = append(b.Documents, d)
		}
	}
	if len(b.Documents) == 0 {
		o.note(Notice, fmt.Sprintf("collection %q: its documents are not in the export: the knowledge base is empty",
			id), "save them in the folder "+collections+"/"+cut(id, 100)+", and run again")
	}
	o.p.base(b, "")
}
