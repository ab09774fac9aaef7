package plan

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"unicode"
)

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// Write writes the plan and the report for people. It removes characters that would control a terminal from texts of
// the export.
func (p *Plan) Write(to io.Writer) error {
	var b strings.Builder
	p.writePlan(&b)
	b.WriteString("\n")
	WriteFindings(&b, "parts that did not fit", p.Findings)
	_, err := io.WriteString(to, b.String())
	return err
}

func (p *Plan) writePlan(b *strings.Builder) {
	documents := 0
	for _, base := range p.Bases {
		documents += len(base.Documents)
	}
	fmt.Fprintf(b, "plan: agents %d, toolkits %d, knowledge bases %d, documents %d\n", len(p.Agents), len(p.Toolkits),
		len(p.Bases), documents)
	for _, t := range p.Toolkits {
		fmt.Fprintf(b, "\ntoolkit %s\n  %s at %s\n", Clean(t.Name), t.Kind, Clean(site(t.URL)))
		if t.Enabled != nil {
			fmt.Fprintf(b, "  tools %s\n", Clean(strings.Join(t.Enabled, ", ")))
		}
	}
	for _, base := range p.Bases {
		fmt.Fprintf(b, "\nknowledge base %s (%s)\n", Clean(base.Name), Clean(base.Mark))
		for _, d := range base.Documents {
			from := Clean(d.Path)
			if from == "" {
				from = fmt.Sprintf("text of %d bytes", len(d.Text))
			}
			fmt.Fprintf(b, "  document %s, %s%s\n", Clean(d.Title), from, shown(d.Metadata))
		}
	}
	for i := range p.Agents {
		p.Agents[i].write(b)
	}
}

func (a *Agent) write(b *strings.Builder) {
	fmt.Fprintf(b, "\nagent %s (%s)\n  model %s", Clean(a.Name), Clean(a.Mark), Clean(a.Model.String()))
	if a.Model.Temperature != nil {
		fmt.Fprintf(b, ", temperature %v", *a.Model.Temperature)
	}
	if a.Model.MaxTokens != nil {
		fmt.Fprintf(b, ", at most %d tokens", *a.Model.MaxTokens)
	}
	fmt.Fprintf(b, "\n  instructions of %d bytes\n", len(a.Instructions))
	for _, line := range []struct {
		what string
		list []string
	}{{"toolkits", a.Toolkits}, {"knowledge bases", a.Bases}, {"approval of", a.Approval}} {
		if len(line.list) > 0 {
			fmt.Fprintf(b, "  %s %s\n", line.what, Clean(strings.Join(line.list, ", ")))
		}
	}
	if a.ApproveAll {
		b.WriteString("  approval of all calls\n")
	}
	if a.Passages > 0 {
		fmt.Fprintf(b, "  %d passages a search\n", a.Passages)
	}
	if a.OutputSchema != nil {
		fmt.Fprintf(b, "  answers by a schema of %d bytes\n", len(a.OutputSchema))
	}
	if len(a.Metadata) > 1 {
		fmt.Fprintf(b, "  metadata%s\n", shown(a.Metadata))
	}
}

func shown[V any](m map[string]V) string {
	if len(m) == 0 {
		return ""
	}
	raw, err := json.Marshal(m)
	if err != nil { // it is made of JSON
		panic(err)
	}
	return " " + Clean(string(raw))
}

// named returns the name of an export's object in the report.
func named(what, name, id string) string {
	if name == "" {
		return what + " " + id
	}
	return fmt.Sprintf("%s %q (%s)", what, name, id)
}

// String returns provider/name.
func (m Model) String() string {
	if m.Name == "" {
		return m.Provider
	}
	return m.Provider + "/" + m.Name
}

// WriteFindings writes findings under a title. Findings about one object stand together.
func WriteFindings(b *strings.Builder, title string, all []Finding) {
	fmt.Fprintf(b, "%s: %d\n", title, len(all))
	var sources []string
	of := map[string][]*Finding{}
	for i := range all {
		f := &all[i]
		if of[f.Source] == nil {
			sources = append(sources, f.Source)
		}
		of[f.Source] = append(of[f.Source], f)
	}
	for _, source := range sources {
		fmt.Fprintf(b, "\n%s\n", Clean(source))
		for _, f := range of[source] {
			fmt.Fprintf(b, "  %s%s: %s\n", f.Kind, f.location(), Clean(f.What))
			if f.Do != "" {
				fmt.Fprintf(b, "    %s\n", Clean(f.Do))
			}
		}
	}
}

func (f *Finding) location() string {
	if f.File == "" {
		return ""
	}
	at := " " + f.File
	if f.Path != "" {
		at += " " + f.Path
	}
	if len(f.Members) > 0 {
		at += " " + strings.Join(f.Members, ", ")
	}
	return ", " + Clean(strings.TrimSpace(at))
}

// Clean returns a text on one line, without characters that would control a terminal.
func Clean(text string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n', r == '\t', r == '\r':
			return ' '
		case !unicode.IsPrint(r):
			return unicode.ReplacementChar
		}
		return r
	}, text)
}
