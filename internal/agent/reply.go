package agent

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"agentplatform/internal/model"
	"agentplatform/internal/record"
	"agentplatform/internal/strictjson"
	"agentplatform/internal/tool"
)

// The bounds of a model's reply. One that is beyond them ends the run; arguments that are beyond theirs are the model's
// fault, which it is told.
const (
	maxReply     = 4 << 20 // bytes of text
	maxCalls     = 256
	maxArguments = 2 << 20   // bytes, of all calls together
	maxTokens    = 100 << 20 // that a reply may claim to have used
	maxQuestion  = 16 << 10  // bytes of a question to the user
	maxOptions   = 100
	maxShown     = 2 << 10 // bytes of arguments that nobody can read, as they are journalled
	maxFinish    = 64      // bytes of what a provider calls the end
	maxRequestID = 200     // bytes
	maxName      = 2 * tool.MaxName
)

// argumentLimits are those of one call.
var argumentLimits = strictjson.Limits{Bytes: 256 << 10, Depth: 64}

var tooMuchText = fmt.Sprintf("the model's reply is over %d MiB", maxReply>>20)

// take checks a reply and makes it the journal's next step. It says why the run cannot go on with it, if it cannot;
// what the reply has used counts all the same.
func (s *session) take(step *record.Step, request model.Request, reply model.Reply) (failure string) {
	step.Text = strings.ToValidUTF8(reply.Text, "\uFFFD")
	step.Finish, step.RequestID = short(reply.Finish, maxFinish), short(reply.RequestID, maxRequestID)
	step.InputTokens, step.OutputTokens = used(request, reply)
	size := 0
	for _, c := range reply.Calls {
		size += len(c.Arguments)
	}
	switch {
	case len(reply.Text) > maxReply:
		step.Text, failure = strings.ToValidUTF8(reply.Text[:maxReply], "\uFFFD"), tooMuchText
	case len(reply.Calls) > maxCalls:
		failure = fmt.Sprintf("the model asked for %d calls at once, it may for %d", len(reply.Calls), maxCalls)
	case size > maxArguments:
		failure = fmt.Sprintf("the model's calls have %d bytes of arguments, they may have %d", size, maxArguments)
	default:
		labels := s.labels()
		for n, c := range reply.Calls {
			call := callOf(n, c, labels)
			if offer, known := s.find(call.Name); known {
				call.Source, call.Fingerprint = offer.Source, offer.Fingerprint
			}
			step.Calls = append(step.Calls, call)
		}
	}
	s.add(*step)
	return failure
}

// short is a word of a provider, as it can be stored.
func short(word string, most int) string { return tool.Clip(strings.ToValidUTF8(word, "\uFFFD"), most) }

// callOf is a call as it is journalled: under an id that is ours, with arguments that have one meaning.
func callOf(n int, c model.Call, labels map[string]bool) record.Call {
	call := record.Call{ID: strconv.Itoa(n), Name: short(c.Name, maxName)}
	if wellFormed.MatchString(c.ID) && !oursAlike.MatchString(c.ID) && !labels[c.ID] {
		call.Label = c.ID
		labels[c.ID] = true
	}
	var err error
	if call.Arguments, err = strictjson.Object(c.Arguments, argumentLimits); err != nil {
		call.Fault = err.Error()
		call.Arguments, _ = json.Marshal(short(string(c.Arguments), maxShown)) // for people to see
	}
	return call
}

var (
	wellFormed = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`) // an id that every provider takes
	oursAlike  = regexp.MustCompile(`^call_[0-9]+-[0-9]+$`)
)

// label is the id under which the model is shown a call of its own: its own where that tells the calls of the run
// apart.
func label(step int, c record.Call) string {
	if c.Label != "" {
		return c.Label
	}
	return "call_" + callKey(step, c.ID)
}

// labels are the model's own ids that the run has by now.
func (s *session) labels() map[string]bool {
	labels := map[string]bool{}
	for _, step := range s.steps {
		for _, c := range step.Calls {
			labels[c.Label] = true
		}
	}
	return labels
}

// used is what a reply claims to have used. A claim that is negative or absurd, or that there was nothing, is none:
// then it is estimated, as budgets count it.
func used(request model.Request, reply model.Reply) (in, out int64) {
	in, out = reply.InputTokens, reply.OutputTokens
	none := in == 0 && out == 0
	if in < 0 || in > maxTokens || none {
		size := len(request.Instructions)
		for _, m := range request.Messages {
			size += len(m.Text)
			for _, t := range m.Texts {
				size += len(t.Text)
			}
			for _, r := range m.Results {
				size += len(r.Text)
			}
		}
		in = estimate(size)
	}
	if out < 0 || out > maxTokens || none {
		size := len(reply.Text)
		for _, c := range reply.Calls {
			size += len(c.Name) + len(c.Arguments)
		}
		out = estimate(size)
	}
	return in, out
}

// estimate is about how many tokens a text has, by its bytes.
func estimate(size int) int64 { return int64(size+3) / 4 }
