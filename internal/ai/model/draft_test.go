package model_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/ai/model"
)

func TestADraftBecomesAReply(t *testing.T) {
	call := func(d *model.Draft, id, name, arguments string) { d.Add(d.Begin(), id, name, arguments) }
	for name, c := range map[string]struct {
		draft  func(d *model.Draft)
		text   string
		calls  []string // their ids, names and arguments
		finish string
		kind   model.Kind // of its error, if it has no finish
	}{
		"text": {draft: func(d *model.Draft) { d.AddText("a"); d.AddText(""); d.AddText("b"); d.Stop = "end" },
			text: "ab", finish: "stop"},
		"the limit of tokens": {draft: func(d *model.Draft) { d.AddText("a"); d.Stop = "length" },
			text: "a", finish: "length"},
		"calls in their order": {draft: func(d *model.Draft) {
			a, b := d.Begin(), d.Begin()
			d.Add(b, "y", "second", "")
			d.Add(a, "x", "fi", `{"n"`)
			d.Add(a, "z", "rst", `:1}`) // its id comes once
			d.Stop = "end"
		}, calls: []string{`x first {"n":1}`, `y second {}`}, finish: "tool_calls"},
		"an id that is missing": {draft: func(d *model.Draft) { call(d, "", "f", "{}"); d.Stop = "end" },
			calls: []string{"call_0 f {}"}, finish: "tool_calls"},
		"a name that is repeated": {draft: func(d *model.Draft) {
			at := d.Begin()
			d.Add(at, "x", "f", "{")
			d.Add(at, "", "f", "}")
			d.Stop = "end"
		}, calls: []string{"x f {}"}, finish: "tool_calls"},
		"a call without a name": {text: "a", finish: "stop",
			draft: func(d *model.Draft) { d.AddText("a"); call(d, "x", "", "{}"); d.Stop = "end" }},
		"too much text": {draft: func(d *model.Draft) { d.AddText(strings.Repeat("a", model.MaxText+1)) },
			text: strings.Repeat("a", model.MaxText+1), finish: "length"},
		"a refusal":          {draft: func(d *model.Draft) { d.Stop, d.Refusal = "end", "no" }, kind: model.Refused},
		"a stream that ends": {draft: func(d *model.Draft) { d.AddText("a") }, text: "a", kind: model.Retryable},
		"a full window":      {draft: func(d *model.Draft) { d.Stop = model.WindowFull }, kind: model.TooLong},
		"a full window after some text": {draft: func(d *model.Draft) { d.AddText("a"); d.Stop = model.WindowFull },
			text: "a", finish: "length"},
	} {
		d := &model.Draft{Emit: func(string) {}}
		c.draft(d)
		r, err := d.Done(nil)
		assert.Equal(t, c.text, r.Text, name)
		assert.Equal(t, c.finish, r.Finish, name)
		if c.finish == "" {
			var failed *model.Error
			require.ErrorAs(t, err, &failed, name)
			assert.Equal(t, c.kind, failed.Kind, name)
			continue
		}
		require.NoError(t, err, name)
		var calls []string
		for _, one := range r.Calls {
			assert.True(t, json.Valid(one.Arguments), name)
			calls = append(calls, one.ID+" "+one.Name+" "+string(one.Arguments))
		}
		assert.Equal(t, c.calls, calls, name)
	}
}

// A provider that sends calls without end costs no more memory than the limit.
func TestADraftHasABoundOfCalls(t *testing.T) {
	d := &model.Draft{Emit: func(string) {}}
	for range 1000 {
		require.NotNil(t, d.Begin())
	}
	d.Add(d.Begin(), "x", "f", "{}")
	assert.Nil(t, d.Begin())
	for range 5 {
		d.Add(d.Begin(), strings.Repeat("x", 1<<20), "f", "")
	}
	assert.False(t, d.Full(), "what is not kept does not count")
}
