//go:build integration

package local

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	lambdaevents "github.com/aws/aws-lambda-go/events"
)

// runtime runs a function's bootstrap as Lambda does. An execution environment is a process that takes one invocation
// at a time from the runtime API. There are as many as concurrent invocations. Responses are passed on while they are
// written.
type runtime struct {
	bootstrap string
	environ   []string
	timeout   time.Duration
	log       io.Writer

	mu     sync.Mutex
	idle   []*environment
	closed bool
	alive  sync.WaitGroup
}

// environment is one process with its runtime API.
type environment struct {
	next      chan *invocation
	current   *invocation
	process   *exec.Cmd
	server    *http.Server
	ended     chan struct{}
	ready     chan struct{} // closed when it asks for its first invocation: its init phase is over
	readyOnce sync.Once
}

type invocation struct {
	id       string
	event    []byte
	deadline time.Time
	answer   chan answer
}

// answer is the body of the function's response. It may still be being written.
type answer struct {
	kind   string // content type
	body   io.Reader
	failed bool
	done   chan struct{} // closed by the reader when it needs no more
}

func (r *runtime) take() (*environment, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return nil, errors.New("the runtime is closed")
	}
	for len(r.idle) > 0 {
		e := r.idle[len(r.idle)-1]
		r.idle = r.idle[:len(r.idle)-1]
		select {
		case <-e.ended:
		default:
			return e, nil
		}
	}
	return r.start()
}

func (r *runtime) give(e *environment) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		_ = e.process.Process.Kill()
		return
	}
	r.idle = append(r.idle, e)
}

func (r *runtime) start() (*environment, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	e := &environment{next: make(chan *invocation), ended: make(chan struct{}), ready: make(chan struct{})}
	e.server = &http.Server{Handler: e, ReadHeaderTimeout: time.Minute}
	r.alive.Go(func() { _ = e.server.Serve(listener) })
	e.process = exec.Command(r.bootstrap)
	e.process.Env = append(append(os.Environ(), r.environ...),
		"AWS_LAMBDA_RUNTIME_API="+listener.Addr().String(), "AWS_LAMBDA_FUNCTION_NAME=local",
		"AWS_LAMBDA_FUNCTION_VERSION=$LATEST",
		"AWS_LAMBDA_FUNCTION_MEMORY_SIZE=256", "_HANDLER=bootstrap")
	e.process.Stdout, e.process.Stderr = r.log, r.log
	if err := e.process.Start(); err != nil {
		return nil, errors.Join(err, listener.Close())
	}
	r.alive.Go(func() {
		_ = e.process.Wait()
		close(e.ended)
		_ = e.server.Close()
	})
	return e, nil
}

// pids returns the process ids of the idle processes.
func (r *runtime) pids() (list []int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range r.idle {
		list = append(list, e.process.Process.Pid)
	}
	return list
}

// forget ends the idle processes, so that the next invocation starts a new one.
func (r *runtime) forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range r.idle {
		_ = e.process.Process.Kill()
		<-e.ended
	}
	r.idle = nil
}

// configure sets the environment of new processes, and ends the idle ones.
func (r *runtime) configure(environ []string) {
	r.mu.Lock()
	r.environ = environ
	r.mu.Unlock()
	r.forget()
}

// close ends all processes and waits for them.
func (r *runtime) close() {
	r.mu.Lock()
	r.closed = true
	for _, e := range r.idle {
		_ = e.process.Process.Kill()
	}
	r.mu.Unlock()
	r.alive.Wait()
}

// ServeHTTP implements the runtime API.
func (e *environment) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	path := strings.TrimPrefix(q.URL.Path, "/2018-06-01/runtime/")
	if path == "invocation/next" {
		e.readyOnce.Do(func() { close(e.ready) })
		select {
		case inv := <-e.next:
			e.current = inv
			w.Header().Set("Lambda-Runtime-Aws-Request-Id", inv.id)
			w.Header().Set("Lambda-Runtime-Deadline-Ms", strconv.FormatInt(inv.deadline.UnixMilli(), 10))
			w.Header().Set("Lambda-Runtime-Invoked-Function-Arn",
				"arn:aws:lambda:eu-central-1:000000000000:function:local")
			_, _ = w.Write(inv.event)
		case <-q.Context().Done():
		}
		return
	}
	inv := e.current
	a := answer{kind: q.Header.Get("Content-Type"), body: q.Body, failed: strings.HasSuffix(path, "/error"),
		done: make(chan struct{})}
	if inv != nil && strings.HasPrefix(path, "invocation/"+inv.id+"/") {
		inv.answer <- a
		<-a.done
	}
	w.WriteHeader(http.StatusAccepted)
}

