package responses

import (
	"encoding/json"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/events"
	"agentplatform/internal/core/lifecycle"
	"agentplatform/internal/org/tenant"
	"agentplatform/internal/run/view"
	"agentplatform/internal/store/citation"
	"agentplatform/internal/store/record"
)

const run = "65f0a1b2c3d4e5f601234567"

// endedPart is a response that has ended, with a text and the requests of its pause.
func endedPart(text string, interrupts ...record.Interrupt) *part {
	p := &part{ref: ref{run: run}, whole: &whole{warmth: 1}, text: text, last: interrupts == nil}
	p.of.RunID, p.of.Status = run, lifecycle.Completed
	if interrupts != nil {
		p.after = &record.Pause{Number: 1, Interrupts: interrupts}
	}
	return p
}

func asks(id string, kind lifecycle.InterruptKind, tool string) record.Interrupt {
	i := record.Interrupt{Interrupt: events.Interrupt{ID: id, Kind: string(kind), Prompt: "Which?"}}
	if tool != "" {
		i.Tool = &events.InterruptTool{Name: tool, Arguments: json.RawMessage(`{"a":1}`)}
	}
	return i
}

// eventsAfter returns the events of a response that a reader receives after the event with the number after. The text
// comes to the process in these pieces.
func eventsAfter(t *testing.T, p *part, after int64, pieces ...string) (list []ResponseEvent) {
	t.Helper()
	last := after
	f := (&Server{}).stream(tenant.Principal{}, p, after)
	f.emit = func(e ResponseEvent) error {
		require.Greater(t, e.Sequence, last, "%s", e.Type)
		last, list = e.Sequence, append(list, e)
		return nil
	}
	require.NoError(t, f.begin())
	for _, piece := range pieces {
		require.NoError(t, f.write(piece))
	}
	require.NoError(t, f.end(p))
	return list
}

func split(text string) (pieces []string) {
	for text != "" {
		n := 1 + rand.IntN(len(text))
		for n < len(text) && text[n]&0xC0 == 0x80 {
			n++
		}
		pieces, text = append(pieces, text[:n]), text[n:]
	}
	return pieces[:rand.IntN(len(pieces)+1)] // the rest comes with the end
}

// The text may be cut into any pieces, and a reader may have seen any event last. The events after it complete the
// reader's part: the same text, the same items, one end.
func TestAStreamIsTakenUpBehindAnyEvent(t *testing.T) {
	for range 300 {
		text := []string{"", "a", "Grüße, 世界 🌍!", strings.Repeat("so ", 50)}[rand.IntN(4)]
		interrupts := [][]record.Interrupt{
			nil, {asks("65f0a1b2c3d4e5f601234568", lifecycle.Clarification, "")},
			{
				asks("65f0a1b2c3d4e5f601234568", lifecycle.Clarification, "f"),
				asks("65f0a1b2c3d4e5f601234569", lifecycle.Approval, "g"),
			},
		}[rand.IntN(3)]
		p := endedPart(text, interrupts...)
		first := eventsAfter(t, p, -1, split(text)...)
		n := rand.IntN(len(first) - 1)
		rest := eventsAfter(t, p, first[n].Sequence, split(text)...)
		both := slices.Concat(first[:n+1], rest)
		received := ""
		for _, e := range both {
			if e.Type == "response.output_text.delta" && e.ItemID == "msg_"+run {
				received += *e.Delta
			}
		}
		assert.Equal(t, text, received)
		var ends, done []string
		for _, e := range both {
			if e.Type == "response.completed" {
				ends = append(ends, e.Response.ID)
				assert.Len(t, e.Response.Output, len(interrupts)+min(len(text), 1))
			}
			if e.Type == "response.output_item.done" {
				done = append(done, e.Item.ID)
			}
		}
		assert.Len(t, ends, 1)
		assert.Len(t, done, len(interrupts)+min(len(text), 1))
	}
}

// A text may differ at its end from its deltas. A model call was made again, the text was cut out of a fence, or it was
// cancelled and never journalled. It is whole in the event that ends it. Numbers grow all the same, and a reader that
// was cut off anywhere gets the last event.
func TestAStreamOfAnotherTextEnds(t *testing.T) {
	stopped := endedPart("")
	stopped.of.Status = lifecycle.Cancelled
	for name, c := range map[string]struct {
		of     *part
		pieces []string
		end    string
	}{
		"a longer one":  {endedPart("the answer"), []string{"a longer text than before"}, "response.completed"},
		"another one":   {endedPart("the answer"), []string{"other ", "words"}, "response.completed"},
		"in a fence":    {endedPart(`{"a":1}`), []string{"```json\n", `{"a":1}`, "\n```"}, "response.completed"},
		"nothing":       {endedPart("the answer"), []string{""}, "response.completed"},
		"one cancelled": {stopped, []string{"many ", "words"}, "response.incomplete"},
	} {
		t.Run(name, func(t *testing.T) {
			all := eventsAfter(t, c.of, -1, c.pieces...)
			open := 0
			for _, e := range all {
				switch e.Type {
				case "response.output_item.added":
					open++
				case "response.output_item.done":
					open--
				case "response.output_text.done":
					assert.Equal(t, c.of.text, *e.Text)
				}
			}
			assert.Zero(t, open, "what begins, ends")
			for _, e := range all {
				rest := eventsAfter(t, c.of, e.Sequence)
				require.NotEmpty(t, rest, "behind %d", e.Sequence)
				assert.Equal(t, c.end, rest[len(rest)-1].Type)
			}
		})
	}
}

