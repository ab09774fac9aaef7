package main

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log"
	"maps"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var entries = flag.Int("entries", 100, "how many states are entered that chaotic webhook receivers are told of")

// behaviour is how a receiver handles attempt n of a delivery, from 1.
type behaviour struct {
	serve    func(w http.ResponseWriter, r *http.Request, n int)
	state    string // final state of its deliveries
	attempts int    // exact number of attempts; 0: it varies
}

// behaviours are those of receivers, by the first segment of the path. Two more are separate servers: one with a bad
// certificate, and one whose name resolves to a forbidden address.
func behaviours() map[string]behaviour {
	status := func(code int) func(http.ResponseWriter, *http.Request, int) {
		return func(w http.ResponseWriter, _ *http.Request, _ int) { w.WriteHeader(code) }
	}
	redirect := func(code int) func(http.ResponseWriter, *http.Request, int) {
		return func(w http.ResponseWriter, r *http.Request, _ int) {
			http.Redirect(w, r, "https://169.254.169.254/", code)
		}
	}
	// first applies a behaviour to the first attempts and accepts the next.
	first := func(
		times int, treat func(w http.ResponseWriter, r *http.Request),
	) func(http.ResponseWriter, *http.Request, int) {
		return func(w http.ResponseWriter, r *http.Request, n int) {
			if n <= times {
				treat(w, r)
			}
		}
	}
	// Blocks until the sender gives up and closes the connection. The request's context cannot be used: the server's
	// check of the connection may be aborted by the previous request on it, and the context then ends early.
	hang := func(w http.ResponseWriter) {
		connection, _, err := http.NewResponseController(w).Hijack()
		if err == nil {
			_, _ = io.Copy(io.Discard, connection)
			_ = connection.Close()
		}
	}
	reset := func(w http.ResponseWriter) {
		connection, _, err := http.NewResponseController(w).Hijack()
		if err == nil {
			_ = connection.(*tls.Conn).NetConn().(*net.TCPConn).SetLinger(0)
			_ = connection.Close()
		}
	}
	begun := func(w http.ResponseWriter) {
		w.WriteHeader(http.StatusOK)
		_ = http.NewResponseController(w).Flush()
	}
	return map[string]behaviour{
		"200": {status(http.StatusOK), "delivered", 1},
		"204": {status(http.StatusNoContent), "delivered", 1},
		"301": {redirect(http.StatusMovedPermanently), "failed", 1},
		"302": {redirect(http.StatusFound), "failed", 1},
		"400": {status(http.StatusBadRequest), "failed", 1},
		"404": {status(http.StatusNotFound), "failed", 1},
		"410": {status(http.StatusGone), "failed", 1},
		"429": {first(1, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", "1")
			w.WriteHeader(http.StatusTooManyRequests)
		}), "delivered", 2},
		"500-500": {first(2, func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusInternalServerError)
		}), "delivered", 3},
		"503": {first(1, func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusServiceUnavailable)
		}), "delivered", 2},
		"hang": {first(1, func(w http.ResponseWriter, _ *http.Request) { hang(w) }), "delivered", 2},
		// The status 200 was sent.
		"hang-200": {first(1, func(w http.ResponseWriter, _ *http.Request) { begun(w); hang(w) }), "delivered", 1},
		"drip": {first(1, func(w http.ResponseWriter, r *http.Request) {
			begun(w)
			for tick := time.NewTicker(20 * time.Millisecond); ; { // until the sender has read enough
				select {
				case <-tick.C:
					_, _ = w.Write([]byte("drop"))
					_ = http.NewResponseController(w).Flush()
				case <-r.Context().Done():
					tick.Stop()
					return
				}
			}
		}), "delivered", 1},
		// The response is lost, too, although the body arrived.
		"reset":     {first(1, func(w http.ResponseWriter, _ *http.Request) { reset(w) }), "delivered", 2},
		"half-200":  {first(1, func(w http.ResponseWriter, _ *http.Request) { begun(w); reset(w) }), "delivered", 1},
		"half-head": {first(1, func(w http.ResponseWriter, _ *http.Request) { half(w) }), "delivered", 2},
		"huge": {func(w http.ResponseWriter, _ *http.Request, _ int) {
			for range 100 {
				if _, err := w.Write(make([]byte, 1<<20)); err != nil {
					return // the sender reads no more than it needs
				}
			}
		}, "delivered", 1},
		"slow-tls": {status(http.StatusOK), "delivered", 1},
	}
}

// half sends half of a response header.
func half(w http.ResponseWriter) {
	if connection, _, err := http.NewResponseController(w).Hijack(); err == nil {
		_, _ = io.WriteString(connection, "HTTP/1.1 200 O")
		_ = connection.Close()
	}
}

