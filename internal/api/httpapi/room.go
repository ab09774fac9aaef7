package httpapi

import (
	"errors"
	"strings"
	"time"

	"agentplatform/internal/org/tenant"
	"agentplatform/internal/platform/problem"
	"agentplatform/internal/platform/share"
)

// smallBody is the number of bytes of each body that count apart from the room of large bodies. It is also the number
// of bytes of an answer that do not count at all. All limits here are in bytes.
const smallBody = 64 << 10

// The limits of JSON bodies that are held, all together. Four organizations that use their whole limit leave the
// reserve to others; half of the reserve has room for one body of the largest size.
var (
	limitsOfBodies = share.Limits{All: 80 << 20, Reserve: 16 << 20, Organization: 16 << 20, User: 12 << 20}
	// limitsOfSmallBodies are for the first bytes of each body. Only very many connections reach them.
	limitsOfSmallBodies = share.Limits{All: 128 << 20, Reserve: 32 << 20, Organization: 24 << 20, User: 16 << 20}
	// limitsOfAnswers are for the bytes of large answers beyond smallBody, until their clients have read them.
	limitsOfAnswers = share.Limits{All: 160 << 20, Reserve: 32 << 20, Organization: 32 << 20, User: 24 << 20}
)

// largestAnswer is the largest size of one answer beyond smallBody, in bytes.
const largestAnswer = 48 << 20

// Names of scarce memory in answers.
const (
	requestBodies      = "request_bodies"
	smallRequestBodies = "small_request_bodies"
	largeResponses     = "large_responses"

	bytesHeld = "bytes"
)

// operators is the holder of the room for requests of operators. They count apart from organizations, so no
// organization locks them out.
const operators = "operators"

// holderOf is the holder of the room for a principal's request.
func holderOf(p tenant.Principal) share.Holder {
	h := share.Holder{Organization: p.Organization, User: p.User, Key: p.Key}
	if p.Acting || p.Level.Covers(tenant.LevelOperator) {
		h.Organization = operators
	}
	return h
}

// exceeded is the answer to a request for which a shared limit leaves no room. what names the limit in the answer; unit
// is empty for counts.
func exceeded(what, unit string, err error) error {
	var r *share.Refusal
	if !errors.As(err, &r) {
		return err
	}
	shown := strings.ReplaceAll(what, "_", " ")
	p := problem.New(problem.Unavailable, "unavailable", "too many %s are in progress; try again", shown)
	if r.Scope != share.Process {
		p = problem.Exceeded(what, string(r.Scope), r.Max, r.Used, unit)
	}
	if p.RetryAfter = time.Second; unit == "" { // units that are counted are held for longer
		p.RetryAfter = 5 * time.Second
	}
	return p
}

// roomFor takes room for a piece of an answer, until its client has read it. Answers without a key are in memory once
// for all clients, so they count for nobody.
func (s *Server) roomFor(c *Call, n int) (give func(), err error) {
	if n <= smallBody || c.Principal.Key == "" {
		return func() {}, nil
	}
	part := s.answers.Part(holderOf(c.Principal))
	size := int64(n - smallBody)
	if size <= largestAnswer { // an answer over a user's limit takes the user's whole limit
		size = min(size, limitsOfAnswers.User)
	}
	if full := part.Take(size); full != nil {
		return nil, exceeded(largeResponses, bytesHeld, full)
	}
	return part.Give, nil
}
