package extract

import (
	"bytes"
	"strings"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	extensions_ast "github.com/yuin/goldmark/extension/ast"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/text"
	"github.com/yuin/goldmark/util"

	"agentplatform/internal/text/document"
)

// readMarkdown reads Markdown with tables. Markup within paragraphs is left out. The first heading is the title if it
// is of the first level and nothing else gives the title.
func readMarkdown(in input, b *builder) error {
	all, err := in.text(b)
	if err != nil {
		return err
	}
	for line := range linesOf(all) {
		if len(line) > maxLine {
			return readPlain(in, b)
		}
	}
	source := []byte(frontMatter(all, b))
	m := markdownReader{source: source, b: b}
	return ast.Walk(parseMarkdown(source), m.visit)
}

// parseMarkdown is the tree of a source, made in time linear in its size. Marks of quotations and lists nested deeper
// than maxContained are text. After maxLines lines another paragraph begins.
func parseMarkdown(source []byte) ast.Node {
	blocks := parser.DefaultBlockParsers()
	for i, p := range blocks {
		switch p.Value {
		case parser.NewBlockquoteParser(), parser.NewListParser():
			blocks[i].Value = shallow{p.Value.(parser.BlockParser)}
		case parser.NewParagraphParser():
			blocks[i].Value = &short{BlockParser: parser.NewParagraphParser()}
		}
	}
	p := parser.NewParser(
		parser.WithBlockParsers(blocks...), parser.WithInlineParsers(parser.DefaultInlineParsers()...),
		parser.WithParagraphTransformers(parser.DefaultParagraphTransformers()...),
	)
	m := goldmark.New(goldmark.WithParser(p), goldmark.WithExtensions(extension.Table, extension.Strikethrough))
	return m.Parser().Parse(text.NewReader(source))
}

// shallow is a parser of quotations or lists that begins none within maxContained others. The parser calls each open
// block for each line, and each block reads the line from its beginning to the block.
type shallow struct{ parser.BlockParser }

func (s shallow) Open(parent ast.Node, r text.Reader, c parser.Context) (ast.Node, parser.State) {
	depth := 0
	for n := parent; n != nil; n = n.Parent() {
		if depth++; depth > maxContained {
			return nil, parser.NoChildren
		}
	}
	return s.BlockParser.Open(parent, r, c)
}

// short is a parser of paragraphs of at most maxLines lines. For each link and each definition of a link, the parser
// reads all lines of its paragraph.
type short struct {
	parser.BlockParser

	full bool // the present paragraph, which the next one interrupts
}

func (s *short) Open(parent ast.Node, r text.Reader, c parser.Context) (ast.Node, parser.State) {
	n, state := s.BlockParser.Open(parent, r, c)
	s.full = s.full && n == nil
	return n, state
}

func (s *short) Continue(n ast.Node, r text.Reader, c parser.Context) parser.State {
	state := s.BlockParser.Continue(n, r, c)
	s.full = n.Lines().Len() >= maxLines
	return state
}

func (s *short) CanInterruptParagraph() bool { return s.full }

const (
	utf8Most     = 4      // bytes of a character
	maxLine      = 50_000 // bytes; nobody writes longer ones, and marks within them may take their square to read
	maxContained = 100    // quotations, lists and their items within each other
	maxLines     = 10_000 // of a paragraph, or of a table until it is known as one
)

// frontMatter takes title and language from the lines between "---" at the beginning of a text, and returns the rest.
func frontMatter(all string, b *builder) string {
	all = strings.ReplaceAll(all, "\r\n", "\n")
	rest, begins := strings.CutPrefix(all, "---\n")
	matter, rest, ends := strings.Cut(rest, "\n---\n")
	if !begins || !ends {
		return all
	}
	for line := range strings.Lines(matter) {
		name, value, _ := strings.Cut(line, ":")
		value = strings.Trim(strings.TrimSpace(value), `"'`)
		switch name {
		case "title":
			b.title(value)
		case "lang", "language":
			b.language(value)
		}
	}
	return rest
}

type markdownReader struct {
	source []byte
	b      *builder
	table  *table
}

