//go:build integration

package local

import (
	"log"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
)

// front is the single address of a world: it forwards requests as CloudFront and API Gateway would. Streams of
// runs and waits for the inbox go to the stream service, POST /chat, A2A and AG-UI to their function with response
// streaming, and everything else through LocalStack's API Gateway, with the key that it asks for.
func front(gateway, stream *url.URL, chat http.Handler, key string) http.Handler {
	service := httputil.NewSingleHostReverseProxy(stream)
	service.FlushInterval, service.ErrorHandler = -1, unreachable
	api := &httputil.ReverseProxy{ErrorHandler: unreachable, Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(gateway)
		r.Out.URL.Path = gateway.Path + strings.TrimPrefix(r.In.URL.Path, "/api")
		r.Out.URL.RawPath = ""
		r.Out.Header.Set("X-Api-Key", key)
		if r.Out.Header.Get("Accept") == "" {
			r.Out.Header.Set("Accept", "*/*") // LocalStack would add application/json; AWS adds nothing
		}
	}}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case strings.HasPrefix(r.URL.Path, "/api/v1/runs/") && strings.HasSuffix(r.URL.Path, "/stream"),
			r.Method == http.MethodGet && r.URL.Path == "/api/v1/interrupts":
			service.ServeHTTP(w, r)
		case r.Method == http.MethodPost && (r.URL.Path == "/api/v1/chat" || isOfAgent(r.URL.Path)):
			chat.ServeHTTP(w, r)
		default:
			api.ServeHTTP(w, r)
		}
	})
}

// unreachable answers for a service that did not. A client that has gone is nobody's fault, and no line in the log.
func unreachable(w http.ResponseWriter, r *http.Request, err error) {
	if r.Context().Err() == nil {
		log.Printf("front: %s %s: %v", r.Method, r.URL.Path, err)
	}
	w.WriteHeader(http.StatusBadGateway)
}

// isOfAgent reports whether a path is that of an agent as a server of A2A or of AG-UI.
func isOfAgent(path string) bool {
	for _, protocol := range []string{"/api/v1/a2a/", "/api/v1/agui/"} {
		if agent, yes := strings.CutPrefix(path, protocol); yes && !strings.Contains(agent, "/") {
			return true
		}
	}
	return false
}
