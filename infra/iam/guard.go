package iam

import (
	"context"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
)

// Guard is the endpoint of AWS that a program is given. It forwards the calls that the program's role may make to a
// stand-in for AWS. It answers the other calls as AWS would, and records all of them. URLs that the program has
// presigned lead to its Guard, too. They are calls of the program's role, for every client that uses them.
//
// Calls come without TLS. They are treated as if they had come with it.
type Guard struct {
	Program Program
	Stacks  *Stacks
	Ledger  *Ledger
	Account string // the ID of the account that resources are in
	// Names are the names of the deployment's resources. They are nil until the deployment is complete. Until then
	// calls come from resources that the deployment starts, and are forwarded without a decision.
	Names func() Names
	// Backend returns the address that the calls of a service go to.
	Backend func(service string) *url.URL
	// Transport makes the calls; nil: http.DefaultTransport.
	Transport http.RoundTripper
}

// seen is the state of a request while it is forwarded.
type seen struct {
	service string
	calls   []Call
}

type seenKey struct{}

// ServeHTTP implements [http.Handler].
func (g *Guard) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	names, s := g.Names(), seen{service: "s3"}
	asksFirst := r.Method == http.MethodOptions // a browser's preflight, which needs no right
	if !asksFirst {
		var err error
		var service string
		service, s.calls, err = Decode(r, g.Account)
		if errors.Is(err, ErrCutOff) {
			w.WriteHeader(http.StatusBadRequest) // usually there is no client any more
			return
		}
		if err != nil {
			g.Ledger.Undecoded(g.Program, err)
			refuse(w, service, err.Error())
			return
		}
		s.service = service
	}
	if names == nil {
		s.calls = nil
	}
	for i, c := range s.calls {
		s.calls[i] = names.In(c)
		if why := g.decide(s.calls[i]); why != "" {
			refuse(w, s.service, why)
			return
		}
	}
	proxy := httputil.ReverseProxy{
		Rewrite: func(p *httputil.ProxyRequest) {
			p.SetURL(g.Backend(s.service))
			p.Out.Host = p.In.Host // it is signed
		},
		FlushInterval: -1, Transport: g.Transport, ModifyResponse: g.missing,
		ErrorLog:     slog.NewLogLogger(slog.DiscardHandler, slog.LevelError), // of programs that are killed
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) },
	}
	proxy.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), seenKey{}, s)))
}

// decide records a call and returns why it is refused. The result is empty if it is allowed.
func (g *Guard) decide(c Call) string {
	c.Context = maps.Clone(c.Context)
	if c.Context == nil {
		c.Context = map[string][]string{}
	}
	c.Context["aws:securetransport"] = []string{"true"}
	d := g.Stacks.Decide(g.Program.Role, c)
	g.Ledger.Called(g.Program, c, d)
	return d.Why
}

// missing changes S3's response for a missing object to the one for callers that may not list the bucket. These do not
// learn that the object is missing. https://docs.aws.amazon.com/AmazonS3/latest/API/API_GetObject.html
func (g *Guard) missing(answer *http.Response) error {
	s, _ := answer.Request.Context().Value(seenKey{}).(seen)
	if s.service != "s3" || len(s.calls) != 1 || s.calls[0].Action != "s3:GetObject" ||
		answer.StatusCode != http.StatusNotFound {
		return nil
	}
	bucket, _, _ := strings.Cut(s.calls[0].Resource, "/")
	why := g.decide(Call{Action: "s3:ListBucket", Resource: bucket})
	if why == "" {
		return nil
	}
	code, kind, body := denial(s.service, why)
	err := answer.Body.Close()
	answer.StatusCode, answer.Status = code, http.StatusText(code)
	answer.Header = http.Header{"Content-Type": {kind}}
	answer.ContentLength, answer.Body = int64(len(body)), io.NopCloser(strings.NewReader(body))
	if answer.Request.Method == http.MethodHead {
		answer.ContentLength, answer.Body = -1, http.NoBody
	}
	return err
}

// denial returns a service's response for a call that is not allowed.
func denial(service, why string) (code int, kind, body string) {
	if service == "s3" {
		b, _ := xml.Marshal(struct {
			XMLName xml.Name `xml:"Error"`
			Code    string
			Message string
		}{Code: "AccessDenied", Message: why}) // texts alone: it does not fail
		return http.StatusForbidden, "application/xml", string(b)
	}
	b, _ := json.Marshal(map[string]string{"__type": "AccessDeniedException", "message": why})
	if services[service].target != "" {
		return http.StatusBadRequest, "application/x-amz-json-1.0", string(b)
	}
	return http.StatusForbidden, "application/json", string(b)
}

func refuse(w http.ResponseWriter, service, why string) {
	code, kind, body := denial(service, why)
	w.Header().Set("Content-Type", kind)
	w.Header().Set("X-Amzn-Errortype", "AccessDeniedException")
	w.WriteHeader(code)
	_, _ = fmt.Fprint(w, body)
}
