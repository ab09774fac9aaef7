package httpapi

import (
	"cmp"
	"net"
	"net/http"
	"strconv"
	"strings"

	"agentplatform/internal/platform/problem"
	"agentplatform/internal/store/ratelimit"
	"agentplatform/internal/store/record"
)

// gate lets requests in: by their API keys, within their rate limits.
type gate struct {
	*Config

	keys      ratelimit.Limiter // of requests
	guests    ratelimit.Limiter // the same by the addresses of clients without a good key
	strangers strangers
	open      map[string]bool   // paths of the API that answer without a key
	names     map[string]string // of operations, by pattern
}

// admitted lets a request through whose key is good and within its rate limit; what it writes is written in the name of
// its sender. Paths that are open need no key.
func (g *gate) admitted(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c := callOf(r.Context())
		if !ofTheAPI(r) || g.open[r.URL.Path] { // outside of the API are documents and metrics; those guard themselves
			c.body.hangUp(w)
			next.ServeHTTP(w, r)
			return
		}
		if err := g.admit(w, r, c); err != nil {
			fail(g.Log, w, c, err)
			return
		}
		next.ServeHTTP(w, r.WithContext(record.By(r.Context(), record.Author{
			Organization: c.Principal.Organization, UserID: c.Principal.User, APIKeyID: c.Principal.Key,
			Operation: cmp.Or(g.names[c.pattern], c.pattern), AsOperator: c.Principal.Acting,
		})))
	})
}

// admit finds who sends the request and counts it against that key, or against the address when there is none. From
// here on an operator that names an organization is an admin of that one.
func (g *gate) admit(w http.ResponseWriter, r *http.Request, c *Call) error {
	p, err := g.Tenants.Authenticate(r.Context(), bearer(r))
	perMinute, burst := g.Tenants.RateOf(p)
	limit := ratelimit.Limit{PerMinute: perMinute, Burst: burst}
	if err != nil {
		address, _, _ := net.SplitHostPort(r.RemoteAddr)
		return cmp.Or(g.limited(w, limit, g.guests.Take(r.Context(), address, limit, g.Host.Elapsed())), err)
	}
	c.Principal = p
	g.strangers.known(r.Context())
	err = g.limited(w, limit, g.keys.Take(r.Context(), p.Key, limit, g.Host.Elapsed()))
	if named := r.Header.Values(organizationHeader); err == nil && len(named) > 0 {
		c.Principal, err = g.Tenants.ActIn(r.Context(), p, strings.Join(named, ","))
	}
	return err
}

// organizationHeader names the organization that an operator acts in.
const organizationHeader = "X-Organization"

func bearer(r *http.Request) string {
	scheme, token, ok := strings.Cut(r.Header.Get("Authorization"), " ")
	if !ok || !strings.EqualFold(scheme, "Bearer") {
		return ""
	}
	return strings.TrimSpace(token)
}

// limited tells the client how far its limit is used, and is the error of a request that is over it.
func (g *gate) limited(w http.ResponseWriter, l ratelimit.Limit, state ratelimit.State) error {
	h := w.Header()
	h.Set("Ratelimit-Limit", strconv.Itoa(l.PerMinute))
	h.Set("Ratelimit-Remaining", strconv.Itoa(state.Remaining))
	h.Set("Ratelimit-Reset", strconv.Itoa(wholeSeconds(state.Reset)))
	if state.Allowed {
		return nil
	}
	p := problem.New(
		problem.Limited, "rate_limited", "more than %d requests a minute (and %d at once)", l.PerMinute, l.Burst,
	)
	p.RetryAfter = state.RetryAfter
	return p
}
