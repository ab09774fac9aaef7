package embeddingtest

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"

	"agentplatform/internal/ai/embedding"
)

// Protocol describes an endpoint's requests and answers, for the suite's server.
type Protocol struct {
	Name       string // of a model that the adapter has
	Dimensions int    // that this model may be asked for, besides 0
	Usual      int    // dimensions that it has unless it is asked for some
	Texts      int    // at most, in a request
	Characters int    // at most, of a text

	// Open makes the adapter for the server's address. The adapter authenticates with Secret.
	Open   func(address string) embedding.Model
	Secret string

	// Read checks the form of a request, with testify. It returns its texts and the requested dimensions, or 0.
	Read func(t testing.TB, r *http.Request, body []byte) (texts []string, dimensions int)
	// Write returns the body of a reply with these vectors, each of which is a piece of JSON, and with a count of
	// tokens.
	Write func(vectors []string, tokens int64) (body string)
	// Counts reports that the model counts tokens.
	Counts bool
}

// call is a request as the server understood it.
type call struct {
	texts      []string
	dimensions int
	request    *http.Request
}

// answer is an answer of the server; the zero value is a proper one.
type answer struct {
	status  int // 0: 200
	header  http.Header
	body    string
	vectors []string // instead of a body
	tokens  int64
}

// server answers with the result of behave. It answers properly where behave is nil or returns nil.
type server struct {
	t        testing.TB
	protocol Protocol
	behave   func(a call) *answer

	mu    sync.Mutex
	calls []call
}

// open starts a server and the adapter for it.
func (p Protocol) open(t testing.TB, behave func(a call) *answer) (embedding.Model, *server) {
	s := &server{t: t, protocol: p, behave: behave}
	listening := httptest.NewServer(s)
	t.Cleanup(listening.Close)
	return p.Open(listening.URL), s
}

// count is how many calls there were.
func (s *server) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.calls)
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	texts, dimensions := s.protocol.Read(s.t, r, body)
	assert.LessOrEqual(s.t, len(texts), s.protocol.Texts)
	for _, text := range texts {
		assert.LessOrEqual(s.t, len([]rune(text)), s.protocol.Characters)
	}
	a := call{texts, dimensions, r}
	s.mu.Lock()
	s.calls = append(s.calls, a)
	s.mu.Unlock()
	var reply *answer
	if s.behave != nil {
		reply = s.behave(a)
	}
	if reply == nil {
		reply = &answer{vectors: s.protocol.vectors(a)}
	}
	s.send(w, *reply)
}

func (s *server) send(w http.ResponseWriter, a answer) {
	for name, values := range a.header {
		w.Header()[name] = values
	}
	w.Header().Set("Content-Type", "application/json")
	if a.status != 0 {
		w.WriteHeader(a.status)
	}
	if a.vectors != nil {
		a.body = s.protocol.Write(a.vectors, a.tokens)
	}
	_, _ = io.WriteString(w, a.body)
}

// vectors are those of a proper answer, in JSON.
func (p Protocol) vectors(a call) []string {
	dimensions := a.dimensions
	if dimensions == 0 {
		dimensions = p.Usual
	}
	list := []string{}
	for _, text := range a.texts {
		list = append(list, List(VectorOf(text, dimensions)))
	}
	return list
}

// List is a vector as a list in JSON.
func List(v []float32) string {
	var b bytes.Buffer
	b.WriteByte('[')
	for i, x := range v {
		if i > 0 {
			b.WriteString(", ")
		}
		b.Write(strconv.AppendFloat(nil, float64(x), 'g', -1, 32))
	}
	b.WriteByte(']')
	return b.String()
}
