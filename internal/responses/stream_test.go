package responses

import (
	"encoding/json"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/events"
	"agentplatform/internal/lifecycle"
	"agentplatform/internal/record"
)

const run = "65f0a1b2c3d4e5f601234567"

// told is a response that has ended, with a text and what its pause asks for.
func told(text string, asked ...record.Interrupt) *part {
	p := &part{ref: ref{run: run}, text: text, asked: asked, warmth: 1}
	p.of.RunID, p.of.Status = run, lifecycle.Completed
	return p
}

func asks(id string, kind lifecycle.InterruptKind, tool string) record.Interrupt {
	i := record.Interrupt{Interrupt: events.Interrupt{ID: id, Kind: string(kind), Prompt: "Which?"}}
	if tool != "" {
		i.Tool = &events.InterruptTool{Name: tool, Arguments: json.RawMessage(`{"a":1}`)}
	}
	return i
}

// heard is what a reader hears of a response who has seen the event with the number after; pieces are how its text
// comes to the process.
func heard(t *testing.T, p *part, after int64, pieces ...string) (list []ResponseEvent) {
	t.Helper()
	f := &follower{Server: &Server{}, part: p, after: after, next: 2, emit: func(e ResponseEvent) error {
		list = append(list, e)
		return nil
	}}
	f.sent = int(max(after-beforeText, 0))
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

// However the text was cut into pieces, and whichever event a reader has seen last, the events after it complete what
// it has: the same text, the same items, one end.
func TestAStreamIsTakenUpBehindAnyEvent(t *testing.T) {
	for range 300 {
		text := []string{"", "a", "Grüße, 世界 🌍!", strings.Repeat("so ", 50)}[rand.IntN(4)]
		asked := [][]record.Interrupt{
			nil, {asks("65f0a1b2c3d4e5f601234568", lifecycle.Clarification, "")},
			{asks("65f0a1b2c3d4e5f601234568", lifecycle.Clarification, "f"), asks("65f0a1b2c3d4e5f601234569", lifecycle.Approval, "g")},
		}[rand.IntN(3)]
		p := told(text, asked...)
		first := heard(t, p, -1, split(text)...)
		last := int64(-1)
		for _, e := range first {
			require.Greater(t, e.Sequence, last)
			last = e.Sequence
		}
		n := rand.IntN(len(first))
		rest := heard(t, p, first[n].Sequence, split(text)...)
		both := append(first[:n+1:n+1], rest...)
		said := ""
		for _, e := range both {
			if e.Type == "response.output_text.delta" && e.ItemID == "msg_"+run {
				said += *e.Delta
			}
		}
		assert.Equal(t, text, said)
		var ends, done []string
		for _, e := range both {
			if e.Type == "response.completed" {
				ends = append(ends, e.Response.ID)
				assert.Len(t, e.Response.Output, len(asked)+min(len(text), 1))
			}
			if e.Type == "response.output_item.done" {
				done = append(done, e.Item.ID)
			}
		}
		assert.Len(t, ends, 1)
		assert.Len(t, done, len(asked)+min(len(text), 1))
	}
}

// A text that is replaced, because a model call was made again, is whole in the event that ends it.
func TestAReplacedTextIsWholeAtItsEnd(t *testing.T) {
	for _, pieces := range [][]string{{"a longer text than before"}, {"other ", "words"}, {""}} {
		list := heard(t, told("the answer"), -1, pieces...)
		i := len(list) - 4
		assert.Equal(t, "response.output_text.done", list[i].Type)
		assert.Equal(t, "the answer", *list[i].Text)
		assert.Equal(t, "the answer", *(*list[i+3].Response.Output[0].Content)[0].Text)
	}
}

// Every item begins before it ends, and every event is of an item that has begun: what clients that build the output
// from events rely on.
func TestItemsBeginBeforeTheyEnd(t *testing.T) {
	p := told("text", asks("65f0a1b2c3d4e5f601234568", lifecycle.Clarification, "f"),
		asks("65f0a1b2c3d4e5f601234569", lifecycle.Approval, "g"), asks("65f0a1b2c3d4e5f60123456a", lifecycle.Clarification, ""))
	open := map[int]string{}
	next := 0
	for _, e := range heard(t, p, -1, "te") {
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
