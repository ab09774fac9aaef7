package demomodel_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"agentplatform/internal/ai/model"
	"agentplatform/internal/ai/model/demomodel"
	"agentplatform/internal/ai/model/modeltest"
	"agentplatform/internal/platform/host"
)

func TestAFailedCallReturnsItsUsage(t *testing.T) {
	for text, cancels := range map[string]bool{"one two\n/stream 9 1h": true, "one two\n/sleep 1h": true,
		"one two\n/fail": false} {
		ctx, cancel := context.WithCancel(t.Context())
		reply, err := demomodel.New(host.System()).Converse(ctx,
			model.Request{Messages: []model.Message{{Role: model.User, Text: text}}}, func(string) {
				if cancels {
					cancel()
				}
			})
		cancel()
		require.Error(t, err)
		assert.EqualValues(t, len(strings.Fields(text)), reply.InputTokens)
		assert.Positive(t, reply.OutputTokens, text)
	}
}

func TestContract(t *testing.T) {
	modeltest.Run(t, modeltest.Harness{
		Model: demomodel.New(host.System()), Talk: "several words to say", Call: `/tool echo {"text":"hi"}`,
		Ask: "/ask Which?", Fail: "/fail no",
		Flaky: "x\n/flaky 1", Slow: "/sleep 20s", Takes: 20 * time.Second,
	})
}

// answer plays all rounds of a message, with results for its calls, and joins the texts by line ends.
func answer(t require.TestingT, message string) (text string, rounds [][]string) {
	m := demomodel.New(host.System())
	messages := []model.Message{{Role: model.User, Text: message}}
	for range 50 {
		streamed := ""
		emit := func(s string) { streamed += s }
		reply, err := m.Converse(context.Background(), model.Request{Messages: messages}, emit)
		require.NoError(t, err)
		if text != "" && streamed != "" {
			text += "\n"
		}
		text += streamed
		if len(reply.Calls) == 0 {
			return text, rounds
		}
		assistant := model.Message{Role: model.Assistant, Text: reply.Text, Calls: reply.Calls}
		results := model.Message{Role: model.Tool}
		var names []string
		for _, c := range reply.Calls {
			names = append(names, c.Name)
			outcome := model.Succeeded
			if c.Name == model.AskUser {
				outcome = model.Answered
			}
			results.Results = append(results.Results,
				model.Result{CallID: c.ID, Name: c.Name, Outcome: outcome, Text: "R"})
		}
		rounds = append(rounds, names)
		messages = append(messages, assistant, results)
	}
	require.Fail(t, "it never came to an end")
	return "", nil
}

func TestEachDirectiveHasItsEffect(t *testing.T) {
	for _, c := range []struct {
		message, text string
		rounds        [][]string
	}{
		{"hello", "You said: hello", nil},
		{"two\nlines", "You said: two\nlines", nil},
		{"/stream 3 0ms", "1 2 3", nil},
		{"a\n/stream 2 0ms\nb", "You said: a\nb\n1 2", nil},
		{"/tool x {}", "x → R", [][]string{{"x"}}},
		{"/tool x {}\n/ask q\n/tool y", "x → R\nAnswer: R\ny → R", [][]string{{"x", "ask_user", "y"}}},
		{"/tool x {}\nbetween\n/tool y {}", "You said: between\nx → R\ny → R", [][]string{{"x"}, {"y"}}},
		{"/tool x {}\n/stream 1 0s\n/tool y {}", "x → R\n1\ny → R", [][]string{{"x"}, {"y"}}},
		{"/search things\n/tool x {}", "search → R\nx → R", [][]string{{"search"}, {"x"}}},
		{"windows\r\n/stream 1 0s\r\n", "You said: windows\n1", nil},
		{"/unknown x", "unknown → error: unknown direction", nil},
		{"/sleep soon", `sleep → error: "soon" is not a duration`, nil},
		{"/stream many", `stream → error: "many" is not a count and a duration`, nil},
		{"", "", nil},
	} {
		text, rounds := answer(t, c.message)
		assert.Equal(t, c.text, text, c.message)
		assert.Equal(t, c.rounds, rounds, c.message)
	}
}

func TestSleepAndStreamWaitOnTheClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		_, err := demomodel.New(host.System()).Converse(t.Context(), model.Request{
			Messages: []model.Message{{Role: model.User, Text: "/sleep 1500ms\n/stream 50 20ms"}},
		}, func(string) {})
		require.NoError(t, err)
		assert.Equal(t, 1500*time.Millisecond+49*20*time.Millisecond, time.Since(began))
	})
}

// For any message, each line that is not a directive is echoed once and in order. The same message gives the same
// answer.
func TestEveryLineIsEchoedOnceInOrder(t *testing.T) {
	line := rapid.SampledFrom([]string{"word", "two words", "/tool x {}", "/ask q", "/stream 2 0s", "/search s", "/bad",
		"täxt ☃"})
	rapid.Check(t, func(r *rapid.T) {
		lines := rapid.SliceOfN(line, 1, 8).Draw(r, "lines")
		var spoken []string
		for _, l := range lines {
			if !strings.HasPrefix(l, "/") {
				spoken = append(spoken, l)
			}
		}
		one, _ := answer(t, strings.Join(lines, "\n"))
		two, _ := answer(t, strings.Join(lines, "\n"))
		if one != two {
			r.Fatalf("%q and %q", one, two)
		}
		want := "You said: " + strings.Join(spoken, "\n")
		if len(spoken) == 0 {
			want = ""
		}
		if !strings.HasPrefix(one, want) || strings.Count(one, "You said: ") > 1 {
			r.Fatalf("%q does not begin with %q", one, want)
		}
	})
}
