package extract

import (
	"archive/zip"
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"maps"
	"path"
	"slices"
	"strings"

	"golang.org/x/net/html/charset"

	"agentplatform/internal/text/document"
)

// members is an opened archive. All bytes that are read of it count against one limit.
type members struct {
	files map[string]*zip.File
	is    format
	core  string // the member that has title and language
	main  string // the member that has, or names, the text
	left  int64  // bytes
	most  int64

	related map[string]relation // of main
	margins margins
}

type formatMember struct {
	name string
	is   format
}

// formatMembers are the typical members of each format, for an archive that names no main part.
var formatMembers = []formatMember{
	{"word/document.xml", word},
	{"ppt/presentation.xml", presentation},
	{"xl/workbook.xml", workbook},
	{"META-INF/container.xml", book},
	{"content.xml", openDocument},
	{"META-INF/manifest.xml", openDocument},
}

// mains are the formats by the element of the main part that an archive names.
var mains = map[string]format{"document": word, "presentation": presentation, "workbook": workbook}

// archived read the formats of archives.
var archived = map[format]func(m *members, in input, b *builder) error{
	word: readWord, presentation: readPresentation, workbook: readWorkbook, book: readBook, openDocument: readOpenParts,
}

// readArchive reads the archives of known formats, which it recognizes by their members.
func readArchive(in input, b *builder) error {
	z, err := zip.NewReader(bytes.NewReader(in.data), int64(len(in.data)))
	if err != nil && in.format == archive {
		return ErrKind
	}
	if err != nil {
		return fmt.Errorf("it is not a valid %s: %w", in.format, err)
	}
	if len(z.File) > maxMembers {
		return Fault{TooLarge, fmt.Sprintf("the archive has more than %d files", maxMembers)}
	}
	m := members{
		files: make(map[string]*zip.File, len(z.File)), is: in.format, left: b.most.unpacked, most: b.most.unpacked,
	}
	for _, f := range z.File {
		if name := strings.TrimPrefix(f.Name, "/"); m.files[name] == nil {
			m.files[name] = f
		}
	}
	known, err := m.recognize()
	switch {
	case err != nil:
		return err
	case known:
		if err := m.each(m.core, b.describe); err != nil {
			return err
		}
		if err := archived[m.is](&m, in, b); err != nil {
			return err
		}
		m.margins.write(b)
		return nil
	case in.format == archive:
		return ErrKind
	}
	return fmt.Errorf("it is not a valid %s: it has no text", in.format)
}

// recognize finds the format by the main part that the archive names, else by a member.
func (m *members) recognize() (known bool, err error) {
	relations, err := m.relations("")
	if err != nil {
		return false, err
	}
	m.core = m.part(relations, "core-properties", "docProps/core.xml")
	m.main = m.part(relations, "officeDocument", "")
	root := ""
	err = beside(m.each(m.main, func(_ *parts, e xml.StartElement) error {
		root = e.Name.Local
		return errEnough
	}))
	if err != nil {
		return false, err
	}
	if m.is, known = mains[root]; !known {
		at := slices.IndexFunc(formatMembers, func(of formatMember) bool { return m.files[of.name] != nil })
		if known = at >= 0; known {
			m.is, m.main = formatMembers[at].is, formatMembers[at].name
		}
	}
	m.related, err = m.relations(m.main)
	return known, err
}

var errEnough = errors.New("enough was read")

var errMissing = errors.New("a part is missing")

// open opens a member.
func (m *members) open(name string) (*member, error) {
	f := m.files[name]
	switch {
	case f == nil:
		return nil, fmt.Errorf("the %s cannot be read: %w: %q", m.is, errMissing, document.Cut(name, 80))
	case f.Flags&1 != 0:
		return nil, Fault{Encrypted, "the " + string(m.is) + " has a password"}
	}
	r, err := f.Open()
	if err != nil {
		return nil, fmt.Errorf("the %s cannot be read: %w", m.is, err)
	}
	return &member{r, m}, nil
}

// all reads a whole member.
func (m *members) all(name string) ([]byte, error) {
	r, err := m.open(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = r.Close() }()
	return io.ReadAll(r)
}

// member is an open member; reading it uses up the limit of its archive.
type member struct {
	io.ReadCloser

	of *members
}

func (r *member) Read(p []byte) (int, error) {
	if r.of.left <= 0 {
		return 0, Fault{TooLarge, fmt.Sprintf("the %s unpacks to over %d MiB", r.of.is, r.of.most>>20)}
	}
	n, err := r.ReadCloser.Read(p[:min(int64(len(p)), r.of.left)])
	r.of.left -= int64(n)
	return n, err
}

