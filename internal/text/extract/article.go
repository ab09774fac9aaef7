package extract

import (
	"net/url"
	"regexp"
	"slices"
	"strings"

	readability "codeberg.org/readeck/go-readability/v2"
	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"

	"agentplatform/internal/text/document"
)

// Limits of pages whose main content is searched. The tree of a page takes a hundred times its bytes.
const (
	maxTree     = 4 << 20 // bytes
	maxNodes    = 30_000  // elements and texts
	maxNamed    = 150_000 // attributes
	keptWords   = 0.6     // of the words outside of links; a page that keeps fewer is read whole
	mostWords   = 0.95    // of all words; around these nothing stands
	rowsOfTable = 3       // a table of so many rows is content
)

// readMain reads the main content of a page, without the parts that each page of its site has. It reads nothing, and
// reports false, if a reader of the whole page would miss something.
func readMain(text string, b *builder) (bool, error) {
	if !hasSmallTree(text) {
		return false, nil
	}
	root, err := html.Parse(strings.NewReader(text))
	if err != nil {
		return false, nil //nolint:nilerr // the reader of whole pages builds no tree
	}
	parser := readability.NewParser()
	parser.DisableJSONLD = true
	found, err := parser.ParseDocument(root, &url.URL{})
	if err != nil || found.Node == nil {
		return false, nil //nolint:nilerr // the page has no main content
	}
	whole, main := wordsOf(root), wordsOf(found.Node)
	switch {
	case len(main.prose) == 0, whole.prose.shared(main.all) < keptWords, whole.content.shared(main.all) < 1,
		whole.all.shared(main.all) > mostWords:
		return false, nil
	}
	var article strings.Builder
	if err := html.Render(&article, found.Node); err != nil {
		return false, err
	}
	b.title(whole.title)
	b.language(whole.language)
	if whole.first != "" && !slices.Contains(main.headings, whole.first) {
		b.block(document.Heading, 1, whole.first)
	}
	return true, readMarkup(article.String(), b, true)
}

// hasSmallTree reports whether the tree of a page takes little memory and time.
func hasSmallTree(text string) bool {
	if len(text) > maxTree {
		return false
	}
	nodes, named := 0, 0
	z := html.NewTokenizer(strings.NewReader(text))
	for nodes <= maxNodes && named <= maxNamed {
		switch z.Next() {
		case html.ErrorToken:
			return true
		case html.StartTagToken, html.SelfClosingTagToken:
			for _, more := z.TagName(); more && named <= maxNamed; named++ {
				_, _, more = z.TagAttr()
			}
		}
		nodes++
	}
	return false
}

// bag counts words.
type bag map[string]int

func (b bag) add(text string) {
	for word := range strings.FieldsSeq(text) {
		b[word]++
	}
}

// shared is the share of the words, by their length, that another bag has, too.
func (b bag) shared(other bag) float64 {
	same, all := 0, 0
	for word, n := range b {
		all += n * len(word)
		same += min(n, other[word]) * len(word)
	}
	if all == 0 {
		return 1
	}
	return float64(same) / float64(all)
}

// pageWords are the words of a page, or of a part of it.
type pageWords struct {
	all      bag
	prose    bag // outside of links and navigation
	content  bag // what must not be missing: tables, questions, prices, forms
	title    string
	language string
	headings []string
	first    string // heading of the first level
}

func wordsOf(root *html.Node) *pageWords {
	w := &pageWords{all: bag{}, prose: bag{}, content: bag{}}
	w.walk(root, false, false)
	return w
}

// price matches an amount with its currency, question the end of a question.
var (
	price = regexp.MustCompile(`(?:[€$£¥₹]|\b(?:EUR|USD|GBP|CHF|JPY))\s?\d|` +
		`\d\s?(?:[€£¥₹]|(?:EUR|USD|GBP|CHF|JPY)\b)`)
	question = regexp.MustCompile(`[?？]\s*$`)
)

// walk reads the words below a node. The tree is at most 512 deep: the parser makes no deeper one.
func (w *pageWords) walk(n *html.Node, aside, content bool) {
	if n.Type == html.TextNode {
		w.all.add(n.Data)
		if !aside {
			w.prose.add(n.Data)
		}
		if !aside && (content || price.MatchString(n.Data) || question.MatchString(n.Data)) {
			w.content.add(n.Data)
		}
		return
	}
	if n.Type == html.ElementNode {
		switch {
		case left[n.DataAtom] || isHidden(n):
			return
		case n.DataAtom == atom.Title:
			w.title += textOf(n)
			return
		case levels[n.DataAtom] > 0:
			heading := oneLine(textOf(n))
			w.headings = append(w.headings, heading)
			if w.first == "" && n.DataAtom == atom.H1 {
				w.first = heading
			}
		case n.DataAtom == atom.Html:
			w.language = attributeOf(n, "lang")
		}
		aside = aside || n.DataAtom == atom.A || n.DataAtom == atom.Nav
		content = content || isContent(n)
	}
	for child := range n.ChildNodes() {
		w.walk(child, aside, content)
	}
}

// isContent reports an element that is used for content, never for navigation.
func isContent(n *html.Node) bool {
	switch n.DataAtom {
	case atom.Table:
		return count(n, atom.Tr) >= rowsOfTable
	case atom.Form:
		return count(n, atom.Label) >= rowsOfTable
	case atom.Dl, atom.Details:
		return true
	}
	return false
}

func count(n *html.Node, of atom.Atom) int {
	all := 0
	for child := range n.Descendants() {
		if child.DataAtom == of {
			all++
		}
	}
	return all
}

func isHidden(n *html.Node) bool {
	style := strings.ToLower(strings.ReplaceAll(attributeOf(n, "style"), " ", ""))
	hidden := slices.ContainsFunc(n.Attr, func(a html.Attribute) bool {
		return a.Key == "hidden" && a.Val != "until-found"
	})
	return hidden || attributeOf(n, "aria-hidden") == "true" ||
		strings.Contains(style, "display:none") || strings.Contains(style, "visibility:hidden")
}

func attributeOf(n *html.Node, name string) string {
	for _, a := range n.Attr {
		if a.Key == name {
			return a.Val
		}
	}
	return ""
}

func textOf(n *html.Node) string {
	var b strings.Builder
	for child := range n.Descendants() {
		if child.Type == html.TextNode {
			b.WriteString(child.Data)
		}
	}
	return b.String()
}