// ServeHTTP handles a request as API Gateway does with a function: the request becomes an event, and its result becomes
// the response.
func (r *runtime) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	event, err := eventOf(q)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	e, err := r.take()
	if err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	inv := &invocation{id: fmt.Sprint(time.Now().UnixNano()), event: event, deadline: time.Now().Add(r.timeout),
		answer: make(chan answer, 1)}
	ctx, cancel := context.WithDeadline(context.WithoutCancel(q.Context()), inv.deadline)
	defer cancel()
	var a answer
	select {
	case e.next <- inv:
	case <-e.ended:
		http.Error(w, "the function did not start", http.StatusBadGateway)
		return
	}
	select {
	case a = <-inv.answer:
	case <-e.ended:
		http.Error(w, "the function ended", http.StatusBadGateway)
		return
	case <-ctx.Done():
		_ = e.process.Process.Kill()
		http.Error(w, "the function took too long", http.StatusGatewayTimeout)
		return
	}
	defer r.give(e)
	defer close(a.done)
	pass(w, a)
	_, _ = io.Copy(io.Discard, a.body) // a client that disconnects does not stop the function
}

func eventOf(q *http.Request) ([]byte, error) {
	body, err := io.ReadAll(q.Body)
	if err != nil {
		return nil, err
	}
	ip, _, _ := net.SplitHostPort(q.RemoteAddr)
	event := lambdaevents.APIGatewayProxyRequest{
		Resource: "/v1/chat", Path: strings.TrimPrefix(q.URL.Path, "/api"), HTTPMethod: q.Method,
		Headers:           map[string]string{"Host": q.Host},
		MultiValueHeaders: q.Header, QueryStringParameters: map[string]string{},
		MultiValueQueryStringParameters: q.URL.Query(),
		RequestContext: lambdaevents.APIGatewayProxyRequestContext{
			Stage: "api", HTTPMethod: q.Method, Path: q.URL.Path,
			Identity: lambdaevents.APIGatewayRequestIdentity{SourceIP: ip, UserAgent: q.UserAgent()},
		},
	}
	for name, values := range q.Header {
		event.Headers[name] = values[len(values)-1]
	}
	for name, values := range q.URL.Query() {
		event.QueryStringParameters[name] = values[len(values)-1]
	}
	// Multipart forms are among the API's binary media types. Other bytes that are not text are always base64.
	if event.IsBase64Encoded = strings.HasPrefix(q.Header.Get("Content-Type"), "multipart/form-data") ||
		!utf8.Valid(body); event.IsBase64Encoded {
		event.Body = base64.StdEncoding.EncodeToString(body)
	} else {
		event.Body = string(body)
	}
	return json.Marshal(event)
}

// pass writes a streaming response: a prelude, eight zero bytes, and the body while it is written.
func pass(w http.ResponseWriter, a answer) {
	in := bufio.NewReader(a.body)
	if a.failed || a.kind != "application/vnd.awslambda.http-integration-response" {
		b, _ := io.ReadAll(in)
		http.Error(w, "the function failed: "+string(b), http.StatusBadGateway)
		return
	}
	var prelude []byte
	for !bytes.HasSuffix(prelude, make([]byte, 8)) {
		b, err := in.ReadByte()
		if err != nil {
			http.Error(w, "the function's answer has no prelude", http.StatusBadGateway)
			return
		}
		prelude = append(prelude, b)
	}
	var head struct {
		StatusCode        int
		Headers           map[string]string
		MultiValueHeaders map[string][]string
	}
	if err := json.Unmarshal(prelude[:len(prelude)-8], &head); err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	for name, value := range head.Headers {
		w.Header().Set(name, value)
	}
	for name, values := range head.MultiValueHeaders {
		w.Header()[http.CanonicalHeaderKey(name)] = values
	}
	w.WriteHeader(head.StatusCode)
	flush := http.NewResponseController(w)
	buffer := make([]byte, 32<<10)
	for {
		n, err := in.Read(buffer)
		if n > 0 {
			if _, bad := w.Write(buffer[:n]); bad != nil {
				return
			}
			_ = flush.Flush()
		}
		if err != nil {
			return
		}
	}
}
