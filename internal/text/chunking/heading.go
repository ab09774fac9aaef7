package chunking

import (
	"strings"

	"agentplatform/internal/text/document"
)

// heading is one above the place that is read.
type heading struct {
	level int
	text  string
}

const (
	longestHeading = 200 // characters of a heading in a path
	separator      = " › "
)

// enter puts a heading in place of those that it ends: those of its level and below.
func (s *splitter) enter(p part) {
	level := max(1, min(p.level, 6))
	for len(s.path) > 0 && s.path[len(s.path)-1].level >= level {
		s.path = s.path[:len(s.path)-1]
	}
	text := document.Cut(s.text.Body[p.from:p.till], longestHeading)
	s.path = append(s.path, heading{level, strings.Join(strings.Fields(text), " ")})
}

// heading is the path of the headings above the open chunk, and of those at its beginning.
func (s *splitter) heading() string {
	texts := make([]string, len(s.path))
	for i, h := range s.path {
		texts[i] = h.text
	}
	return strings.Join(texts, separator)
}
