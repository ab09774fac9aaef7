package linear

import (
	"context"
	"fmt"
	"hash/maphash"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/anishathalye/porcupine"
)

// The kinds of messages, by the behaviour of their run.
const (
	quick = 'q' // it completes by itself
	long  = 'l' // it continues until it is cancelled
	asks  = 'a' // it pauses with a question, and completes when that is answered
)

var messages = map[rune]string{quick: "hello", long: "/sleep 10m", asks: "/ask Which?"}

// chatInput is a call.
type chatInput struct {
	what    string // post, followup, cancel, resume, get, list
	chat    string
	run     string
	kind    rune
	enqueue bool
}

// chatOutput is the response in the model's terms.
type chatOutput struct {
	what   string // run, parked, busy, full, ended, missing, refused, or a status
	run    string // that was started, answered, or is active; empty: unknown
	parked string
}

// chatState is the state of a chat. It is immutable.
type chatState struct {
	active  string
	kind    rune
	status  string // of the active run: queued, running, awaiting_input
	flagged bool   // a cancel was requested
	parked  []waiting
	ended   map[string]string

	// These are set when the state enters a book.
	name    string       // equal names mean equal states
	become  []*chatState // itself, and every state that it may reach without a client's call
	becomes map[*chatState]bool
}

type waiting struct {
	id   string
	kind rune
}

// book holds the states that the checker has reached. It reaches the same ones very often. So each is stored once, and
// its successors are computed once.
type book struct {
	mu     sync.Mutex
	states map[string]*chatState
	steps  map[chatStep][]any
}

type chatStep struct {
	from *chatState
	in   chatInput
	out  chatOutput
}

func (b *book) meet(s chatState) *chatState {
	name := s.words()
	if known, there := b.states[name]; there {
		return known
	}
	met := &s
	met.name, met.become, met.becomes = name, []*chatState{met}, map[*chatState]bool{met: true}
	b.states[name] = met
	for i := 0; i < len(met.become); i++ {
		for _, next := range met.become[i].hidden() {
			if next := b.meet(next); !met.becomes[next] {
				met.becomes[next] = true
				met.become = append(met.become, next)
			}
		}
	}
	return met
}

// step returns the states that a call with this response may lead to. There is none if the response is not possible. Of
// two states, one may reach the other without a call. Then only the earlier one is returned, as it allows everything
// that the other does.
func (b *book) step(from *chatState, in chatInput, out chatOutput) []any {
	b.mu.Lock()
	defer b.mu.Unlock()
	key := chatStep{from, in, out}
	if known, there := b.steps[key]; there {
		return known
	}
	var possible []*chatState
	for _, s := range from.become {
		if after, ok := s.step(in, out); ok {
			possible = append(possible, b.meet(after))
		}
	}
	var next []any
	for i, s := range possible {
		if !slices.ContainsFunc(possible[:i], func(earlier *chatState) bool { return earlier.becomes[s] }) &&
			!slices.ContainsFunc(possible[i+1:],
				func(other *chatState) bool { return other != s && other.becomes[s] }) {
			next = append(next, s)
		}
	}
	b.steps[key] = next
	return next
}

func (s chatState) words() string {
	var b strings.Builder
	fmt.Fprint(&b, s.active, string(s.kind), s.status, s.flagged, s.parked)
	ids := make([]string, 0, len(s.ended))
	for id, status := range s.ended {
		ids = append(ids, id+status)
	}
	slices.Sort(ids)
	return b.String() + strings.Join(ids, ",")
}

// end returns the state after the active run has ended. The first parked message becomes the active run.
func (s chatState) end(status string) chatState {
	ended := make(map[string]string, len(s.ended)+1)
	for k, v := range s.ended {
		ended[k] = v
	}
	ended[s.active] = status
	after := chatState{ended: ended}
	if len(s.parked) > 0 {
		after.active, after.kind, after.status, after.parked = s.parked[0].id, s.parked[0].kind, "queued", s.parked[1:]
	}
	return after
}

func (s chatState) with(status string) chatState {
	s.status = status
	return s
}

// hidden returns the states that may be reached in one step without a client's call.
func (s chatState) hidden() (list []chatState) {
	switch {
	case s.active == "":
	case s.flagged:
		list = append(list, s.end("cancelled"))
	case s.status == "queued":
		list = append(list, s.with("running"))
	case s.status == "running" && s.kind == quick:
		list = append(list, s.end("completed"))
	case s.status == "running" && s.kind == asks:
		list = append(list, s.with("awaiting_input"))
	}
	return list
}

func (s chatState) park(w waiting) chatState {
	s.parked = append(slices.Clone(s.parked), w)
	return s
}

func (s chatState) waits(run string) bool {
	return slices.ContainsFunc(s.parked, func(w waiting) bool { return w.id == run })
}