// Every item begins before it ends, and every event is of an item that has begun: clients that build the output from
// events rely on that.
func TestItemsBeginBeforeTheyEnd(t *testing.T) {
	p := endedPart(
		"text",
		asks("65f0a1b2c3d4e5f601234568", lifecycle.Clarification, "f"),
		asks(
			"65f0a1b2c3d4e5f601234569",
			lifecycle.Approval,
			"g",
		),
		asks("65f0a1b2c3d4e5f60123456a", lifecycle.Clarification, ""),
	)
	open := map[int]string{}
	next := 0
	for _, e := range eventsAfter(t, p, -1, "te") {
		switch {
		case e.Type == "response.output_item.added":
			assert.Equal(t, next, *e.OutputIndex)
			assert.NotEmpty(t, e.Item.ID)
			open[next] = e.Item.ID
			next++
		case e.OutputIndex != nil:
			id := e.ItemID
			if e.Item != nil {
				id = e.Item.ID
			}
			assert.Equal(t, open[*e.OutputIndex], id, e.Type)
			if e.Type == "response.output_item.done" {
				delete(open, *e.OutputIndex)
			}
		}
	}
	assert.Empty(t, open)
	assert.Equal(t, 4, next)
}

// An answer has all members of its format, also those that the request left out: clients read it as a shape of its own.
func TestTheFormatOfAnAnswerIsWhole(t *testing.T) {
	const bare = `{"type":"json_schema","name":"n","schema":{"type":"array"}}`
	for format, want := range map[string]string{
		`null`:                   `{"type":"text"}`,
		`{"type":"text"}`:        `{"type":"text"}`,
		`{"type":"json_object"}`: `{"type":"json_object"}`,
		bare: `{"type":"json_schema","name":"n","description":null,"schema":{"type":"array"},` +
			`"strict":false}`,
		`{"type":"json_schema","name":"n","schema":{},"description":"d","strict":true}`: `{"type":"json_schema",` +
			`"name":"n","description":"d","schema":{},"strict":true}`,
	} {
		p := endedPart("x")
		require.NoError(t, json.Unmarshal([]byte(format), &p.echo.Format))
		raw, err := json.Marshal((&Server{}).response(p).Text.Format)
		require.NoError(t, err)
		assert.JSONEq(t, want, string(raw), format)
	}
}

// Each citation is an event of its own, after the text and before the events that end it. A reader that was cut off
// between two of them gets the others.
func TestCitationsAreEventsBeforeTheTextEnds(t *testing.T) {
	p := endedPart("One [1], two [2].")
	p.result = &view.Result{Answer: p.text, Citations: []citation.Citation{
		{N: 1, Document: "d1", KnowledgeBase: "k", At: [][2]int{{4, 7}}},
		{N: 2, Document: "d2", KnowledgeBase: "k", At: [][2]int{{13, 16}}},
	}}
	all := eventsAfter(t, p, -1, "One [1],")
	var names []string
	var added []URLCitation
	cut := int64(0)
	for _, e := range all {
		names = append(names, strings.TrimPrefix(e.Type, "response."))
		if e.Annotation == nil {
			continue
		}
		assert.Equal(t, len(added), *e.AnnotationIndex)
		if added = append(added, *e.Annotation); len(added) == 1 {
			cut = e.Sequence
		}
	}
	assert.Equal(t, []string{
		"created", "in_progress", "output_item.added", "content_part.added", "output_text.delta", "output_text.delta",
		"output_text.annotation.added", "output_text.annotation.added", "output_text.done", "content_part.done",
		"output_item.done", "completed",
	}, names)
	whole := *(*all[len(all)-1].Response.Output[0].Content)[0].Annotations
	assert.Equal(t, whole, added)
	rest := eventsAfter(t, p, cut)
	require.Len(t, rest, 5)
	assert.Equal(t, &whole[1], rest[0].Annotation)
}

// A reader's citations may change from one read to the next. A reader that continues a stream after that gets the
// events that end it, all of them and none twice.
func TestAStreamWhoseCitationsChangeIsTakenUp(t *testing.T) {
	p := endedPart("One [2], two [1], three [2].")
	all := []citation.Citation{
		{N: 2, Document: "d2", KnowledgeBase: "k", At: [][2]int{{4, 7}, {24, 27}}},
		{N: 1, Document: "d1", KnowledgeBase: "k", At: [][2]int{{13, 16}}},
	}
	shown := func(hidden citation.Hidden) {
		p.result = &view.Result{Answer: p.text, Citations: citation.Visible(all, hidden)}
	}
	views := []citation.Hidden{{}, {"d1": "deleted"}, {"d2": "deleted"}, {"d1": "deleted", "d2": "deleted"}}
	ends := func(events []ResponseEvent) (names []string) {
		for _, e := range events {
			if e.Annotation == nil {
				names = append(names, e.Type)
			}
		}
		return names
	}
	for _, first := range views {
		shown(first)
		seen := eventsAfter(t, p, -1, p.text)
		for _, then := range views {
			shown(then)
			for n, e := range seen[:len(seen)-1] {
				rest := eventsAfter(t, p, e.Sequence, p.text)
				assert.Equal(t, ends(seen), ends(slices.Concat(seen[:n+1], rest)), "%s of %v, then %v", e.Type,
					first, then)
			}
		}
	}
}

// The final event of a stream that ends early directs its reader to the response, if there is one.
func TestAStreamThatEndsShortNamesHowToGoOn(t *testing.T) {
	const goOn = "the stream ended before the response: read it, or follow it"
	for want, s := range map[string]*Stream{
		goOn:                                  {after: -1, top: -1},
		goOn + " behind this sequence_number": {after: -1, top: 4},
		"the stream ends here":                {after: 4, top: -1, gone: true},
	} {
		e := s.Short()
		assert.Equal(t, want, e.Error.Message)
		assert.Equal(t, max(s.after, s.top, 0), e.Sequence)
	}
}
