package agent_test

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/ai/model"
	"agentplatform/internal/ai/tool"
	"agentplatform/internal/run/agent"
	"agentplatform/internal/store/record"
)

// window is a model that accepts conversations of up to maxBytes bytes. It makes the given calls, one after the other.
type window struct {
	maxBytes int
	calls    []string // names
	shown    []model.Request
}

func sizeOfAll(messages []model.Message) (size int) {
	for _, m := range messages {
		size += len(m.Text) + len(m.Passages)
		for _, t := range m.Texts {
			size += len(t.Text)
		}
		for _, r := range m.Results {
			size += len(r.Text)
		}
	}
	return size
}

func (w *window) Converse(_ context.Context, r model.Request, _ func(string)) (model.Reply, error) {
	w.shown = append(w.shown, r)
	if sizeOfAll(r.Messages) > w.maxBytes {
		return model.Reply{}, model.Fail(model.TooLong, "it does not fit")
	}
	made := 0
	for _, m := range r.Messages {
		made += len(m.Results)
	}
	if made >= len(w.calls) {
		return model.Reply{Text: "done", Finish: "stop"}, nil
	}
	arguments := map[string]string{"act": `{"n":1}`, "search": `{"query":"q"}`}[w.calls[made]]
	return model.Reply{Calls: []model.Call{{ID: fmt.Sprint("c", made), Name: w.calls[made],
		Arguments: json.RawMessage(arguments)}}, Finish: "tool_calls"}, nil
}

// gives is a task with a tool that returns a text.
func gives(text string) func(*agent.Task) {
	return func(t *agent.Task) {
		offers(func(context.Context, tool.Invocation) (string, error) { return text, nil })(t)
	}
}

// A long result of the run itself once ended the run on a small window, even if everything else was left out.
func TestALongResultIsShownByItsBeginningAndEnd(t *testing.T) {
	long := "BEGINS" + strings.Repeat("é", 100_000) + "ENDS"
	turns := slices.Repeat([]model.Message{{Role: model.User, Text: "q"}, {Role: model.Assistant, Text: "a"}}, 50)
	for name, c := range map[string]struct {
		maxBytes, cut int
		history       []model.Message
	}{
		"a window of 100 KB":         {100_000, 16 << 10, nil},
		"a window of 10 KB":          {10_000, 4 << 10, nil},
		"a window of 2 KB":           {2_000, 1 << 10, nil},
		"a long chat, beside it":     {100_000, 16 << 10, turns},
		"a window that has it":       {300_000, 0, turns},
		"a result that is no longer": {17_000, 16 << 10, nil},
	} {
		t.Run(name, func(t *testing.T) {
			m := &window{maxBytes: c.maxBytes, calls: []string{"act"}}
			s := newStage(m, gives(long))
			s.task.History = c.history
			r := s.work(t)
			require.NotNil(t, r.Answer, r.Failure)
			last := r.All[len(r.All)-1]
			assert.Equal(t, c.cut, last.Shortened)
			text := m.shown[len(m.shown)-1].Messages
			result := text[len(text)-1].Results[0].Text
			assert.True(t, strings.HasPrefix(result, "BEGINS") && strings.HasSuffix(result, "ENDS"))
			if c.cut == 0 {
				assert.Equal(t, long, result)
				return
			}
			assert.Contains(t, result, "bytes of this result are left out here")
			assert.Less(t, len(result), c.cut+200)
			assert.Equal(t, long, r.All[1].Output, "the journal has it whole")
		})
	}
}

// A text that was cut once stays cut, also for a later attempt. A later result is cut in the same way.
func TestAnAttemptThatTakesOverShowsTheSame(t *testing.T) {
	m := &window{maxBytes: 60_000, calls: []string{"act", "act", "act"}}
	s := newStage(m, gives(strings.Repeat("x", 100_000)))
	s.task.History = []model.Message{{Role: model.User, Text: "q"}, {Role: model.Assistant, Text: "a"}}
	r := s.work(t)
	require.NotNil(t, r.Answer, r.Failure)
	require.Len(t, m.shown, 1+3+1+1, "three calls do not fit: the history, the whole result; then all do")
	for n, steps := range map[int]int{4: 4, 5: 6} { // requests, by the steps before them
		again := &window{maxBytes: m.maxBytes, calls: m.calls}
		takes := newStage(again, gives(strings.Repeat("x", 100_000)))
		takes.task.History, takes.task.Steps = s.task.History, slices.Clone(r.All[:steps])
		_, err := takes.Work(t.Context(), takes.task)
		require.NoError(t, err)
		assert.True(t, reflect.DeepEqual(m.shown[n].Messages, again.shown[0].Messages), "after %d steps", steps)
	}
}

// No text is cut that fits. If no text can be cut, the run fails after few calls.
func TestCuttingEnds(t *testing.T) {
	for name, s := range map[string]*stage{
		"nothing is long": newStage(&window{maxBytes: 100, calls: []string{"act"}}, gives(strings.Repeat("x", 900))),
		"all is cut":      newStage(&window{maxBytes: 100, calls: []string{"act"}}, gives(strings.Repeat("x", 90_000))),
	} {
		r := s.work(t)
		assert.Equal(t, "it does not fit", r.Failure, name)
		assert.LessOrEqual(t, len(s.Models["m"].(*window).shown), 5, name)
	}
}

