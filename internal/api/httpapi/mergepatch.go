package httpapi

import (
	"bytes"
	"slices"

	"github.com/go-json-experiment/json/jsontext"
)

// Merge applies a merge patch (RFC 7396) to an object. Both are read once; members keep their order, new ones come
// last.
func Merge(object, patch []byte) ([]byte, error) {
	target, err := readMember(jsontext.NewDecoder(bytes.NewBuffer(object)))
	if err != nil {
		return nil, err
	}
	change, err := readMember(jsontext.NewDecoder(bytes.NewBuffer(patch)))
	if err != nil {
		return nil, err
	}
	return target.merged(change).append(nil), nil
}

// member is a value in an object. A patch may change the members of an object one by one. It replaces any other value
// as a whole.
type member struct {
	names []string // of an object, in order
	of    map[string]*member
	other jsontext.Value // nil for an object
}

func readMember(d *jsontext.Decoder) (*member, error) {
	if d.PeekKind() != '{' {
		v, err := d.ReadValue()
		return &member{other: v.Clone()}, err
	}
	if _, err := d.ReadToken(); err != nil {
		return nil, err
	}
	m := &member{of: map[string]*member{}}
	for d.PeekKind() != '}' {
		name, err := d.ReadToken()
		if err != nil {
			return nil, err
		}
		n := name.String()
		if m.of[n], err = readMember(d); err != nil {
			return nil, err
		}
		m.names = append(m.names, n)
	}
	_, err := d.ReadToken()
	return m, err
}

// merged is m with a patch applied; m is nil where there is nothing yet.
func (m *member) merged(patch *member) *member {
	if patch.other != nil {
		return patch
	}
	if m == nil || m.other != nil {
		m = &member{of: map[string]*member{}}
	}
	for _, name := range patch.names {
		change := patch.of[name]
		before, there := m.of[name]
		if change.other.Kind() == 'n' {
			delete(m.of, name)
			continue
		}
		if !there {
			m.names = append(m.names, name)
		}
		m.of[name] = before.merged(change)
	}
	m.names = slices.DeleteFunc(m.names, func(name string) bool { return m.of[name] == nil })
	return m
}

func (m *member) append(b []byte) []byte {
	if m.other != nil {
		return append(b, m.other...)
	}
	b = append(b, '{')
	for i, name := range m.names {
		if i > 0 {
			b = append(b, ',')
		}
		b, _ = jsontext.AppendQuote(b, name) // read from JSON, so it is UTF-8
		b = m.of[name].append(append(b, ':'))
	}
	return append(b, '}')
}
