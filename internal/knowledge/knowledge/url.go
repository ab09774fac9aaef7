package knowledge

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
	"unicode"

	"agentplatform/internal/platform/egress"
	"agentplatform/internal/platform/problem"
)

const maxURL = 2048

// CheckURL returns why a document may not come from an address: a problem of kind Invalid (body.url). The code is
// url_forbidden for an address that the policy refuses.
func CheckURL(policy egress.Policy, raw string) error {
	u, err := ParseURL(raw)
	if err != nil {
		return problem.InvalidField("body.url", "%s", err)
	}
	if policy.CheckURL(u) != nil {
		p := problem.InvalidField("body.url", "this address is not allowed")
		p.Code = "url_forbidden"
		return p
	}
	return nil
}

// ParseURL reads the address of a document, without its fragment. The error states what it must be.
func ParseURL(raw string) (*url.URL, error) {
	if strings.ContainsFunc(raw, func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }) {
		return nil, errors.New("must have no spaces")
	}
	u, err := url.Parse(raw)
	if err != nil || len(raw) > maxURL || u.Hostname() == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, fmt.Errorf("must be an http or https URL of at most %d characters", maxURL)
	}
	u.Fragment = ""
	return u, nil
}
