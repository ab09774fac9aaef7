package paragraph_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"agentplatform/internal/platform/paragraph"
)

func TestTheNextTextBeginsBehindABlankLine(t *testing.T) {
	for _, one := range []struct{ before, next, want string }{
		{"Let me check", "The answer is 5", "Let me check\n\nThe answer is 5"},
		{"for you.", "# Result", "for you.\n\n# Result"},
		{"for you.", "\n# Result", "for you.\n\n# Result"},
		{"for you.\n", "# Result", "for you.\n\n# Result"},
		{"for you.\n\n", "# Result", "for you.\n\n# Result"},
		{"for you.\r\n", "\r\n# Result", "for you.\r\n\n# Result"},
		{"for you.\n\n", "\n\n# Result", "for you.\n\n# Result"},
		{"for you.", "\n\n\n\n# Result", "for you.\n\n# Result"},
		{"for you. ", " \n\t\n# Result", "for you. \n\n# Result"},
		{"for you.\n  ", "# Result", "for you.\n  \n# Result"},
		{"for you.\n\n    ", "# Result", "for you.\n\n    \n# Result"}, // else it would be code
		{"as follows:", "\n    code", "as follows:\n\n    code"},
		{"as follows:", "\u00A0code", "as follows:\n\n\u00A0code"},
		{"\u2764\uFE0F", "ja", "\u2764\uFE0F\n\nja"},
	} {
		assert.Equal(t, one.want, one.before+paragraph.Break(one.before)+paragraph.Begin(one.next), "%+q", one)
	}
}

func TestTheFirstLineKeepsItsIndentation(t *testing.T) {
	for text, want := range map[string]string{
		"": "", " ": " ", "a": "a", "  a": "  a", "\n  a\n": "  a\n", "\n \n\n": "\n \n\n",
		"\u200B\n\u200Ba": "\u200Ba",
	} {
		assert.Equal(t, want, paragraph.Begin(text), "%q", text)
	}
}

func TestBlankTextsShowNothing(t *testing.T) {
	for _, blank := range []string{
		"", " ", "\n\n", "\t\r\n", "\u00A0", "\u200B", "\uFEFF", "\u2060 \u00AD", "\u2800", "\u3164", "\x00",
	} {
		assert.True(t, paragraph.Blank(blank), "%+q", blank)
		assert.False(t, paragraph.Blank(blank+"."+blank), "%+q", blank)
	}
	assert.False(t, paragraph.Blank(strings.Repeat(" ", 1000)+"é"))
}
