package extract

import (
	"encoding/xml"
	"fmt"
	"net/url"
	"path"
	"strings"

	"agentplatform/internal/text/document"
)

// readBook reads an e-book's chapters in reading order, each once.
func readBook(m *members, _ input, b *builder) error {
	at := ""
	err := m.each("META-INF/container.xml", func(_ *parts, e xml.StartElement) error {
		if e.Name.Local == "rootfile" && at == "" {
			at = attribute(e, "full-path")
		}
		return nil
	})
	if err != nil {
		return err
	}
	p := bookPackage{files: map[string]string{}, dir: path.Dir(at)}
	if m.files[at] == nil {
		return fmt.Errorf("the e-book cannot be read: %w: %q", errMissing, document.Cut(at, 80))
	}
	if err := m.each(at, func(in *parts, e xml.StartElement) error { return p.note(in, e, b) }); err != nil {
		return err
	}
	locked, err := lockedMembers(m)
	if err != nil {
		return err
	}
	b.titled = true
	for _, id := range p.spine {
		name, there := p.files[id]
		delete(p.files, id)
		switch {
		case !there || m.files[name] == nil || b.full:
			continue
		case locked[name]:
			return Fault{Encrypted, "the e-book is protected against copying"}
		}
		chapter, err := m.all(name)
		if err != nil {
			return err
		}
		if err := readPage(input{data: chapter}, b); err != nil {
			return fmt.Errorf("the e-book cannot be read: %w", err)
		}
	}
	return nil
}

type bookPackage struct {
	dir   string
	files map[string]string // members by id
	spine []string          // ids in reading order
}

// note reads an element of the package document.
func (p *bookPackage) note(in *parts, e xml.StartElement, b *builder) error {
	switch e.Name.Local {
	case "item":
		kind := attribute(e, "media-type")
		href, err := url.PathUnescape(attribute(e, "href"))
		if err == nil && (strings.HasSuffix(kind, "html+xml") || kind == "text/html") && len(p.files) < maxMembers {
			p.files[attribute(e, "id")] = path.Join(p.dir, href)
		}
	case "itemref":
		if len(p.spine) < maxMembers {
			p.spine = append(p.spine, attribute(e, "idref"))
		}
	}
	return b.describe(in, e)
}

// lockedMembers are those that only a reader with the right key can decrypt. Fonts are often locked, and do not count.
func lockedMembers(m *members) (map[string]bool, error) {
	locked := map[string]bool{}
	err := m.each("META-INF/encryption.xml", func(_ *parts, e xml.StartElement) error {
		if e.Name.Local == "CipherReference" {
			if name, err := url.PathUnescape(attribute(e, "URI")); err == nil {
				locked[strings.TrimPrefix(name, "/")] = true
			}
		}
		return nil
	})
	return locked, err
}
