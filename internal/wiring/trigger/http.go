package trigger

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	lambdaevents "github.com/aws/aws-lambda-go/events"
	"github.com/awslabs/aws-lambda-go-api-proxy/core"
	"github.com/awslabs/aws-lambda-go-api-proxy/httpadapter"
)

// answering is the time before its deadline that a function needs to send an answer. So the client gets our timeout
// error, and not that of API Gateway after the function was ended.
const answering = time.Second

// Buffered makes the handler of API Gateway requests whose responses are sent whole. A request's context ends before
// the function is ended. The handler returns an error for an event that is not a request.
func Buffered(
	h http.Handler,
) func(context.Context, lambdaevents.APIGatewayProxyRequest) (lambdaevents.APIGatewayProxyResponse, error) {
	adapter := httpadapter.New(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// Content other than text leaves a function in base64. The gateway decodes it only for clients that accept one
		// of its binary types. Browsers do not, so nothing is compressed here. The distribution compresses its cached
		// files.
		r.Header.Del("Accept-Encoding")
		w.WriteHeader(http.StatusOK) // the default of net/http; without it the adapter reports an error
		h.ServeHTTP(w, r)
	}))
	return func(
		ctx context.Context, r lambdaevents.APIGatewayProxyRequest,
	) (lambdaevents.APIGatewayProxyResponse, error) {
		if deadline, limited := ctx.Deadline(); limited {
			var cancel context.CancelFunc
			ctx, cancel = context.WithDeadline(ctx, deadline.Add(-answering))
			defer cancel()
		}
		return adapter.ProxyWithContext(ctx, request(r))
	}
}

// Streamed makes the handler of API Gateway requests whose responses are sent while they are written. The handler's
// error is that of an event that is not a request.
func Streamed(
	h http.Handler, log *slog.Logger,
) func(context.Context, lambdaevents.APIGatewayProxyRequest) (*lambdaevents.APIGatewayProxyStreamingResponse, error) {
	var accessor core.RequestAccessor
	return func(ctx context.Context,
		event lambdaevents.APIGatewayProxyRequest) (*lambdaevents.APIGatewayProxyStreamingResponse, error) {
		r, err := accessor.EventToRequestWithContext(ctx, request(event))
		if err != nil {
			return nil, fmt.Errorf("trigger: the event is no request: %w", err)
		}
		reader, writer := io.Pipe()
		w := &streamWriter{header: http.Header{}, body: writer, begun: make(chan struct{})}
		// The runtime reads the body to its end before it takes the next event, and the body ends with this goroutine.
		go func() {
			// Never with an error: the runtime ends the process if it reads an error from the body.
			defer func() { _ = writer.Close() }()
			defer w.WriteHeader(http.StatusOK)
			defer func() {
				//nolint:errorlint // net/http compares it so, too
				if p := recover(); p != nil && p != http.ErrAbortHandler {
					log.Error("a request panicked", "panic", p, "stack", string(debug.Stack()))
					w.WriteHeader(http.StatusInternalServerError)
				}
			}()
			h.ServeHTTP(w, r)
		}()
		<-w.begun
		return &lambdaevents.APIGatewayProxyStreamingResponse{StatusCode: w.status, MultiValueHeaders: w.sent,
			Body: reader}, nil
	}
}

type streamWriter struct {
	header http.Header
	body   *io.PipeWriter

	once   sync.Once
	begun  chan struct{} // closed when status and headers are final
	status int
	sent   http.Header
}

func (w *streamWriter) Header() http.Header { return w.header }

func (w *streamWriter) WriteHeader(status int) {
	w.once.Do(func() {
		w.status, w.sent = status, w.header.Clone()
		close(w.begun)
	})
}

func (w *streamWriter) Write(b []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	if len(b) == 0 {
		return 0, nil // a pipe would wait for a reader even for an empty write
	}
	return w.body.Write(b)
}

// Flush only sends the headers: the pipe buffers nothing.
func (w *streamWriter) Flush() { w.WriteHeader(http.StatusOK) }

// request restores two parts that API Gateway changes in a request: the stage in the path, and the client's address.
func request(r lambdaevents.APIGatewayProxyRequest) lambdaevents.APIGatewayProxyRequest {
	if r.Path == "/v1" || strings.HasPrefix(r.Path, "/v1/") {
		r.Path = "/api" + r.Path // the stage is named api, see infra
	}
	r.RequestContext.Identity.SourceIP = net.JoinHostPort(client(r), "0")
	return r
}

// client returns the address of the client. The header has three parts: addresses that the client wrote itself, the
// client's address from CloudFront, and CloudFront's address from the gateway. Only CloudFront can call the gateway,
// which requires a key (infra/stacks). If the header has another form, it returns the address that the gateway has
// seen.
func client(r lambdaevents.APIGatewayProxyRequest) string {
	saw := r.RequestContext.Identity.SourceIP
	hops := strings.Split(strings.Join(r.MultiValueHeaders["X-Forwarded-For"], ","), ",")
	if len(hops) < 2 || strings.TrimSpace(hops[len(hops)-1]) != saw {
		return saw
	}
	address, err := netip.ParseAddr(strings.TrimSpace(hops[len(hops)-2]))
	if err != nil {
		return saw
	}
	return address.Unmap().WithZone("").String()
}
