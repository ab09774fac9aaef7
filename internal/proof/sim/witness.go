package sim

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"agentplatform/internal/ai/model"
	"agentplatform/internal/core/lifecycle"
	"agentplatform/internal/store/record"
)

// witness is a model that checks its request before another model answers.
type witness struct {
	model.Model

	world *world
}

func (w witness) Converse(ctx context.Context, r model.Request, emit func(string)) (model.Reply, error) {
	w.world.checker.requested(r)
	return w.Model.Converse(ctx, r, emit)
}

// numbered returns a unique message.
func (w *world) numbered(text string) string {
	w.sent++
	return fmt.Sprintf("#%d\n%s", w.sent, text)
}

// requested checks the conversation that a model receives. It has the earlier turns, each once and in order, with the
// user's words and the end. It has each call with the arguments of its tool.
func (c *checker) requested(r model.Request) {
	own := -1
	for i, m := range r.Messages {
		if m.Role == model.User && strings.HasPrefix(m.Text, "#") {
			own = i
		}
	}
	if own < 0 {
		return
	}
	run, found := c.runs[c.messages[r.Messages[own].Text]]
	if !found || run.Status != lifecycle.Running {
		return // it has ended, and its worker does not know yet
	}
	c.history(run, r.Messages[:own], r.Attempt == 0 && own == len(r.Messages)-1)
	c.calls(run, r.Messages[own+1:])
}

// past is an earlier turn: the user's words with the names of files, and the end that the model must receive.
type past struct {
	run, words, end string
	answered        bool
	whole           bool // the end is the whole last message, otherwise its beginning
}

// before returns the ended turns of a run's chat, oldest first, as they are stored now.
func (c *checker) before(run record.Run) (turns []past) {
	for id := run.Previous; id != ""; {
		e, err := c.store().Link(context.Background(), id)
		if err != nil {
			break
		}
		r := e.Value
		if id = r.Previous; r.Removed || r.Refused || r.Epoch != run.Epoch { // a refused one is only a line
			continue
		}
		in, err := c.store().Input(context.Background(), r)
		if err != nil {
			continue // it is being removed
		}
		one := past{run: r.ID(), words: in.Message, answered: r.Status == lifecycle.Completed}
		one.end = map[lifecycle.Status]string{
			lifecycle.Completed: "[This turn ended", lifecycle.Failed: "[This turn failed",
			lifecycle.TimedOut: "[This turn ran out of time", lifecycle.Cancelled: "[This turn was cancelled",
		}[r.Status]
		for i, f := range in.Files {
			one.words += map[bool]string{true: "\n\n[Attached, and not shown again: ", false: ", "}[i == 0] + f.Name
		}
		if len(in.Files) > 0 {
			one.words += "]"
		}
		if one.answered {
			var result struct {
				Answer string `json:"answer"`
			}
			out, _ := c.store().Output(context.Background(), r)
			_ = json.Unmarshal(out, &result)
			if one.whole = !model.Blank(result.Answer); one.whole {
				one.end = result.Answer
			}
		}
		turns = append(turns, one)
	}
	slices.Reverse(turns)
	return turns
}

// history checks the messages before a run's own. If whole is set, nothing has been left out.
func (c *checker) history(run record.Run, shown []model.Message, whole bool) {
	turns, next, words := c.before(run), 0, 0
	for _, one := range turns {
		if !one.answered {
			words += len(one.words)
		}
	}
	// rights may hide turns, and long content is bounded
	whole = whole && c.world.powers == nil && len(turns) < 45 && words < 50_000
	missing := func(upTo int) {
		for _, one := range turns[next:upTo] {
			if whole || one.answered && c.world.powers == nil && len(turns) < 45 && words < 50_000 {
				c.violated(33, "run %s is not shown the turn %.40q of its chat", run.ID(), one.words)
			}
		}
	}
	for i, m := range shown {
		if m.Role != model.User || !strings.HasPrefix(m.Text, "#") {
			continue
		}
		at := slices.IndexFunc(turns, func(one past) bool { return one.words == m.Text })
		if at < 0 {
			continue // it was removed since
		}
		if at < next {
			c.violated(33, "run %s is shown the turn %.40q twice, or behind a later one", run.ID(), m.Text)
			continue
		}
		missing(at)
		c.checkShown(run, turns[at].run)
		next = at + 1
		end := ""
		for _, m := range shown[i+1:] {
			if m.Role == model.User {
				break
			}
			end = m.Text
		}
		if one := turns[at]; !strings.HasPrefix(end, one.end) || one.whole && end != one.end {
			c.violated(33, "run %s is shown %.60q as the end of %.40q, which is %.60q", run.ID(), end, m.Text, one.end)
		}
	}
	missing(len(turns))
}

// calls checks the calls of a run in its model's request.
func (c *checker) calls(run record.Run, shown []model.Message) {
	steps, err := c.store().Journal(context.Background(), run.ID())
	must(err)
	pauses, _, err := c.store().Pauses(context.Background(), run.ID())
	must(err)
	done, unsure := map[string]record.Step{}, map[string]bool{} // by the keys of calls
	for _, i := range slices.Concat(pauses...) {
		unsure[i.Call] = unsure[i.Call] || i.Unsure
	}
	var asks []record.Step
	for _, step := range steps {
		if step.Kind == record.ToolStep {
			done[step.CallID] = step
		} else if step.Kind == record.ModelStep && len(step.Calls) > 0 {
			asks = append(asks, step)
		}
	}
	for i, m := range shown {
		if m.Role != model.Assistant || len(m.Calls) == 0 || len(asks) == 0 {
			continue
		}
		for n, call := range m.Calls {
			key := fmt.Sprintf("%d-%d", asks[0].Index, n)
			used, made := c.made[run.ID()+"-"+key]
			if !made || done[key].Outcome != string(model.Succeeded) {
				continue
			}
			if used != string(call.Arguments) {
				c.violated(32, "call %s of run %s is shown with %s, and its tool was called with %s", key, run.ID(),
					call.Arguments, used)
			}
			results := shown[min(i+1, len(shown)-1)].Results
			edited := used != string(asks[0].Calls[n].Arguments)
			if n < len(results) && (edited || unsure[key]) != (results[n].Note != "") {
				c.violated(32, "call %s of run %s was edited: %v, or begun before: %v, and is noted so: %q", key,
					run.ID(), edited, unsure[key], results[n].Note)
			}
		}
		asks = asks[1:]
	}
}
