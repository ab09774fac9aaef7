package sim

import (
	"context"
	"encoding/json"
	"regexp"
	"strings"

	"agentplatform/internal/ai/model"
	"agentplatform/internal/store/record"
)

// hasVoice reports whether the models of a seed's world write texts next to their calls, empty replies, and structured
// answers that do not fit. That is so in one of eight worlds.
func hasVoice(seed uint64) bool { return seed%8 == 6 }

// voiced is the provider of such models. cities is the schema of the answers of half of the agents.
const (
	voiced = "voice"
	cities = `{"type":"object","properties":{"city":{"type":"string"}},"required":["city"],` +
		`"additionalProperties":false}`
)

// voice is a model that makes the calls of another and writes its own texts.
type voice struct {
	model.Model

	world *world
}

var (
	beginnings = []string{"", "", "\n", "\u00A0", "I look. ", "\n\n# A heading", "so\n", "first:\n\n", "    code"}
	blanks     = []string{"", "", " \n", "\u00A0", "\u200B"}
	unfitting  = []string{"It is Oslo.", `{"town":"Oslo"}`, "", " \n", `{"city":`}
	fitting    = []string{`{"city":"Oslo"}`, "\n{\"city\":\"Rome\"}", "```json\n{\"city\":\"Oslo\"}\n```"}
)

// Converse implements [model.Model].
func (v *voice) Converse(ctx context.Context, r model.Request, emit func(string)) (model.Reply, error) {
	work := v.world.work
	structured := strings.Contains(r.Instructions, cities)
	again := v.objected(r)
	text, begin := "", ""
	switch odd := work.IntN(3) == 0; {
	case structured && odd:
		text = unfitting[work.IntN(len(unfitting))]
	case structured:
		text = fitting[work.IntN(len(fitting))]
	case odd || again && work.IntN(2) == 0:
		text = blanks[work.IntN(len(blanks))]
	default:
		begin = beginnings[work.IntN(len(beginnings))]
	}
	emit(begin)
	reply, err := v.Model.Converse(ctx, r, func(string) {})
	switch {
	case err != nil:
		return reply, err
	case len(reply.Calls) > 0 && structured: // a text before calls is not an answer
		text = beginnings[work.IntN(len(beginnings))]
	case begin != "":
		text = reply.Text
	}
	emit(text)
	reply.Text = begin + text
	return reply, nil
}

// mark matches the beginning of messages, which distinguishes their runs.
var mark = regexp.MustCompile(`(?m)^#\d+$`)

// objected reports whether a request asks for a better answer. It checks that the earlier answer is journalled.
// Otherwise an attempt that takes over would ask again.
func (v *voice) objected(r model.Request) bool {
	of := ""
	for _, m := range r.Messages {
		if found := mark.FindString(m.Text); m.Role == model.User && found != "" {
			of = found
		}
	}
	last := r.Messages[len(r.Messages)-1]
	if last.Role != model.User || mark.MatchString(last.Text) || !strings.Contains(last.Text, "empty") &&
		!strings.Contains(last.Text, "does not fit") {
		return false
	}
	c := v.world.checker
	for _, id := range sortedKeys(c.runs) {
		in, err := c.store().Input(context.Background(), c.runs[id])
		if err != nil || mark.FindString(in.Message) != of {
			continue
		}
		steps, err := c.store().Journal(context.Background(), id)
		must(err)
		if _, answers := written(steps); answers > 0 {
			return true
		}
	}
	c.violated(34, "a model is asked to replace its answer to %s, which is not journalled", of)
	return true
}

// written returns the texts that readers should receive for steps, each after a blank line, and how often the model has
// answered.
func written(steps []record.Step) (texts []string, answers int) {
	answer := ""
	for _, step := range steps {
		if step.Kind != record.ModelStep {
			continue
		}
		if answer = ""; len(step.Calls) == 0 {
			answer = step.Text
			answers++
			continue
		}
		texts = append(texts, step.Text)
	}
	texts = append(texts, answer)
	var shown []string
	for _, text := range texts {
		if text = strings.Trim(text, " \n\u00A0\u200B"); text != "" {
			shown = append(shown, text)
		}
	}
	return shown, answers
}

// breaks are blank lines, with the white space around them.
var breaks = regexp.MustCompile(`[ \x{00A0}\x{200B}]*\n[ \x{00A0}\n]*\n[ \x{00A0}]*`)

// texts checks the answer of a run: it is the texts of its steps, as paragraphs, without an answer that was replaced.
// The model may have been asked to replace one at most.
func (c *checker) texts(r record.Run) {
	steps, err := c.store().Steps(context.Background(), r)
	must(err)
	raw, err := c.store().Output(context.Background(), r)
	must(err)
	var result struct{ Answer string }
	must(json.Unmarshal(raw, &result))
	answer := result.Answer
	want, answers := written(steps)
	got := breaks.ReplaceAllString(strings.Trim(answer, " \n\u00A0\u200B"), "\n\n")
	if joined := breaks.ReplaceAllString(strings.Join(want, "\n\n"), "\n\n"); got != joined {
		c.violated(34, "the answer of run %s is %q, and its steps say %q", r.ID(), answer, want)
	}
	if answers > 2 {
		c.violated(34, "the model of run %s has answered %d times", r.ID(), answers)
	}
	if strings.Contains(answer, "\n\n\n\n") {
		c.violated(34, "the answer of run %s has holes: %q", r.ID(), answer)
	}
}
