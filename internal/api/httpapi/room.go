package httpapi

import (
	"errors"
	"strings"
	"time"

	"agentplatform/internal/org/tenant"
	"agentplatform/internal/platform/problem"
	"agentplatform/internal/platform/share"
)

// smallBody is how much of each body counts apart from what large bodies divide, and how much of an answer does not
// count at all. In bytes, as all limits here.
const smallBody = 64 << 10

// What the JSON bodies that are held have together. Four organizations that take all they may leave the reserve to
// others; half of it has room for one body of the largest size.
var (
	limitsOfBodies = share.Limits{All: 80 << 20, Reserve: 16 << 20, Organization: 16 << 20, User: 12 << 20}
	// limitsOfSmallBodies are for the first bytes of each body. Only very many connections reach them.
	limitsOfSmallBodies = share.Limits{All: 128 << 20, Reserve: 32 << 20, Organization: 24 << 20, User: 16 << 20}
	// limitsOfAnswers are for what large answers have beyond smallBody, until their clients have taken them.
	limitsOfAnswers = share.Limits{All: 160 << 20, Reserve: 32 << 20, Organization: 32 << 20, User: 24 << 20}
)

// largestAnswer is how much one answer may have beyond smallBody.
const largestAnswer = 48 << 20

// What an answer calls that of which there is too little.
const (
	requestBodies      = "request_bodies"
	smallRequestBodies = "small_request_bodies"
	largeResponses     = "large_responses"

	bytesHeld = "bytes"
)

// operators are who holds what operators take: they count apart from organizations, so nobody locks them out.
const operators = "operators"

// holderOf is who holds what a request of a principal takes.
func holderOf(p tenant.Principal) share.Holder {
	h := share.Holder{Organization: p.Organization, User: p.User, Key: p.Key}
	if p.Acting || p.Level.Covers(tenant.LevelOperator) {
		h.Organization = operators
	}
	return h
}

// exceeded is the answer to a request for which a limit of something that all divide leaves no room. what names it in
// the answer; unit is empty for what is counted.
func exceeded(what, unit string, err error) error {
	var r *share.Refusal
	if !errors.As(err, &r) {
		return err
	}
	shown := strings.ReplaceAll(what, "_", " ")
	p := problem.New(problem.Unavailable, "unavailable", "too many %s are under way at once; try again", shown)
	if r.Scope != share.Process {
		p = problem.Exceeded(what, string(r.Scope), r.Max, r.Used, unit)
	}
	if p.RetryAfter = time.Second; unit == "" { // what is counted is held for longer
		p.RetryAfter = 5 * time.Second
	}
	return p
}

// roomFor takes room for a piece of an answer, until its client has taken it. What answers without a key is in memory
// once for all clients, so it counts for nobody.
func (s *Server) roomFor(c *Call, n int) (give func(), err error) {
	if n <= smallBody || c.Principal.Key == "" {
		return func() {}, nil
	}
	part := s.answers.Part(holderOf(c.Principal))
	size := int64(n - smallBody)
	if size <= largestAnswer { // one that is larger than a user's limit is all that the user may have
		size = min(size, limitsOfAnswers.User)
	}
	if full := part.Take(size); full != nil {
		return nil, exceeded(largeResponses, bytesHeld, full)
	}
	return part.Give, nil
}