// chaos is the receivers and what they received.
type chaos struct {
	url, slow, bad, inside string
	trust                  string
	hosts                  []string

	mu       sync.Mutex
	got      map[string][][]byte // bodies, by delivery
	trespass atomic.Int64        // connections to forbidden addresses
}

// lazy is a listener whose connections wait a second before they can be used.
type lazy struct{ net.Listener }

func (l lazy) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &lazyConn{Conn: c}, nil
}

type lazyConn struct {
	net.Conn
	once sync.Once
}

func (c *lazyConn) Read(b []byte) (int, error) {
	c.once.Do(func() { <-time.After(time.Second) }) // the behaviour under test, not a wait for an event
	return c.Conn.Read(b)
}

func newChaos(t *testing.T) *chaos {
	c := &chaos{got: map[string][][]byte{}}
	all := behaviours()
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		raw, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		id := r.Header.Get("Webhook-Id")
		c.mu.Lock()
		c.got[id] = append(c.got[id], raw)
		n := len(c.got[id])
		c.mu.Unlock()
		all[strings.Split(r.URL.Path, "/")[1]].serve(w, r, n)
	})
	quiet := func(s *httptest.Server) *httptest.Server {
		s.Config.ErrorLog = log.New(io.Discard, "", 0) // senders that give up are expected
		s.EnableHTTP2 = false
		s.StartTLS()
		t.Cleanup(s.Close)
		return s
	}
	plain, slow := quiet(httptest.NewUnstartedServer(handler)), httptest.NewUnstartedServer(handler)
	slow.Listener = lazy{slow.Listener}
	slow = quiet(slow)
	c.url, c.slow = plain.URL, slow.URL
	c.trust = trusting(t, plain)

	trespassed := http.HandlerFunc(func(http.ResponseWriter, *http.Request) { c.trespass.Add(1) })
	bad := httptest.NewUnstartedServer(trespassed)
	bad.TLS = &tls.Config{Certificates: []tls.Certificate{selfSigned(t)}}
	c.bad = quiet(bad).URL
	inside, err := net.Listen("tcp", "127.0.0.1:0") // not among the allowed addresses
	require.NoError(t, err)
	t.Cleanup(func() { _ = inside.Close() })
	go func() {
		for {
			connection, err := inside.Accept()
			if err != nil {
				return
			}
			c.trespass.Add(1)
			_ = connection.Close()
		}
	}()
	_, port, err := net.SplitHostPort(inside.Addr().String())
	require.NoError(t, err)
	c.inside = "https://localhost:" + port // a name: its address is checked at the connection
	for _, u := range []string{c.url, c.slow, c.bad} {
		c.hosts = append(c.hosts, strings.TrimPrefix(u, "https://"))
	}
	return c
}

// selfSigned is a certificate that no client trusts.
func selfSigned(t *testing.T) tls.Certificate {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
	raw, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	require.NoError(t, err)
	return tls.Certificate{Certificate: [][]byte{raw}, PrivateKey: key}
}

// address is the callback URL of a run: "bad" and "inside" are servers instead of behaviours.
func (c *chaos) address(name string, n int) string {
	switch name {
	case "bad":
		return fmt.Sprintf("%s/bad/%d", c.bad, n)
	case "inside":
		return fmt.Sprintf("%s/inside/%d", c.inside, n)
	case "slow-tls":
		return fmt.Sprintf("%s/slow-tls/%d", c.slow, n)
	default:
		return fmt.Sprintf("%s/%s/%d", c.url, name, n)
	}
}

// delivery is a delivery as the API shows it.
type delivery struct {
	ID       string `json:"delivery_id"`
	Status   string `json:"status_of_run"`
	State    string `json:"state"`
	Attempts []struct {
		Status    int   `json:"status"`
		LatencyMS int64 `json:"latency_ms"`
	} `json:"attempts"`
}

