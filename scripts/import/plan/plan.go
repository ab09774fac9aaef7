// Package plan turns exports of other agent platforms (OpenAI Assistants, Letta agent files, LangGraph assistants) into
// a plan and a report. The plan has the agents, toolkits, knowledge bases and documents to make. The report has
// everything that does not fit. Each member of an export is mapped, in the report, or in the list of those without
// meaning here. The reader of objects counts them (members.go), so members that the platforms add later are reported as
// well.
//
// It must not know the API's addresses, keys or the network. It reads files and returns values, the same for the same
// files. It imports strictjson, and the table of providers.
package plan

import (
	"encoding/json"
	"slices"
)

// Plan is the result of reading an export. Things refer to each other by their marks.
type Plan struct {
	Toolkits []Toolkit
	Bases    []Base
	Agents   []Agent
	Findings []Finding
	Mapped   []Entry // members that are in the plan, or that its findings also explain
	Ignored  []Entry // members without meaning here
}

// Toolkit is a toolkit to create: kind mcp or http, at a URL. Its JSON form is that of the API.
type Toolkit struct {
	Mark    string   `json:"-"`    // stands at the end of its name, so that a later run finds it again
	Name    string   `json:"name"` // at most 200 characters, with the mark
	Kind    string   `json:"kind"`
	URL     string   `json:"url"`
	Enabled []string `json:"enabled,omitzero"` // tools to enable; nil: all
	Request *Request `json:"request,omitzero"` // of the kind http
}

// Request is the one request of a toolkit of the kind http; its JSON form is that of the API.
type Request struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	Method      string          `json:"method"`
	Body        string          `json:"body,omitempty"`
	Parameters  json.RawMessage `json:"parameters,omitempty"`
}

// Base is a knowledge base to create.
type Base struct {
	Mark        string // stands at the end of its description
	Name        string // at most 200 characters
	Description string // at most 2,000 characters, with the mark
	Shared      bool   // the mark is made of its name: other exports may have a part of it
	Documents   []Document
}

// Document is a document of a base: a file of the export, or a text.
type Document struct {
	Title    string // at most 300 characters
	Name     string // file name, whose ending gives its type
	Path     string // within the export; empty: Text is the content
	Text     string
	Metadata map[string]any // strings, numbers, booleans; at most 20
}

// Agent is an agent to create.
type Agent struct {
	Mark         string // stands in its metadata as imported_from
	Source       string // the export's object, as the report names it
	Name         string // 1 to 200 characters
	Description  string // at most 10,000 characters
	Instructions string // at most 256 KiB
	Model        Model
	Toolkits     []string // marks, at most 100
	Bases        []string // marks, at most 20
	Approval     []string // tools whose calls need a human's approval, at most 2,000
	ApproveAll   bool     // all calls do
	Passages     int      // of a search, 1 to 20; 0: the service's default
	OutputSchema json.RawMessage
	Metadata     map[string]string
}

// Model is the model of an agent. Its JSON form is that of the API.
type Model struct {
	Provider    string   `json:"provider"` // of this service: openai, anthropic, bedrock, demo
	Name        string   `json:"name"`
	Temperature *float64 `json:"temperature"`
	MaxTokens   *int     `json:"max_tokens"`
	Chosen      bool     `json:"-"` // the user chose it, with -model
}

// Kinds of findings.
const (
	Unread       = "not read"
	LeftOut      = "left out"
	Changed      = "changed"
	Credentials  = "credentials left out"
	Conversation = "conversation left out"
	Notice       = "to know"
)

// Unread reports whether a part of the export could not be read, so that the plan may lack something.
func (p *Plan) Unread() bool {
	return slices.ContainsFunc(p.Findings, func(f Finding) bool { return f.Kind == Unread })
}

// Finding is something that did not fit.
type Finding struct {
	Kind    string
	Source  string   // the object of the export, for people
	File    string   // of the export
	Path    string   // of the object in the file, like .data[0].tools[1]; empty: the whole file
	Members []string // of that object; none: the object itself
	What    string
	Do      string // the user's action against it
	Whole   bool   // it is about the object with all that is in it
}

// Entry is a member of an export.
type Entry struct {
	File string
	Path string // with the member, like .data[0].name
	Why  string // the reason why it has no meaning
}

// Options are the user's choices for an export.
type Options struct {
	Models map[string]string // provider/name of this service, by the model's name in the export
	Tools  map[string]string // URL that executes a function, by the function's name
}
