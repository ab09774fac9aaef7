package record_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"agentplatform/internal/store/record"
)

func calling(text string) record.Step {
	return record.Step{Kind: record.ModelStep, Text: text, Calls: make([]record.Call, 1)}
}

func answering(text string) record.Step { return record.Step{Kind: record.ModelStep, Text: text} }

func TestTheAnswerIsTheTextsOfTheStepsInParagraphs(t *testing.T) {
	tool := record.Step{Kind: record.ToolStep, Text: "not this"}
	for name, c := range map[string]struct {
		steps      []record.Step
		text, kept string
	}{
		"nothing":        {nil, "", ""},
		"an answer":      {[]record.Step{answering("A")}, "A", ""},
		"as it was made": {[]record.Step{answering("\n A\n")}, "\n A\n", ""},
		"two texts":      {[]record.Step{calling("A"), tool, answering("B")}, "A\n\nB", "A"},
		"three texts": {[]record.Step{calling("A"), tool, calling("B"), tool, answering("C")},
			"A\n\nB\n\nC", "A\n\nB"},
		"a heading": {[]record.Step{calling("for you."), answering("\n# Result")},
			"for you.\n\n# Result", "for you."},
		"line ends":       {[]record.Step{calling("A\n\n"), answering("\n\nB")}, "A\n\nB", "A\n\n"},
		"a blank text":    {[]record.Step{calling(" \n\n"), tool, answering("B")}, "B", ""},
		"blank between":   {[]record.Step{calling("A"), calling("\u00A0"), answering("B")}, "A\n\nB", "A"},
		"blank at last":   {[]record.Step{calling("A"), answering("\n")}, "A", "A"},
		"all blank":       {[]record.Step{calling("\n"), answering("\u200B")}, "", ""},
		"replaced":        {[]record.Step{answering("A"), answering("B")}, "B", ""},
		"replaced later":  {[]record.Step{calling("A"), answering("B"), answering("C")}, "A\n\nC", "A"},
		"with calls then": {[]record.Step{answering("A"), calling("B"), answering("C")}, "B\n\nC", "B"},
		"withdrawn": {[]record.Step{calling("A"), {Kind: record.ModelStep, Text: "B", Withdrawn: true}},
			"A", "A"},
		"by nothing": {[]record.Step{answering("A"), answering("")}, "", ""},
	} {
		var a record.Answer
		for _, step := range c.steps {
			a.Add(step)
		}
		assert.Equal(t, c.text, a.String(), name)
		assert.Equal(t, c.kept, a.Kept(), name)
	}
}

func TestWhatIsBehindABeginningBeginsAParagraph(t *testing.T) {
	for _, c := range []struct {
		text  string
		first []record.Step
		want  string
	}{
		{"A\n\nB", []record.Step{calling("A")}, "B"},
		{"A\n\n  B", []record.Step{calling("A")}, "  B"},
		{"\n\nB", nil, "\n\nB"},
		{"A", []record.Step{calling("A")}, ""},
		{"A\n\nB\n\nC", []record.Step{calling("A"), answering("not this"), calling("B")}, "C"},
		{"A B C", []record.Step{calling("A "), calling("B ")}, "C"}, // of an earlier version
	} {
		assert.Equal(t, c.want, record.Behind(c.text, c.first), c.text)
	}
}
