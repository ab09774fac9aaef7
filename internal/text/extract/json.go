package extract

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"agentplatform/internal/text/document"
)

// readJSON reads JSON, and JSON values one after the other (JSON lines). Each value has a line with its path. The
// members of the outermost value, or those of the objects in an outermost array, stand together. A text that is not
// JSON is read as plain text.
func readJSON(in input, b *builder) error {
	text, err := in.text(b)
	if err != nil {
		return err
	}
	if !parses(text) {
		return readPlain(in, b)
	}
	r := jsonReader{d: json.NewDecoder(strings.NewReader(text)), b: b}
	r.d.UseNumber()
	for r.d.More() && !b.full {
		if err := r.value(); err != nil {
			return err
		}
		b.end()
	}
	return nil
}

// parses reports whether a text is one JSON value, or several.
func parses(text string) bool {
	d := json.NewDecoder(strings.NewReader(text))
	for {
		_, err := d.Token()
		if errors.Is(err, io.EOF) {
			return d.InputOffset() > 0 && strings.TrimSpace(text) != ""
		}
		if err != nil {
			return false
		}
	}
}

type jsonReader struct {
	d    *json.Decoder
	b    *builder
	path []string
}

// value reads a value and what is in it.
func (r *jsonReader) value() error {
	token, err := r.d.Token()
	if err != nil {
		return fmt.Errorf("the JSON text cannot be read: %w", err)
	}
	switch t := token.(type) {
	case json.Delim:
		if len(r.path) >= maxDepth {
			return errors.New("the JSON text is nested too deeply")
		}
		return r.members(t == '{')
	case nil:
	default:
		r.line(fmt.Sprint(t))
	}
	return nil
}

// members reads the members of an object or array, up to its end.
func (r *jsonReader) members(object bool) error {
	for i := 0; r.d.More() && !r.b.full; i++ {
		name := "[" + strconv.Itoa(i) + "]"
		if object {
			token, err := r.d.Token()
			if err != nil {
				return fmt.Errorf("the JSON text cannot be read: %w", err)
			}
			name, _ = token.(string)
		}
		r.path = append(r.path, name)
		if err := r.value(); err != nil {
			return err
		}
		if r.path = r.path[:len(r.path)-1]; len(r.path) == 0 {
			r.b.end()
		}
	}
	if r.b.full {
		return nil
	}
	_, err := r.d.Token()
	return err
}

func (r *jsonReader) line(value string) {
	if !r.b.opened || len(r.b.part) > longParagraph {
		r.b.begin(document.Paragraph, 0)
	}
	if path := r.where(); path != "" {
		r.b.add(path + ": ")
	}
	r.b.add(strings.TrimSpace(value))
	r.b.add("\n")
}

// where is the path of the present value, like customers[3].name.
func (r *jsonReader) where() string {
	var b strings.Builder
	for i, name := range r.path {
		if i > 0 && !strings.HasPrefix(name, "[") {
			b.WriteByte('.')
		}
		if b.WriteString(document.Cut(oneLine(cutBytes(name, 4*maxPath)), maxPath)); b.Len() > maxPath {
			return document.Cut(b.String(), maxPath) + "…"
		}
	}
	return b.String()
}
