package linear

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"

	"github.com/anishathalye/porcupine"
)

// capInput is a call that concerns a cap: a message to a new chat, or the cancel of an accepted run.
type capInput struct {
	cancel bool
	run    string
}

type capOutput struct {
	what string // accepted, refused, or the status that a cancel has led to
	run  string
}

// capState counts the runs that hold a slot, and those of them with a requested cancel.
type capState struct{ active, ending int }

// CapModel returns the sequential model of a cap. Admission accepts a run while there is a free slot, and refuses only
// when there is none.
func CapModel(limit int) porcupine.Model {
	step := func(s capState, in capInput, out capOutput) (capState, bool) {
		switch {
		case !in.cancel && out.what == "in":
			return capState{s.active + 1, s.ending}, s.active < limit
		case !in.cancel:
			return s, s.active >= limit
		case out.what == "cancelled":
			return capState{s.active - 1, s.ending}, true
		default: // its worker will end it
			return capState{s.active, s.ending + 1}, out.what == "running"
		}
	}
	m := porcupine.NondeterministicModel{
		Init: func() []any { return []any{capState{}} },
		Step: func(state, input, output any) (next []any) {
			s := state.(capState)
			for ended := 0; ended <= s.ending; ended++ {
				if after, ok := step(capState{s.active - ended, s.ending - ended}, input.(capInput),
					output.(capOutput)); ok {
					next = append(next, after)
				}
			}
			return next
		},
		Equal: func(a, b any) bool { return a == b },
		DescribeOperation: func(input, output any) string {
			return fmt.Sprintf("%v → %v", input, output)
		},
	}
	return m.ToModel()
}

// Caps runs clients of one user against the user's cap, or all users of an organization against the organization's.
// Every run continues until it is cancelled. It fails if the service cannot be reached or set up. A violation is in the
// Verdict.
func (s Service) Caps(ctx context.Context, seed uint64, clients, calls, limit int, organization bool) (Verdict, error) {
	keys, agent, err := s.people(ctx, clients, limit, organization)
	if err != nil {
		return Verdict{}, err
	}
	list, err := beside(clients, seed, func(client int, random *rand.Rand, r *recorder) error {
		var mine []string
		for n := range calls {
			in := capInput{cancel: len(mine) > 0 && random.IntN(2) == 0}
			if in.cancel {
				in.run, mine = mine[0], mine[1:]
			}
			began := r.elapsed()
			out, err := s.cap(ctx, keys[client%len(keys)], agent, in, fmt.Sprintf("c%d-%d", client, n))
			if err != nil {
				return err
			}
			r.note(client, began, in, out)
			if out.what == "in" {
				mine = append(mine, out.run)
			}
		}
		return nil
	})
	if err != nil {
		return Verdict{}, err
	}
	return check(CapModel(limit), list,
		func(o porcupine.Operation) bool { return o.Output.(capOutput).what != "refused" }), nil
}

func (s Service) cap(ctx context.Context, key, agent string, in capInput, id string) (capOutput, error) {
	if in.cancel {
		a, err := s.send(ctx, key, http.MethodPost, "/runs/"+in.run+"/cancel", object{})
		return capOutput{what: a.text("status")}, err
	}
	a, err := s.post(ctx, key, "agent_id", agent, "message", messages[long], "wait", "false", "idempotency_key", id)
	switch {
	case err != nil:
		return capOutput{}, err
	case a.status == http.StatusAccepted:
		return capOutput{what: "in", run: a.text("run_id")}, nil
	case a.status == http.StatusTooManyRequests:
		return capOutput{what: "refused"}, nil
	}
	return capOutput{}, fmt.Errorf("a message: %d %v", a.status, a.body)
}

var errTaken = errors.New("it is there already")

// maxAttempts bounds the attempts to make a user when responses are lost.
const maxAttempts = 5

// people makes an organization with the cap: one user who has it, or several who share it.
func (s Service) people(
	ctx context.Context, clients, limit int, organization bool,
) (keys []string, agent string, err error) {
	made := func(key, path string, body object, member string) string {
		if err != nil {
			return ""
		}
		var a answer
		a, err = s.send(ctx, key, http.MethodPost, path, body)
		switch {
		case err != nil:
		case a.status == http.StatusConflict:
			err = fmt.Errorf("%w: %s: %v", errTaken, path, a.body)
		case a.status != http.StatusCreated:
			err = fmt.Errorf("%s: %d %v", path, a.status, a.body)
		}
		return a.text(member)
	}
	caps, users := object{"user": limit, "organization": 1000}, 1
	if organization {
		caps, users = object{"user": 1000, "organization": limit}, min(clients, 4)
	}
	home := made("", "/organizations", object{"name": "caps", "caps": caps}, "organization_id")
	for i := range users {
		user := ""
		for attempt := 0; user == "" && err == nil; attempt++ { // a lost response: the address exists already
			user = made("", "/users", object{
				"email": fmt.Sprintf("u%d-%d@example.com", i, attempt), "role": "admin", "organization_id": home,
			}, "user_id")
			if errors.Is(err, errTaken) && attempt+1 < maxAttempts {
				err = nil
			}
		}
		keys = append(keys, made("", "/api-keys",
			object{"name": "k", "user_id": user, "level": "admin", "organization_id": home}, "key"))
	}
	return keys, made(keys[0], "/agents", object{"name": "a"}, "agent_id"), err
}
