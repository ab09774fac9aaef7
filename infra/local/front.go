//go:build integration

package local

import (
	"log"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
)

// front returns the handler at the single address of a world. It forwards requests as CloudFront and API Gateway would.
// Streams of runs and waits for the inbox go to the stream service. Other requests with a streamed response go to their
// function with response streaming. All the rest goes through LocalStack's API Gateway, with the key that it requires.
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
		case streams(r.Method, r.URL.Path):
			chat.ServeHTTP(w, r)
		default:
			api.ServeHTTP(w, r)
		}
	})
}

// unreachable answers for a service that did not answer. A client that has disconnected is not an error and is not
// logged.
func unreachable(w http.ResponseWriter, r *http.Request, err error) {
	if r.Context().Err() == nil {
		log.Printf("front: %s %s: %v", r.Method, r.URL.Path, err)
	}
	w.WriteHeader(http.StatusBadGateway)
}

// streams reports whether the response may be a stream, as in the gateway's resources.
func streams(method, path string) bool {
	below := func(prefix string) bool {
		name, yes := strings.CutPrefix(path, prefix)
		return yes && !strings.Contains(name, "/")
	}
	switch method {
	case http.MethodPost:
		return path == "/api/v1/chat" || path == "/api/v1/mcp" || path == "/api/v1/responses" ||
			below("/api/v1/a2a/") || below("/api/v1/agui/")
	case http.MethodGet:
		return below("/api/v1/responses/")
	}
	return false
}
