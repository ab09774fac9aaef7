// Package linear checks the service for linearizability. Concurrent clients act on chats and on a cap over HTTP, and
// record when each call began and ended. Then the checker porcupine looks for a sequential order of the calls. A model
// must allow it, and it must agree with the recorded times. There must be one.
//
// Each outcome is known: a call whose response was lost is repeated with its key until it is answered, and lasts from
// its first attempt to its last. So the models describe the promises of docs/specification.md, including retries.
//
// The package knows the service only by its HTTP API. It imports the standard library and the checker. Only tests
// import it.
package linear

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"mime/multipart"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/anishathalye/porcupine"
)

// Service is the service under test.
type Service struct {
	Address func() (url, key string) // may change when the service restarts
	Agent   string
}

// patience is how long a call is repeated while the service is not reachable.
const patience = 40 * time.Second

type object = map[string]any

// answer is the response to a call.
type answer struct {
	status   int
	body     object
	replayed bool
}

func (a answer) text(name string) string {
	s, _ := a.body[name].(string)
	return s
}

// call repeats a request until it is answered.
func (s Service) call(ctx context.Context, key, method, path, contentType string, body []byte) (answer, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		url, own := s.Address()
		if key == "" {
			key = own
		}
		a, err := s.once(ctx, url, key, method, path, contentType, body)
		if err == nil && (a.status < 500 || a.text("code") == "run_failed") {
			return a, nil // any other failure leaves the outcome unknown
		}
		select {
		case <-ctx.Done():
			return a, fmt.Errorf("%s %s was never answered: %w", method, path, err)
		case <-time.After(5 * time.Millisecond): // the service restarts
		}
	}
}

func (s Service) once(
	ctx context.Context, url, key, method, path, contentType string, body []byte,
) (a answer, err error) {
	r, err := http.NewRequestWithContext(ctx, method, url+path, bytes.NewReader(body))
	if err != nil {
		return a, err
	}
	r.Header.Set("Authorization", "Bearer "+key)
	if contentType != "" {
		r.Header.Set("Content-Type", contentType)
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		return a, err
	}
	defer func() { _ = response.Body.Close() }()
	raw, err := io.ReadAll(response.Body)
	if err != nil {
		return a, err
	}
	a.status, a.replayed = response.StatusCode, response.Header.Get("Idempotent-Replayed") == "true"
	return a, json.Unmarshal(raw, &a.body)
}

func (s Service) send(ctx context.Context, key, method, path string, body any) (answer, error) {
	if body == nil {
		return s.call(ctx, key, method, path, "", nil)
	}
	b, err := json.Marshal(body)
	if err != nil {
		return answer{}, err
	}
	return s.call(ctx, key, method, path, "application/json", b)
}

func (s Service) post(ctx context.Context, key string, pairs ...string) (answer, error) {
	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	for i := 0; i+1 < len(pairs); i += 2 {
		_ = w.WriteField(pairs[i], pairs[i+1])
	}
	_ = w.Close()
	return s.call(ctx, key, http.MethodPost, "/chat", w.FormDataContentType(), b.Bytes())
}

// recorder records calls.
type recorder struct {
	began time.Time
	mu    sync.Mutex
	list  []porcupine.Operation
}

func (r *recorder) elapsed() time.Duration { return time.Since(r.began) }

// note records a call that began at an instant and ends now.
func (r *recorder) note(client int, began time.Duration, input, output any) {
	ended := time.Since(r.began)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.list = append(r.list,
		porcupine.Operation{ClientId: client, Input: input, Call: int64(began), Output: output, Return: int64(ended)})
}

// beside runs clients concurrently and returns their calls.
func beside(
	clients int, seed uint64, work func(client int, random *rand.Rand, r *recorder) error,
) ([]porcupine.Operation, error) {
	r := &recorder{began: time.Now()}
	errs := make(chan error, clients)
	var wg sync.WaitGroup
	for n := range clients {
		wg.Go(func() { errs <- work(n, rand.New(rand.NewPCG(seed, uint64(n))), r) })
	}
	wg.Wait()
	close(errs)
	for err := range errs {
		if err != nil {
			return nil, err
		}
	}
	return r.list, nil
}

// Verdict is the checker's result for a history.
type Verdict struct {
	Result     porcupine.CheckResult
	Operations int
	Succeeded  int
	Picture    func(file string) error // writes a drawing of it
	Words      string                  // of the first part without an order: its calls by start time
}

// checkTime limits the search for an order.
const checkTime = time.Minute

func check(m porcupine.Model, list []porcupine.Operation, succeeded func(porcupine.Operation) bool) Verdict {
	v := Verdict{Operations: len(list)}
	for _, o := range list {
		if succeeded(o) {
			v.Succeeded++
		}
	}
	result, info := porcupine.CheckOperationsVerbose(m, list, checkTime)
	v.Result = result
	if result != porcupine.Ok {
		v.Words = words(m, list)
	}
	v.Picture = func(file string) error { return porcupine.VisualizePath(m, info, file) }
	return v
}

func words(m porcupine.Model, list []porcupine.Operation) string {
	parts := [][]porcupine.Operation{list}
	if m.Partition != nil {
		parts = m.Partition(list)
	}
	for _, part := range parts {
		if porcupine.CheckOperationsTimeout(m, part, checkTime) == porcupine.Ok {
			continue
		}
		slices.SortFunc(part, func(a, b porcupine.Operation) int { return int(a.Call - b.Call) })
		var b strings.Builder
		for _, o := range part {
			_, _ = fmt.Fprintf(&b, "%9.3f %9.3f ms  client %2d  %s\n", float64(o.Call)/1e6, float64(o.Return)/1e6,
				o.ClientId, m.DescribeOperation(o.Input, o.Output))
		}
		return b.String()
	}
	return ""
}
