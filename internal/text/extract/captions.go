package extract

import (
	"html"
	"regexp"
	"strings"

	"agentplatform/internal/text/document"
)

// longCaption is the size in bytes after which the next sentence of captions begins a paragraph.
const longCaption = 600

var (
	cueTime    = regexp.MustCompile(`^(\d{1,3}:)?\d{1,2}:\d{2}[.,]\d{1,3}\s*-->`)
	cueSpeaker = regexp.MustCompile(`^<v[^ >]{0,100}\s+([^>]{1,200})>`)
	cueMark    = regexp.MustCompile(`<[^>]{0,200}>|\{\\[^}]{0,200}\}`)
)

// readCaptions reads the words of a film (WebVTT, SubRip) with their speakers, without times and notes. A text without
// times is plain text.
func readCaptions(in input, b *builder) error {
	text, err := in.text(b)
	if err != nil {
		return err
	}
	r := captionReader{b: b}
	cues, within := 0, false
	for line := range linesOf(text) {
		switch line = strings.TrimSpace(line); {
		case line == "":
			within = false
		case cueTime.MatchString(line):
			within = true
			cues++
		case within && !b.full:
			r.line(line)
		}
	}
	if cues == 0 {
		return readPlain(in, b)
	}
	b.end()
	return nil
}

type captionReader struct {
	b       *builder
	speaker string
	last    string
}

// line adds a line of a cue. A line that rolls up stands in the next cue again.
func (r *captionReader) line(line string) {
	if found := cueSpeaker.FindStringSubmatch(line); found != nil && found[1] != r.speaker {
		r.speaker = found[1]
		r.b.begin(document.Paragraph, 0)
		r.b.add(html.UnescapeString(r.speaker) + ": ")
	}
	line = strings.TrimSpace(html.UnescapeString(cueMark.ReplaceAllString(line, "")))
	if line == "" || line == r.last {
		return
	}
	if len(r.b.part) > longCaption && endsSentence(r.last) || len(r.b.part) > longParagraph {
		r.b.end()
	}
	r.b.add(line + " ")
	r.last = line
}

func endsSentence(s string) bool {
	return strings.HasSuffix(s, ".") || strings.HasSuffix(s, "?") || strings.HasSuffix(s, "!")
}