// step returns the state after a call with this response. ok is false if the response is not possible here.
func (s chatState) step(in chatInput, out chatOutput) (after chatState, ok bool) {
	_, ended := s.ended[in.run]
	switch in.what {
	case "post":
		return s.post(in, out)
	case "followup":
		switch {
		case s.waits(in.run):
			return s, out.what == "missing"
		case ended:
			return s, out.what == "ended"
		case len(s.parked) == 5:
			return s, out.what == "full"
		}
		return s.park(waiting{out.parked, in.kind}), out.what == "parked"
	case "cancel":
		switch {
		case s.waits(in.run):
			return s, out.what == "missing"
		case ended:
			return s, out.what == s.ended[in.run]
		case out.what == "cancelled": // a running run, when its worker is lost
			return s.end("cancelled"), true
		case s.status == "running":
			s.flagged = true
			return s, out.what == "running"
		}
		return s, false
	case "resume":
		switch {
		case s.waits(in.run):
			return s, out.what == "missing"
		case ended || s.status != "awaiting_input":
			return s, out.what == "refused"
		case out.what == "mismatch": // it paused between the client's two requests
			return s, true
		}
		s.status, s.kind = "queued", quick
		return s, out.what == "queued"
	case "get":
		switch {
		case s.waits(in.run):
			return s, out.what == "missing"
		case ended:
			return s, out.what == s.ended[in.run]
		}
		return s, out.what == s.status
	default: // list
		return s, out.run == s.active
	}
}

func (s chatState) post(in chatInput, out chatOutput) (chatState, bool) {
	_, known := s.ended[out.run]
	switch {
	case s.active == "":
		s.active, s.kind, s.status = out.run, in.kind, "queued"
		return s, out.what == "run" && !known
	case s.status == "awaiting_input":
		s.status, s.kind = "queued", quick
		return s, out.what == "run" && out.run == s.active
	case !in.enqueue:
		return s, out.what == "busy" && out.run == s.active
	case len(s.parked) == 5:
		return s, out.what == "full"
	}
	return s.park(waiting{out.parked, in.kind}), out.what == "parked" && (out.run == "" || out.run == s.active)
}

// ChatModel returns the sequential model of a chat.
func ChatModel() porcupine.Model {
	b := &book{states: map[string]*chatState{}, steps: map[chatStep][]any{}}
	empty, seed := b.meet(chatState{}), maphash.MakeSeed()
	m := porcupine.NondeterministicModel{
		Init: func() []any { return []any{empty} },
		Partition: func(history []porcupine.Operation) [][]porcupine.Operation {
			byChat := map[string][]porcupine.Operation{}
			for _, o := range history {
				chat := o.Input.(chatInput).chat
				byChat[chat] = append(byChat[chat], o)
			}
			var parts [][]porcupine.Operation
			for _, part := range byChat {
				parts = append(parts, part)
			}
			return parts
		},
		Step: func(state, input, output any) []any {
			return b.step(state.(*chatState), input.(chatInput), output.(chatOutput))
		},
		Equal: func(a, b any) bool { return a == b },
		Hash:  func(state any) uint64 { return maphash.String(seed, state.(*chatState).name) },
		DescribeOperation: func(input, output any) string {
			in, out := input.(chatInput), output.(chatOutput)
			return fmt.Sprintf("%s %s %c → %s %s %s", in.what, in.run, in.kind, out.what, out.run, out.parked)
		},
	}
	return m.ToModel()
}

// chatters are clients of a few chats; they share the ids of their runs.
type chatters struct {
	Service
	name string

	mu   sync.Mutex
	runs map[string][]string // by chat
}

func (c *chatters) learn(chat, run string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if run != "" && !slices.Contains(c.runs[chat], run) {
		c.runs[chat] = append(c.runs[chat], run)
	}
}

// recent returns one of the newest runs of a chat.
func (c *chatters) recent(chat string, random *rand.Rand) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	list := c.runs[chat]
	if len(list) == 0 {
		return ""
	}
	return list[max(0, len(list)-1-random.IntN(4))]
}

// Chats runs clients on chats of a new history and checks their observations. It fails if the service cannot be
// reached. A violation is in the Verdict.
func (s Service) Chats(ctx context.Context, seed uint64, clients, calls int) (Verdict, error) {
	c := &chatters{Service: s, name: fmt.Sprintf("h%d-%d", seed, time.Now().UnixNano()), runs: map[string][]string{}}
	chats := max(3, clients/3)
	list, err := beside(clients, seed, func(client int, random *rand.Rand, r *recorder) error {
		for n := range calls {
			in := chatInput{chat: fmt.Sprintf("%s-%d", c.name, random.IntN(chats)),
				kind: []rune{quick, quick, long, asks}[random.IntN(4)]}
			in.run = c.recent(in.chat, random)
			in.what = []string{"post", "post", "post", "followup", "cancel", "cancel", "resume", "get", "get", "get",
				"list", "list"}[random.IntN(12)]
			if in.run == "" && in.what != "list" {
				in.what = "post"
			}
			if in.what == "post" {
				in.run, in.enqueue = "", random.IntN(4) > 0
			}
			began := r.elapsed()
			out, err := c.do(ctx, in, fmt.Sprintf("%s-%d-%d", c.name, client, n))
			if err != nil {
				return err
			}
			r.note(client, began, in, out)
			if random.IntN(4) == 0 {
				c.learn(in.chat, out.parked)
			}
		}
		return nil
	})
	if err != nil {
		return Verdict{}, err
	}
	return check(ChatModel(), list, func(o porcupine.Operation) bool {
		switch o.Output.(chatOutput).what {
		case "busy", "full", "ended", "missing", "refused", "mismatch":
			return false
		}
		return true
	}), nil
}