// visit writes the blocks of a tree. The inline text of a block is written when the block begins.
func (m *markdownReader) visit(n ast.Node, entering bool) (ast.WalkStatus, error) {
	if m.b.full {
		return ast.WalkStop, nil
	}
	if !entering {
		return ast.WalkContinue, nil
	}
	switch n := n.(type) {
	case *ast.Heading:
		heading := m.inline(n)
		if at := m.b.block(document.Heading, n.Level, heading); at == 0 && n.Level == 1 {
			m.b.title(heading)
		}
	case *ast.CodeBlock:
		m.b.block(document.Code, 0, m.lines(n.Lines()))
	case *ast.FencedCodeBlock:
		m.b.block(document.Code, 0, m.lines(n.Lines()))
	case *ast.HTMLBlock:
		if err := m.page(n); err != nil {
			return ast.WalkStop, err
		}
	case *ast.Paragraph, *ast.TextBlock:
		m.b.block(kindWithin(n), 0, m.inline(n))
	case *extensions_ast.TableHeader:
		m.table = newTable(m.b)
		m.table.add(m.cells(n), true)
	case *extensions_ast.TableRow:
		m.table.add(m.cells(n), false)
	default:
		return ast.WalkContinue, nil
	}
	return ast.WalkSkipChildren, nil
}

// kindWithin is the kind of a paragraph: the first paragraph of a list's item is the item.
func kindWithin(n ast.Node) document.Kind {
	if parent, ok := n.Parent().(*ast.ListItem); ok && parent.FirstChild() == n {
		return document.Item
	}
	return document.Paragraph
}

// page reads a block of HTML and those that follow it as one page, since an empty line within a table ends a block.
func (m *markdownReader) page(n *ast.HTMLBlock) error {
	if before := n.PreviousSibling(); before != nil && before.Kind() == ast.KindHTMLBlock {
		return nil // it was read with that one
	}
	var all strings.Builder
	for at := ast.Node(n); at != nil && at.Kind() == ast.KindHTMLBlock; at = at.NextSibling() {
		block := at.(*ast.HTMLBlock)
		all.WriteString(m.lines(block.Lines()))
		if block.HasClosure() {
			all.Write(block.ClosureLine.Value(m.source))
		}
	}
	return readPage(input{data: []byte(all.String())}, m.b)
}

func (m *markdownReader) lines(of *text.Segments) string {
	var all bytes.Buffer
	for i := range of.Len() {
		line := of.At(i)
		all.Write(line.Value(m.source))
	}
	return all.String()
}

func (m *markdownReader) cells(row ast.Node) []cell {
	var cells []cell
	for n := row.FirstChild(); n != nil && len(cells) < maxCells; n = n.NextSibling() {
		cells = append(cells, cell{text: m.inline(n)})
	}
	return cells
}

// inline is the text below a node, without its markup.
func (m *markdownReader) inline(n ast.Node) string {
	var all strings.Builder
	_ = ast.Walk(n, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if !entering {
			return ast.WalkContinue, nil
		}
		switch n := n.(type) {
		case *ast.Text:
			all.Write(unescape(n.Segment.Value(m.source), n.IsRaw() || isCode(n.Parent())))
			if n.HardLineBreak() {
				all.WriteByte('\n')
			} else if n.SoftLineBreak() {
				all.WriteByte(' ')
			}
		case *ast.String:
			all.Write(n.Value)
		case *ast.AutoLink:
			all.Write(n.Label(m.source))
		case *ast.RawHTML:
			if bytes.HasPrefix(bytes.ToLower(n.Segments.Value(m.source)), []byte("<br")) {
				all.WriteByte('\n')
			}
		}
		return ast.WalkContinue, nil
	})
	return all.String()
}

func isCode(n ast.Node) bool {
	_, is := n.(*ast.CodeSpan)
	return is
}

// unescape resolves backslashes and references, which have no meaning in code.
func unescape(s []byte, raw bool) []byte {
	if raw {
		return s
	}
	return util.ResolveEntityNames(util.ResolveNumericReferences(util.UnescapePunctuations(s)))
}
