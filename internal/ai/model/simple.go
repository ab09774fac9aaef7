package model

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"agentplatform/internal/platform/schema"
)

// maxDescription is how many characters of a tool's description every provider accepts. Some endpoints of OpenAI's API
// refuse longer ones.
const maxDescription = 1024

// maxToolName is the longest name of a tool that each provider takes, in bytes.
const maxToolName = 64

// WithSimpleTools returns a model that sends its tools again in simpler words where the provider refuses them. Without
// this, one refused tool would stop its agent. The process remembers for which tools this helped.
func WithSimpleTools(m Model) Model { return &simpleTools{Model: m, helped: map[refused]bool{}} }

type simpleTools struct {
	Model

	mu     sync.Mutex
	helped map[refused]bool // false: the next call shows it
}

// refused is a hash of a model's name and tools: an organization's tools are its own.
type refused [sha256.Size]byte

// maxSimple limits the requests that are remembered. Users who make agents name models and tools.
const maxSimple = 1000

// Converse is that of [Model].
func (s *simpleTools) Converse(ctx context.Context, r Request, emit func(string)) (Reply, error) {
	if !s.known(r) {
		shown := false
		reply, err := s.Model.Converse(ctx, r, func(text string) { shown = true; emit(text) })
		if !refusesTools(err) || len(r.simpleNames()) == 0 {
			return reply, err
		}
		if shown || reply.InputTokens+reply.OutputTokens > 0 || Begun(err) {
			s.remember(r, false) // this attempt has failed: the next one is simple
			return reply, err
		}
	}
	names := r.simpleNames()
	reply, err := s.Model.Converse(ctx, r.simple(names), emit)
	for i, c := range reply.Calls { // they have the names of the request
		for own, simple := range names {
			if c.Name == simple {
				reply.Calls[i].Name = own
			}
		}
	}
	if err == nil {
		s.remember(r, true)
	}
	return reply, err
}

// refusedOf is the hash of a request. One without tools may have calls of earlier ones.
func refusedOf(r Request) refused {
	h := sha256.New()
	_, _ = fmt.Fprintf(h, "%q", r.Name)
	if len(r.Tools) == 0 {
		_, _ = fmt.Fprintf(h, "%q", r.simpleNames()) // sorted
	}
	for _, t := range r.Tools {
		_, _ = fmt.Fprintf(h, "%q%q%q", t.Name, t.Description, t.Parameters)
	}
	return refused(h.Sum(nil))
}

// known reports whether a call must have simple tools: always where they helped, or else once. Mostly no provider has
// refused any tools. Then nothing is hashed.
func (s *simpleTools) known(r Request) bool {
	s.mu.Lock()
	none := len(s.helped) == 0
	s.mu.Unlock()
	if none {
		return false
	}
	key := refusedOf(r)
	s.mu.Lock()
	defer s.mu.Unlock()
	helped, known := s.helped[key]
	if !helped {
		delete(s.helped, key)
	}
	return known
}

func (s *simpleTools) remember(r Request, helped bool) {
	key := refusedOf(r)
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, is := s.helped[key]; !is && len(s.helped) >= maxSimple {
		clear(s.helped)
	}
	s.helped[key] = helped || s.helped[key]
}

// simpleName is a name that every provider takes. Gemini refuses one that begins with a digit, and Amazon Nova cannot
// call one with a hyphen.
var simpleName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// simpleNames are simple names for all names of tools in a request, no two alike.
func (r Request) simpleNames() map[string]string {
	var all []string
	for _, t := range r.Tools {
		all = append(all, t.Name)
	}
	for _, m := range r.Messages {
		for _, c := range m.Calls {
			all = append(all, c.Name)
		}
	}
	names, taken := map[string]string{}, map[string]bool{}
	for _, name := range all {
		if simpleName.MatchString(name) {
			names[name], taken[name] = name, true
		}
	}
	for _, name := range all {
		if names[name] != "" {
			continue
		}
		own := strings.ReplaceAll(name, "-", "_")
		if !simpleName.MatchString(own) {
			own = "_" + own[:min(len(own), maxToolName-1)]
		}
		simple := own
		for n := 2; taken[simple]; n++ {
			suffix := "_" + strconv.Itoa(n)
			simple = own[:min(len(own), maxToolName-len(suffix))] + suffix
		}
		names[name], taken[simple] = simple, true
	}
	return names
}

// ofTools matches the words with which providers refuse a tool: its name, its schema, or the grammar that they make of
// it. It also matches a refusal of a call that the model has made wrongly.
var ofTools = regexp.MustCompile(`(?i)schema|function_?declaration|tool_?(spec|config)|\btools?[\[.] ?\d|grammar|` +
	`generate parser|function name|as part of ToolUse`)

// refusesTools reports whether a failure may mean that the provider does not take a tool. Some servers answer 500 then.
func refusesTools(err error) bool {
	var e *Error
	return errors.As(err, &e) && (e.Kind == BadRequest || e.Kind == Retryable) && ofTools.MatchString(e.Err.Error())
}

var simpleSchemas mended // each with its note in further lines

// simple is the request with tools that have simple schemas and short descriptions. The instructions have the whole of
// a longer one.
func (r Request) simple(names map[string]string) Request {
	r.Options.Tool = names[r.Options.Tool]
	r.Messages = slices.Clone(r.Messages)
	for i, m := range r.Messages {
		r.Messages[i].Calls, r.Messages[i].Results = slices.Clone(m.Calls), slices.Clone(m.Results)
		for at, c := range m.Calls {
			r.Messages[i].Calls[at].Name = names[c.Name]
		}
		for at, result := range m.Results {
			r.Messages[i].Results[at].Name = names[result.Name]
		}
	}
	r.Tools = slices.Clone(r.Tools)
	for i, t := range r.Tools {
		r.Tools[i].Name = names[t.Name]
		both := simpleSchemas.of(t.Parameters, func(raw json.RawMessage) json.RawMessage {
			simple, note := schema.Simple(portableOf(raw))
			return slices.Concat(simple, json.RawMessage("\n"+note))
		})
		simple, note, _ := bytes.Cut(both, []byte("\n"))
		r.Tools[i].Parameters = simple
		text := []rune(strings.TrimSpace(t.Description + "\n" + string(note)))
		if len(text) > maxDescription {
			r.Instructions += "\n\nThe tool " + names[t.Name] + ": " + string(text)
			text = append(text[:maxDescription-1], '…')
		}
		r.Tools[i].Description = string(text)
	}
	return r
}
