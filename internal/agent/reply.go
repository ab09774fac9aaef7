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
	maxArguments = 2 << 20  // bytes, of all calls together
	maxQuestion  = 16 << 10 // bytes of a question to the user
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
// what the reply has used counts all the same. Of said bytes of text more may have come than the reply has.
func (s *session) take(step *record.Step, request model.Request, reply model.Reply, said int) (failure string) {
	step.Text = strings.ToValidUTF8(reply.Text, "\uFFFD")
	step.Finish, step.RequestID = short(reply.Finish, maxFinish), short(reply.RequestID, maxRequestID)
	step.InputTokens, step.OutputTokens = used(request, reply, said)
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

// used is what a call has used: what its reply claims, as far as that can be true.
func used(request model.Request, reply model.Reply, said int) (in, out int64) {
	asked := len(request.Instructions)
	for _, m := range request.Messages {
		asked += len(m.Text) + sizeOf(m.Calls)
		for _, t := range m.Texts {
			asked += len(t.Text)
		}
		for _, r := range m.Results {
			asked += len(r.Text)
		}
	}
	return likely(reply.InputTokens, asked), likely(reply.OutputTokens, max(said, len(reply.Text)+sizeOf(reply.Calls)))
}

func sizeOf(calls []model.Call) (size int) {
	for _, c := range calls {
		size += len(c.Name) + len(c.Arguments)
	}
	return size
}

// likely is a claim of how many tokens so many bytes are, or, where that cannot be, an estimate. A token is a byte at least,
// and seldom more than a word: who claims an eighth of what is usual, or less, has not counted.
func likely(claim int64, size int) int64 {
	if claim < int64(size+longToken-1)/longToken || claim > int64(size)+maxUnseen {
		return estimate(size)
	}
	return claim
}

// estimate is about how many tokens a text has, by its bytes.
func estimate(size int) int64 { return int64(size+usualToken-1) / usualToken }

const (
	usualToken = 4              // bytes
	longToken  = 8 * usualToken // bytes; of a whole text
	maxUnseen  = 1 << 20        // tokens that no text shows: what was thought, pictures, what a provider adds
)