// With any behaviour of receivers, each state that a run entered has one delivery, with the same id and the same bytes
// in each attempt. It arrives if the receiver recovers. It is repeated only if the sender cannot know whether it
// arrived, and is never sent elsewhere.
func TestChaosOfReceivers(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make test runs it")
	}
	c := newChaos(t)
	p := built(t)
	p.environ = []string{"WEBHOOK_ALLOW_HOSTS=" + strings.Join(c.hosts, ","), c.trust}
	p.start()
	defer p.stop()
	type client struct {
		*program
		agent string
	}
	var homes []client // deliveries in flight are limited per organization
	for range 4 {
		theirs, agent := p.organization(1000)
		homes = append(homes, client{theirs, agent})
	}

	all := behaviours()
	names := append(slices.Sorted(maps.Keys(all)), "bad", "inside")
	require.Len(t, names, 20)
	all["bad"], all["inside"] = behaviour{state: "pending"}, behaviour{state: "failed", attempts: 1}

	// Every other run pauses with a question and is then cancelled: two states.
	type run struct {
		id, name string
		home     client
	}
	var runs []run
	var mu sync.Mutex
	var next atomic.Int64
	var clients sync.WaitGroup
	for range 24 {
		clients.Go(func() {
			for n := int(next.Add(1)); n <= *entries*2/3+20 && !t.Failed(); n = int(next.Add(1)) {
				home := homes[n/len(names)/2%len(homes)]
				name, message := names[n%len(names)], []string{"hello", "/ask Which?"}[n/len(names)%2]
				_, started, err := home.post(t.Context(), "agent_id", home.agent, "message", message, "callback_url",
					c.address(name, n))
				assert.NoError(t, err)
				if id, _ := started["run_id"].(string); assert.NotEmpty(t, id, "%s: %v", name, started) {
					if started["status"] == "awaiting_input" {
						home.make("/runs/"+id+"/cancel", `{}`)
					}
					mu.Lock()
					runs = append(runs, run{id, name, home})
					mu.Unlock()
				}
			}
		})
	}
	clients.Wait()

	deadline := time.Now().Add(10 * time.Minute)
	entered, repeated, late, timely := 0, 0, 0, map[string]bool{}
	cuts, hangs := map[string]int{"reset": 1, "half-head": 1}, map[string]int{"hang": 1}
	const shortest = 4900 // ms: the shortest of a sender's time limits is 5 s
	for _, r := range runs {
		b := all[r.name]
		var list []delivery
		settled := func() bool {
			list = r.home.deliveries(r.id)
			return len(list) > 0 &&
				!slices.ContainsFunc(list, func(d delivery) bool { return d.State != b.state || len(d.Attempts) == 0 })
		}
		for !settled() && time.Now().Before(deadline) && !t.Failed() {
			<-time.After(50 * time.Millisecond)
		}
		ids := map[string]bool{}
		for _, d := range list {
			entered++
			assert.Equal(t, b.state, d.State, "%s: %+v", r.name, d)
			assert.False(t, ids[d.ID], "an id is there twice")
			ids[d.ID] = true
			c.mu.Lock()
			got := c.got[d.ID]
			c.mu.Unlock()
			cut, timedOut := 0, 0
			for _, a := range d.Attempts {
				switch {
				case a.Status != 0:
				case a.LatencyMS < shortest:
					cut++
				default:
					timedOut++
				}
			}
			switch r.name {
			case "bad":
				assert.Empty(t, got, r.name)
			case "inside":
				assert.Empty(t, got, r.name)
				assert.Len(t, d.Attempts, b.attempts, "%s: %+v", r.name, d)
			default: // on a busy machine a few more time out; any other missing response is an error
				assert.Equal(t, cuts[r.name], cut, "%s: tries that were cut off: %+v", r.name, d)
				more := timedOut - hangs[r.name]
				late += more
				timely[r.name] = timely[r.name] || more == 0
				assert.Len(t, d.Attempts, b.attempts+more, "%s: %+v", r.name, d)
				assert.GreaterOrEqual(t, len(got), b.attempts, "%s: pushes that came: %+v", r.name, d)
				assert.LessOrEqual(t, len(got), len(d.Attempts), "%s: pushes that came", r.name)
			}
			for _, body := range got {
				assert.True(t, bytes.Equal(got[0], body), "%s: other bytes", r.name)
				assert.Contains(t, string(body), d.ID)
			}
			repeated += max(0, len(got)-1)
		}
		states := map[bool]int{true: 2,
			false: 1}[slices.ContainsFunc(list, func(d delivery) bool { return d.Status == "awaiting_input" })]
		assert.Len(t, list, states, "%s", r.name)
	}
	assert.Zero(t, c.trespass.Load(), "connections to where none may be")
	assert.GreaterOrEqual(t, entered, *entries)
	// One pause of the machine delays all that connect during it.
	assert.LessOrEqual(t, late, 10+entered/10, "tries that got no answer though there was one")
	for name, once := range timely {
		assert.True(t, once, "%s: each delivery had a try that got no answer though there was one", name)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	t.Logf("%d states entered by %d runs, %d deliveries came, %d repetitions, %d tries were answered too late", entered,
		len(runs), len(c.got), repeated, late)
}

func (p *program) deliveries(run string) []delivery {
	_, answer, err := p.call(p.t.Context(), "GET", "/webhooks/deliveries?run_id="+run, "", nil)
	assert.NoError(p.t, err)
	raw, err := json.Marshal(answer["deliveries"])
	assert.NoError(p.t, err)
	var list []delivery
	assert.NoError(p.t, json.Unmarshal(raw, &list))
	return list
}
