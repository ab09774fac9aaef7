package httpapi

import (
	"cmp"
	"context"
	"net"
	"net/http"
	"strconv"
	"strings"

	"agentplatform/internal/org/tenant"
	"agentplatform/internal/platform/problem"
	"agentplatform/internal/platform/share"
	"agentplatform/internal/store/ratelimit"
	"agentplatform/internal/store/record"
)

// admitted passes a request on if its key is good and within its rate limit. Data that it writes is written in the name
// of its sender. Paths that are open need no key.
func (s *Server) admitted(next http.Handler) http.Handler {
	return s.answered(func(w http.ResponseWriter, r *http.Request, c *Call) error {
		if !ofTheAPI(r) || s.open[r.URL.Path] { // outside of the API are documents and metrics; those guard themselves
			c.body.hangUp(w)
			next.ServeHTTP(w, r)
			return nil
		}
		if err := s.admit(w, r, c); err != nil {
			return err
		}
		ctx := share.With(r.Context(), holderOf(c.Principal))
		next.ServeHTTP(w, r.WithContext(record.By(ctx, record.Author{
			Organization: c.Principal.Organization, UserID: c.Principal.User, APIKeyID: c.Principal.Key,
			Operation: cmp.Or(s.names[c.pattern], c.pattern), AsOperator: c.Principal.Acting,
		})))
		return nil
	})
}

// admit finds the sender of the request and counts the request against the sender's key, or against the address when
// there is no key. From here on an operator that names an organization is an admin of that organization.
func (s *Server) admit(w http.ResponseWriter, r *http.Request, c *Call) error {
	p, err := s.sender(r, c)
	if err != nil {
		address, _, _ := net.SplitHostPort(r.RemoteAddr)
		perMinute, burst := s.Tenants.RateOf(p)
		limit := ratelimit.Limit{PerMinute: perMinute, Burst: burst}
		return cmp.Or(s.count(w, r, &s.guests, "address", address, limit), err)
	}
	c.Principal = p
	err = s.CountAgain(w, r, c)
	err = cmp.Or(err, s.connections.known(w, r, holderOf(p)))
	if named := r.Header.Values(organizationHeader); err == nil && len(named) > 0 {
		c.Principal, err = s.Tenants.ActIn(r.Context(), p, strings.Join(named, ","))
	}
	return err
}

// sender is the principal of a request. It comes from the request's Authorization. Where a file's bytes are sent
// without one, it comes from the token in the address that was made for this file.
func (s *Server) sender(r *http.Request, c *Call) (tenant.Principal, error) {
	token := r.URL.Query().Get(uploadToken)
	if c.pattern != "PUT "+Base+FileContent || token == "" || r.Header.Get("Authorization") != "" {
		return s.Tenants.Authenticate(r.Context(), bearer(r))
	}
	file, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, Base+"/files/"), "/")
	return s.Tenants.Uploader(r.Context(), token, file)
}

// FileContent is the path to which a file's bytes are sent. The query parameter uploadToken makes this path an address
// for clients without a key.
const (
	FileContent = "/files/{id}/content"
	uploadToken = "token"
)

// UploadURL is the address of a file's bytes that needs no key.
func (s *Server) UploadURL(ctx context.Context, p tenant.Principal, file string) (string, error) {
	token, err := s.Tenants.UploadToken(ctx, p, file)
	return strings.TrimSuffix(s.PublicURL, "/") + Base + strings.Replace(FileContent, "{id}", file, 1) + "?" +
		uploadToken + "=" + token, err
}

// CountAgain counts one more request against the limits of the key and of its organization, for a request that consists
// of several.
func (s *Server) CountAgain(w http.ResponseWriter, r *http.Request, c *Call) error {
	p := c.Principal
	perMinute, burst := s.Tenants.RateOf(p)
	err := s.count(w, r, &s.keys, share.Key, p.Key, ratelimit.Limit{PerMinute: perMinute, Burst: burst})
	if err != nil { // its refused requests count nothing against its organization
		return err
	}
	perMinute, burst = s.Tenants.OrganizationRateOf(p)
	limit := ratelimit.Limit{PerMinute: perMinute, Burst: burst}
	of := "organization/" + holderOf(p).Organization
	if state := s.organizations.Take(r.Context(), of, limit, s.Host.Elapsed()); !state.Allowed {
		return limited(w, share.Organization, limit, state)
	}
	return nil
}

// count counts a request against the limit of a scope that has a name.
func (s *Server) count(
	w http.ResponseWriter, r *http.Request, by *ratelimit.Limiter, scope share.Scope, name string,
	limit ratelimit.Limit,
) error {
	return limited(w, scope, limit, by.Take(r.Context(), name, limit, s.Host.Elapsed()))
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

// limited writes the state of the client's limit to the headers. It returns an error for a request over the limit.
func limited(w http.ResponseWriter, scope share.Scope, l ratelimit.Limit, state ratelimit.State) error {
	h := w.Header()
	h.Set("Ratelimit-Limit", strconv.Itoa(l.PerMinute))
	h.Set("Ratelimit-Remaining", strconv.Itoa(state.Remaining))
	h.Set("Ratelimit-Reset", strconv.Itoa(wholeSeconds(state.Reset)))
	if state.Allowed {
		return nil
	}
	p := problem.New(problem.Limited, "rate_limited",
		"the rate limit of this %s is %d requests per minute with a burst of %d; try again later",
		strings.ReplaceAll(string(scope), "_", " "), l.PerMinute, l.Burst).With("scope", scope)
	p.RetryAfter = state.RetryAfter
	return p
}

// ForOperators admits callers on this machine that have an operator's key. To be on this machine is not enough: behind
// a proxy on this machine every caller is. Any caller can write the headers about a request's origin. With remote, it
// also admits callers from elsewhere, where their key travels encrypted. It does so by TLS of this process, or by TLS
// of a proxy in front of it, where PUBLIC_URL begins with https.
func (s *Server) ForOperators(h http.Handler, remote bool) http.Handler {
	return s.answered(func(w http.ResponseWriter, r *http.Request, c *Call) error {
		address, _, _ := net.SplitHostPort(r.RemoteAddr)
		encrypted := r.TLS != nil || strings.HasPrefix(strings.ToLower(s.PublicURL), "https://")
		if ip := net.ParseIP(address); (!remote || !encrypted) && (ip == nil || !ip.IsLoopback()) {
			http.NotFound(w, r)
			return nil
		}
		if err := s.admit(w, r, c); err != nil {
			return err
		}
		if err := c.Principal.Authorize(tenant.LevelOperator); err != nil {
			return err
		}
		h.ServeHTTP(w, r)
		return nil
	})
}
