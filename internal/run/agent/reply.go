package agent

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"agentplatform/internal/ai/model"
	"agentplatform/internal/ai/tool"
	"agentplatform/internal/platform/schema"
	"agentplatform/internal/platform/strictjson"
	"agentplatform/internal/store/record"
)

// Limits of a model's reply. A reply beyond them fails the run. Arguments beyond argumentLimits fail the call, and the
// model gets the error.
const (
	maxReply     = 4 << 20 // bytes of text
	maxCalls     = 256
	maxArguments = 2 << 20  // bytes of all calls together
	maxQuestion  = 16 << 10 // bytes of a question to the user
	maxOptions   = 100
	maxQuestions = 20      // questions of the server of a tool in one call
	maxShown     = 2 << 10 // bytes of invalid arguments that are journalled
	maxFinish    = 64      // bytes of a provider's finish reason
	maxRequestID = 200     // bytes
	maxName      = 2 * tool.MaxName
)

// noCall is the fault of a call that the client has ruled out. Some providers are sent the tools that the
// conversation has calls of, and models call what they are not offered.
const noCall = "tool calls are not allowed now"

// argumentLimits bound the arguments of one call.
var argumentLimits = strictjson.Limits{Bytes: 256 << 10, Depth: 64}

var tooMuchText = fmt.Sprintf("the model's reply is over %d MiB", maxReply>>20)

// take validates a reply and adds it to the journal as a step. It returns the reason why the run must fail, or "". The
// tokens of the reply count in both cases. streamed is the number of streamed bytes of text, which may be more than the
// reply has.
func (s *session) take(
	ctx context.Context, step *record.Step, request model.Request, reply model.Reply, streamed int,
) (failure string) {
	step.Text = strings.ToValidUTF8(reply.Text, "\uFFFD")
	step.Finish, step.RequestID = short(reply.Finish, maxFinish), short(reply.RequestID, maxRequestID)
	in, out := used(request, reply, streamed)
	step.InputTokens += in // beside what failed attempts used
	step.OutputTokens += out
	size := 0
	for _, c := range reply.Calls {
		size += len(c.Arguments)
	}
	switch {
	case len(reply.Text) > maxReply:
		step.Text, failure = strings.ToValidUTF8(reply.Text[:maxReply], "\uFFFD"), tooMuchText
	case len(reply.Calls) > maxCalls:
		failure = fmt.Sprintf("the model requested %d calls in one reply; the limit is %d", len(reply.Calls), maxCalls)
	case size > maxArguments:
		failure = fmt.Sprintf("the model's calls have %d bytes of arguments; the limit is %d", size, maxArguments)
	default:
		for n, c := range reply.Calls {
			if n > 0 && s.Options.OneCall {
				break
			}
			c.Arguments = meant(ctx, c, request.Tools)
			call := callOf(n, c, s.labels)
			if offer, known := s.find(call.Name); known {
				call.Source, call.Fingerprint = offer.Source, offer.Fingerprint
			}
			if s.NoTools {
				call.Fault = noCall
			}
			step.Calls = append(step.Calls, call)
		}
	}
	if failure == "" && len(step.Calls) == 0 && s.wanted != nil && s.answers < repairs {
		_, fault := s.structured(ctx, *step)
		step.Withdrawn = fault != nil && ctx.Err() == nil
	}
	s.add(*step)
	return failure
}

// meant returns the arguments of a call as the model meant them. Some models write an object as a text in JSON. Many
// models write null, an empty text or an empty list for no arguments. For a tool that needs none, these count as no
// arguments.
func meant(ctx context.Context, c model.Call, tools []model.ToolSpec) json.RawMessage {
	text := strings.TrimSpace(string(c.Arguments))
	if inner := ""; json.Unmarshal(c.Arguments, &inner) == nil { // a text in JSON, or null
		text = strings.TrimSpace(inner)
	}
	if strings.HasPrefix(text, "{") {
		return json.RawMessage(text)
	}
	none := json.RawMessage(`{}`)
	empty := model.Blank(text) || text == "null" || text == "[]"
	at := slices.IndexFunc(tools, func(t model.ToolSpec) bool { return t.Name == c.Name })
	if !empty || at < 0 || schema.Fits(ctx, tools[at].Parameters, none) != nil {
		return c.Arguments
	}
	return none
}

// short makes a provider's string storable: valid UTF-8 of at most most bytes.
func short(word string, most int) string { return tool.Clip(strings.ToValidUTF8(word, "\uFFFD"), most) }

// callOf is a call for the journal, with an id of ours and arguments in the normal form. If the arguments are invalid,
// Fault has the reason.
func callOf(n int, c model.Call, labels map[string]bool) record.Call {
	call := record.Call{ID: strconv.Itoa(n), Name: short(c.Name, maxName)}
	if validID.MatchString(c.ID) && !generatedID.MatchString(c.ID) && !labels[c.ID] {
		call.Label = c.ID
		labels[c.ID] = true
	}
	var err error
	if call.Arguments, err = strictjson.Object(c.Arguments, argumentLimits); err != nil {
		call.Fault = err.Error()
		call.Arguments, _ = json.Marshal(short(string(c.Arguments), maxShown)) // shown to people
	}
	return call
}

var (
	validID     = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`) // an id that every provider accepts
	generatedID = regexp.MustCompile(`^call_[0-9]+-[0-9]+$`)
)

// label is the id of a call that the model sees: its own id if that is unique in the run, otherwise a generated one.
func label(step int, c record.Call) string {
	if c.Label != "" {
		return c.Label
	}
	return "call_" + callKey(step, c.ID)
}

// used returns the tokens of a call: the numbers of the reply if they are plausible for the sizes of request and reply.
func used(request model.Request, reply model.Reply, streamed int) (in, out int64) {
	answered := model.Message{Text: reply.Text, Calls: reply.Calls}
	return plausible(reply.InputTokens, len(request.Instructions)+model.Size(request.Messages...)),
		plausible(reply.OutputTokens, max(streamed, model.Size(answered)))
}

// spend adds the tokens of an attempt without a reply to a step: as its provider has reported, or an estimate for the
// request and the received text. An attempt that the provider refused, or that did not reach it, used nothing.
func spend(step *record.Step, request model.Request, reply model.Reply, streamed int, err error) {
	reply = model.Reply{InputTokens: reply.InputTokens, OutputTokens: reply.OutputTokens} // the rest means nothing
	if reply.InputTokens > 0 || reply.OutputTokens > 0 || streamed > 0 || model.Begun(err) {
		in, out := used(request, reply, streamed)
		step.InputTokens += in
		step.OutputTokens += max(out, estimate(streamed)) // a report of Anthropic's covers the beginning
	}
}

// plausible returns claim, a reported number of tokens of size bytes, or an estimate if the claim is implausible. A
// token has at least one byte and seldom more than a word. A claim of an eighth of the usual number, or less, was not
// counted.
func plausible(claim int64, size int) int64 {
	if claim < int64(size+longToken-1)/longToken || claim > int64(size)+maxUnseen {
		return estimate(size)
	}
	return claim
}

// estimate is the approximate number of tokens of a text of size bytes.
func estimate(size int) int64 { return int64(size+usualToken-1) / usualToken }

const (
	usualToken = 4              // bytes
	longToken  = 8 * usualToken // bytes; the highest plausible average of a text
	maxUnseen  = 1 << 20        // tokens beyond the text: reasoning, pictures, additions of the provider
)
