package main

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/token"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// Bounds of the documentation. A sentence of the first length may have exceptions, which the budget counts.
const (
	longSentence  = 30 // words
	longParagraph = 80 // words
	mostMean      = 16 // words a sentence, over all pages
	cellSentence  = 6  // words from which the cell of a table is a sentence
)

// lengths are those of a page, or of all pages.
type lengths struct{ words, inSentences, sentences, long int }

func (l lengths) mean() float64 { return float64(l.inSentences) / float64(max(1, l.sentences)) }

func (l lengths) add(o lengths) lengths {
	return lengths{l.words + o.words, l.inSentences + o.inSentences, l.sentences + o.sentences, l.long + o.long}
}

var (
	item      = regexp.MustCompile(`^(?:[-*]|\d+\.)\s+`)
	rule      = regexp.MustCompile(`^\|[-| :]+\|$`)
	stops     = regexp.MustCompile("[.!?][\"”)*_]*\\s+[A-Z`\"“(\\[*0-9]")
	noCommand = regexp.MustCompile(`(?m)^<!--.*?-->$`)
)

// measure counts the words and sentences of a page, without code, and finds those that are too long.
func (t *tree) measure(file, page string) {
	l := lengths{words: len(strings.Fields(page))}
	defer func() { t.lengths[file] = l }()
	block, from := []string{}, 0
	end := func() {
		text := strings.Join(block, " ")
		block = block[:0]
		if n := len(strings.Fields(text)); n > longParagraph {
			t.add("paragraphs", file)(from, fmt.Sprint(n, " words"), fmt.Sprint("at most ", longParagraph))
		}
		for _, sentence := range sentencesOf(text) {
			n := len(strings.Fields(sentence))
			l.sentences, l.inSentences = l.sentences+1, l.inSentences+n
			if n > longSentence {
				l.long++
				t.add("sentences", file)(from, fmt.Sprint(n, " words"), fmt.Sprint("at most ", longSentence))
			}
		}
	}
	for i, line := range strings.Split(noCommand.ReplaceAllString(prose(file, page), ""), "\n") {
		line = strings.TrimSpace(line)
		if len(block) == 0 {
			from = i + 1
		}
		switch {
		case strings.HasPrefix(line, "|"):
			end()
			for cell := range strings.SplitSeq(strings.Trim(line, "|"), "|") {
				if from = i + 1; !rule.MatchString(line) && len(strings.Fields(cell)) >= cellSentence {
					block = append(block, cell)
					end()
				}
			}
		case line == "", line == "]", line == "`": // after a heading, and after code
			end()
		case item.MatchString(line):
			end()
			block, from = append(block, item.ReplaceAllString(line, "")), i+1
		default:
			block = append(block, line)
		}
	}
	end()
}

// sentencesOf divides a paragraph.
func sentencesOf(text string) (all []string) {
	for {
		at := stops.FindStringIndex(text)
		if at == nil {
			break
		}
		all, text = append(all, text[:at[1]-1]), text[at[1]-1:]
	}
	if strings.TrimSpace(text) != "" {
		all = append(all, text)
	}
	return all
}

// undocumented finds exported declarations of a file that have no comment. Methods and tests need none.
func (t *tree) undocumented(files *token.FileSet, file string, f *ast.File) {
	if strings.HasSuffix(file, "_test.go") {
		return
	}
	without := func(name *ast.Ident, comments ...*ast.CommentGroup) {
		if name.IsExported() && !slices.ContainsFunc(comments, func(c *ast.CommentGroup) bool { return c != nil }) {
			t.add("undocumented", file)(files.Position(name.Pos()).Line, name.Name, "write a comment")
		}
	}
	for _, d := range f.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			if d.Recv == nil {
				without(d.Name, d.Doc)
			}
		case *ast.GenDecl:
			for _, s := range d.Specs {
				switch s := s.(type) {
				case *ast.TypeSpec:
					without(s.Name, d.Doc, s.Doc, s.Comment)
				case *ast.ValueSpec:
					for _, name := range s.Names {
						without(name, d.Doc, s.Doc, s.Comment)
					}
				}
			}
		}
	}
}

// figures prints the lengths of all pages, the longest first.
func (t *tree) figures(w io.Writer) {
	line := func(name string, l lengths) {
		fmt.Fprintf(w, "%-40s %7d words %6.1f a sentence %5.1f %% over %d\n", name, l.words, l.mean(),
			100*float64(l.long)/float64(max(1, l.sentences)), longSentence)
	}
	pages := slices.SortedFunc(maps.Keys(t.lengths), func(a, b string) int {
		return cmp.Or(t.lengths[b].words-t.lengths[a].words, strings.Compare(a, b))
	})
	for _, page := range pages {
		line(page, t.lengths[page])
	}
	line("all", t.all())
	for _, group := range groups {
		fmt.Fprintf(w, "%-40s %7d\n", group, len(t.finds[group]))
	}
}

func (t *tree) all() (sum lengths) {
	for _, l := range t.lengths {
		sum = sum.add(l)
	}
	return sum
}

// tooLong is nil when the sentences of all pages are short enough in the mean.
func (t *tree) tooLong() error {
	if mean := t.all().mean(); mean > mostMean {
		return fmt.Errorf("sentences of the documentation have %.1f words in the mean: at most %d", mean, mostMean)
	}
	return nil
}