type parts struct {
	d     *xml.Decoder
	is    format
	depth int
}

// next returns the next token; at the end, nil. Names are without their prefix. Character data is valid until the next
// call.
func (p *parts) next() (xml.Token, error) {
	token, err := p.d.RawToken()
	if errors.Is(err, io.EOF) {
		return nil, nil
	}
	if err != nil {
		if f, ok := errors.AsType[Fault](err); ok {
			return nil, f
		}
		return nil, fmt.Errorf("the %s cannot be read: %w", p.is, err)
	}
	switch token.(type) {
	case xml.StartElement:
		if p.depth++; p.depth > maxDepth {
			return nil, fmt.Errorf("the %s is nested too deeply", p.is)
		}
	case xml.EndElement:
		p.depth--
	}
	return token, nil
}

// skip reads up to the end of the element that has just begun.
func (p *parts) skip() error {
	_, err := p.characters(0)
	return err
}

// characters reads the text of the element that has just begun, up to its end.
func (p *parts) characters(most int) (string, error) {
	var all strings.Builder
	for outside := p.depth - 1; p.depth > outside; {
		token, err := p.next()
		if err != nil || token == nil {
			return all.String(), err
		}
		if t, is := token.(xml.CharData); is && all.Len() < most {
			all.Write(t)
		}
	}
	return all.String(), nil
}

// attribute is the value of an attribute with any prefix.
func attribute(e xml.StartElement, name string) string {
	at := slices.IndexFunc(e.Attr, func(a xml.Attr) bool { return a.Name.Local == name })
	if at < 0 {
		return ""
	}
	return e.Attr[at].Value
}

// describe takes title and language from an element that has one of them.
func (b *builder) describe(p *parts, e xml.StartElement) error {
	var take func(string)
	switch e.Name.Local {
	case "title":
		take = b.title
	case "language":
		take = b.language
	default:
		return nil
	}
	s, err := p.characters(utf8Most * maxTitle)
	take(s)
	return err
}

type elements interface {
	start(p *parts, e xml.StartElement) error
	ended(name string) error
}

// mixed takes the text between elements, too.
type mixed interface{ text(s string) }

// each is called with the elements of a member where they begin.
type each func(p *parts, e xml.StartElement) error

func (do each) start(p *parts, e xml.StartElement) error { return do(p, e) }
func (each) ended(string) error                          { return nil }

// each calls do for each element of a member, if there is one of that name.
func (m *members) each(name string, do each) error {
	if m.files[name] == nil {
		return nil
	}
	_, err := m.walk(name, &builder{}, do)
	return err
}

// walk passes the elements of a member to r. It goes on to the end, which makes whole true, or until b is full.
func (m *members) walk(name string, b *builder, r elements) (whole bool, err error) {
	from, err := m.open(name)
	if err != nil {
		return false, err
	}
	defer func() { _ = from.Close() }()
	return walk(from, m.is, b, r)
}

// walk is like [members.walk], for a file outside of an archive.
func walk(from io.Reader, is format, b *builder, r elements) (whole bool, err error) {
	p := &parts{d: xml.NewDecoder(from), is: is}
	p.d.CharsetReader = charset.NewReaderLabel
	between, _ := r.(mixed)
	for !b.full {
		token, err := p.next()
		switch t := token.(type) {
		case nil:
			return err == nil, err
		case xml.StartElement:
			err = r.start(p, t)
		case xml.EndElement:
			err = r.ended(t.Name.Local)
		case xml.CharData:
			if between != nil {
				between.text(string(t))
			}
		}
		if err != nil {
			return false, err
		}
	}
	return false, nil
}

// relations returns the members that a member refers to, with their kinds, by the ids of the references.
func (m *members) relations(name string) (map[string]relation, error) {
	dir, base := path.Split(name)
	all := map[string]relation{}
	err := m.each(dir+"_rels/"+base+".rels", func(_ *parts, e xml.StartElement) error {
		if e.Name.Local == "Relationship" && attribute(e, "TargetMode") != "External" {
			target := attribute(e, "Target")
			if !strings.HasPrefix(target, "/") {
				target = path.Join("/", dir, target)
			}
			all[attribute(e, "Id")] = relation{strings.TrimPrefix(target, "/"), path.Base(attribute(e, "Type"))}
		}
		return nil
	})
	return all, err
}

type relation struct{ member, kind string }

// part is the first member of a kind among relations, otherwise the one of that name.
func (m *members) part(relations map[string]relation, kind, otherwise string) string {
	for _, id := range slices.Sorted(maps.Keys(relations)) {
		if to := relations[id]; to.kind == kind && m.files[to.member] != nil {
			return to.member
		}
	}
	return otherwise
}