// Passages are fenced one by one, so they are left out one by one.
func TestPassagesOfASearchStayWhole(t *testing.T) {
	var found []record.Source
	for n := range 40 {
		found = append(found, record.Source{Document: fmt.Sprint("d", n), Text: strings.Repeat("<ignore all> ", 80)})
	}
	m := &window{maxBytes: 18_000, calls: []string{"search"}}
	s := newStage(m, finds(found...))
	r := s.work(t)
	require.NotNil(t, r.Answer, r.Failure)
	text := m.shown[len(m.shown)-1].Messages
	lines := strings.Split(text[len(text)-1].Results[0].Text, "\n")
	require.Greater(t, len(lines), 3, "%.300s", lines)
	for n, line := range lines[:len(lines)-1] {
		var passage struct{ N int }
		require.NoError(t, json.Unmarshal([]byte(line), &passage))
		assert.Equal(t, n+1, passage.N)
	}
	assert.Equal(t, fmt.Sprintf("[%d more passages do not fit the context window]", 40-len(lines)+1),
		lines[len(lines)-1])
}

// passages are the results of a search: count passages, each of about size bytes.
func passages(count, size int) (found []record.Source) {
	for n := range count {
		found = append(found, record.Source{Document: fmt.Sprint("d", n), Text: strings.Repeat("<x> ", size/4)})
	}
	return found
}

// shownPassages are the numbers of the passages in a text, and the text after them.
func shownPassages(t *testing.T, text string) (numbers []int, rest string) {
	t.Helper()
	for line := range strings.Lines(text) {
		if rest += line; line[0] != '{' {
			continue
		}
		var passage struct {
			N    int
			Text string
		}
		require.NoError(t, json.Unmarshal([]byte(line), &passage), "%s", line)
		require.NotEmpty(t, passage.Text)
		numbers, rest = append(numbers, passage.N), ""
	}
	return numbers, rest
}

// Passages for the message were never cut: every message filled a small window, also the first of a chat.
func TestWhatWasFoundForTheMessageIsCut(t *testing.T) {
	file := model.Text{Name: "notes.txt", Text: "a file of the user"}
	for name, c := range map[string]struct{ maxBytes, count, size, cut, left int }{
		"some fit":     {6_000, 10, 1_500, 4 << 10, 2},
		"one fits":     {2_500, 10, 1_000, 1 << 10, 1},
		"none fits":    {2_500, 10, 3_000, 1 << 10, 1},
		"one, cut":     {2_500, 1, 60_000, 1 << 10, 1},
		"none is long": {60_000, 10, 1_500, 0, 10},
	} {
		t.Run(name, func(t *testing.T) {
			m := &window{maxBytes: c.maxBytes, calls: []string{"act"}}
			s := newStage(m, gives("fine"))
			finds(passages(c.count, c.size)...)(&s.task)
			s.task.Agent.Spec.Knowledge.Always = true
			s.task.Message.Texts = []model.Text{file}
			r := s.work(t)
			require.NotNil(t, r.Answer, r.Failure)
			require.Equal(t, c.cut, r.All[1].Shortened)
			last := m.shown[len(m.shown)-1].Messages
			assert.Equal(t, []model.Text{file}, last[0].Texts)
			numbers, rest := shownPassages(t, last[0].Passages)
			require.Len(t, numbers, c.left)
			assert.Equal(t, 1, numbers[0])
			if c.left < c.count {
				assert.Equal(t, fmt.Sprintf("[%d more passages do not fit the context window]", c.count-c.left), rest)
			} else {
				assert.Empty(t, rest)
			}
			again := &window{maxBytes: c.maxBytes, calls: m.calls}
			takes := newStage(again, gives("fine"))
			takes.task.Agent, takes.task.Message, takes.task.Search = s.task.Agent, s.task.Message, s.task.Search
			takes.task.Steps = slices.Clone(r.All[:len(r.All)-1])
			_, err := takes.Work(t.Context(), takes.task)
			require.NoError(t, err)
			assert.Equal(t, last, again.shown[0].Messages, "another attempt sends the same")
		})
	}
}

// A client's function with the name of the search is not the search: both ends of its output are kept.
func TestAFunctionThatIsCalledSearchHasNoPassages(t *testing.T) {
	long := `{"begins":"` + strings.Repeat("x", 50_000) + `","ends":1}`
	m := &window{maxBytes: 20_000, calls: []string{"search"}}
	s := newStage(m, func(t *agent.Task) {
		t.Functions = []record.Function{{Name: "search", Parameters: json.RawMessage(`{"type":"object"}`)}}
	})
	s.pause(t, record.Decision{Decision: "answer", Message: long})
	r := s.work(t)
	require.NotNil(t, r.Answer, r.Failure)
	last := m.shown[len(m.shown)-1].Messages
	result := last[len(last)-1].Results[0].Text
	assert.True(t, strings.HasPrefix(result, `{"begins"`) && strings.HasSuffix(result, `"ends":1}`), "%.200s", result)
}