// do makes a call and converts its response to the model's terms.
func (c *chatters) do(ctx context.Context, in chatInput, key string) (out chatOutput, err error) {
	var a answer
	switch in.what {
	case "post":
		conflict := "reject"
		if in.enqueue {
			conflict = "enqueue"
		}
		a, err = c.post(ctx, "", "agent_id", c.Agent, "message", messages[in.kind], "chat_id", in.chat, "wait", "false",
			"on_conflict", conflict, "idempotency_key", key)
	case "followup":
		a, err = c.send(ctx, "", http.MethodPost, "/runs/"+in.run+"/followups",
			object{"message": messages[in.kind], "idempotency_key": key})
	case "cancel":
		a, err = c.send(ctx, "", http.MethodPost, "/runs/"+in.run+"/cancel", object{})
	case "get":
		a, err = c.send(ctx, "", http.MethodGet, "/runs/"+in.run, nil)
	case "list":
		a, err = c.send(ctx, "", http.MethodGet, "/chats/"+in.chat+"/runs?active=true", nil)
	case "resume":
		return c.resume(ctx, in, key)
	}
	if err != nil {
		return out, err
	}
	if parked, ok := a.body["parked"].(object); ok && (in.what == "post" || in.what == "followup") {
		out = chatOutput{what: "parked", run: a.text("run_id"), parked: parked["parked_id"].(string)}
		if a.replayed { // it may be paused for another reason by now
			out.run = ""
		}
		return out, nil
	}
	switch code := a.text("code"); {
	case code == "not_found" && in.what == "list":
		return chatOutput{}, nil // no message has made the chat yet
	case code == "not_found":
		return chatOutput{what: "missing"}, nil
	case code == "chat_busy":
		return chatOutput{what: "busy", run: a.text("active_run_id")}, nil
	case code == "parked_queue_full":
		return chatOutput{what: "full"}, nil
	case code == "run_not_active":
		return chatOutput{what: "ended"}, nil
	case in.what == "post" && a.text("run_id") != "":
		c.learn(in.chat, a.text("run_id"))
		return chatOutput{what: "run", run: a.text("run_id")}, nil
	case in.what == "list" && a.status == http.StatusOK:
		runs := a.body["runs"].([]any)
		if len(runs) == 1 {
			out.run = runs[0].(object)["run_id"].(string)
			c.learn(in.chat, out.run)
		}
		if len(runs) > 1 {
			out.run = "several"
		}
		return out, nil
	case a.status == http.StatusOK:
		return chatOutput{what: a.text("status")}, nil
	}
	return out, fmt.Errorf("%s %s: %d %v", in.what, in.run, a.status, a.body)
}

// resume answers a run's question. The response may be lost. If the next attempt finds that its own answer decided, the
// call has succeeded.
func (c *chatters) resume(ctx context.Context, in chatInput, key string) (chatOutput, error) {
	a, err := c.send(ctx, "", http.MethodGet, "/runs/"+in.run, nil)
	if err != nil {
		return chatOutput{}, err
	}
	decisions := []object{{"interrupt_id": "none", "decision": "answer", "message": "this"}}
	if pending, _ := a.body["interrupts"].([]any); len(pending) > 0 {
		decisions[0]["interrupt_id"] = pending[0].(object)["id"]
	}
	a, err = c.send(ctx, "", http.MethodPost, "/runs/"+in.run+"/resume",
		object{"decisions": decisions, "decided_by": key})
	if err != nil {
		return chatOutput{}, err
	}
	last, _ := a.body["last_decision"].(object)
	switch {
	case a.status == http.StatusOK, last["decided_by"] == key:
		return chatOutput{what: "queued"}, nil
	case a.text("code") == "not_found":
		return chatOutput{what: "missing"}, nil
	case a.text("code") == "not_awaiting_input":
		return chatOutput{what: "refused"}, nil
	case a.text("code") == "interrupts_mismatch": // it paused between the two requests
		return chatOutput{what: "mismatch"}, nil
	}
	return chatOutput{}, fmt.Errorf("resume %s: %d %v", in.run, a.status, a.body)
}
