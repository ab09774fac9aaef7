package scenario

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"mime/multipart"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/api/apidoc/apidoctest"
)

// World is a running service.
type World struct {
	URL string // its base, which ends in /api/v1
	Key string // an operator key
	// Spread means that the world has several processes. A change of rights then takes up to 30 s to take effect
	// everywhere.
	Spread bool
}

// Harness starts worlds.
type Harness interface {
	// Start starts a world with these settings in addition to its own, and stops it at the end of the test.
	Start(t *testing.T, settings map[string]string) World
}

// Story is one scenario.
type Story struct {
	Name     string
	Settings string // name of the world that it needs; empty: the default one
	Run      func(*Actor)
}

// startDeadline is the start deadline of worlds that test it. A slow machine needs less to start the first runs.
const startDeadline = 45 * time.Second

// worlds has the settings of the worlds that scenarios need.
var worlds = map[string]map[string]string{
	"": {"OBSERVE_WINDOW": "25s"},
	"hasty": {"OBSERVE_WINDOW": "25s", "PAUSE_EXPIRY": "1500ms", "ACTIVE_LIMIT": "1s", "HEARTBEAT": "1s",
		"MAX_BODY": "1048576"},
	"brief": {"OBSERVE_WINDOW": "300ms", "START_DEADLINE": startDeadline.String(),
		"PAUSED_RUNS": "2", "EMBEDDING_MODELS": "openai/counting"}, // see receiver.embed
	"stuck": {"START_DEADLINE": startDeadline.String(), "WORKERS": "2"},
}

// Run runs all scenarios in the worlds that a harness starts.
func Run(t *testing.T, h Harness) {
	stories := Stories()
	for name, settings := range worlds {
		t.Run("world="+name, func(t *testing.T) {
			t.Parallel()
			receiver := newReceiver(t)
			world := h.Start(t, receiver.settings(settings))
			for _, s := range stories {
				if s.Settings != name {
					continue
				}
				t.Run(s.Name, func(t *testing.T) {
					t.Parallel()
					s.Run(newActor(t, world, receiver))
				})
			}
		})
	}
}

// settings returns the settings of a world that may call the receiver, with further ones.
func (r *receiver) settings(more map[string]string) map[string]string {
	full := map[string]string{
		"WEBHOOK_ALLOW_HOSTS": r.host, "WEBHOOK_CA_FILE": r.caFile, "WEBHOOK_SECRET": "a plain secret",
		"TOOL_ALLOW_HOSTS": r.host, "TOOL_CA_FILE": r.caFile,
		"KNOWLEDGE_ALLOW_HOSTS": strings.TrimPrefix(r.site.URL, "http://"),
		"RATE_LIMIT":            "1000000", "RATE_BURST": "1000000", "USER_CAP": "20", "ORGANIZATION_CAP": "40",
	}
	if more["EMBEDDING_MODELS"] != "" {
		full["OPENAI_BASE_URL"] = r.site.URL + "/v1"
	}
	maps.Copy(full, more)
	return full
}

// Visit runs scenarios against a deployed service one after the other. It runs those of conversations and of streams
// that need no settings of their own and no receiver. Each has its own organization, which is not deleted.
func Visit(t *testing.T, w World) {
	for _, s := range slices.Concat(chatScenarios(), streamScenarios()) {
		if s.Settings == "" {
			t.Run(s.Name, func(t *testing.T) { s.Run(newActor(t, w, nil)) })
		}
	}
}

// Stories lists all scenarios.
func Stories() []Story {
	var all []Story
	for _, part := range [][]Story{
		chatScenarios(), runScenarios(), transitionScenarios(), errorScenarios(), limitScenarios(), streamScenarios(),
		tenantScenarios(), webhookScenarios(),
		toolkitScenarios(), policyScenarios(), agentScenarios(), groupScenarios(), budgetScenarios(), fileScenarios(),
		deletionScenarios(),
		knowledgeScenarios(), searchScenarios(), citationScenarios(),
		mcpScenarios(), a2aScenarios(), aguiScenarios(), responsesScenarios(), repeatedResponses(), powerScenarios(),
		actingScenarios(), listScenarios(), decisionScenarios(),
		accessScenarios(), rightScenarios(), sightScenarios(), hazardScenarios(), analyticsScenarios(),
	} {
		all = append(all, part...)
	}
	return all
}

// Actor runs one scenario: a client with its own organization, admin key and demo agent.
type Actor struct {
	*testing.T
	world    World
	receiver *receiver

	Organization, User, Agent, Key string

	in string // the organization that each request names; empty: none
}

func newActor(t *testing.T, w World, r *receiver) *Actor {
	x := &Actor{T: t, world: w, receiver: r, Key: w.Key}
	x.Organization = x.post("/organizations",
		object{"name": t.Name(), "chat_visibility": "organization"}).is(201).text("organization_id")
	return x.inside(x.Organization)
}

// inside returns a client with a new user, admin key and agent in an organization. nil means the scope without
// organization.
func (x *Actor) inside(organization any) *Actor {
	y := &Actor{T: x.T, world: x.world, receiver: x.receiver, Key: x.world.Key}
	y.Organization, _ = organization.(string)
	y.User = y.post("/users",
		object{"email": "a@example.com", "role": "admin", "organization_id": organization}).is(201).text("user_id")
	y.Key = y.post("/api-keys",
		object{"name": "k", "user_id": y.User, "level": "admin", "organization_id": organization}).is(201).text("key")
	y.Agent = y.post("/agents", object{"name": "Demo"}).is(201).text("agent_id")
	return y
}

// with returns the same client with another key.
func (x *Actor) with(key string) *Actor {
	y := *x
	y.Key, y.in = key, ""
	return &y
}

// acting returns the same client, which names an organization in each request.
func (x *Actor) acting(organization string) *Actor {
	y := *x
	y.in = organization
	return &y
}

// colleague returns another user of the same organization, with a key of a level.
func (x *Actor) colleague(role, level string) *Actor {
	y := *x
	y.User = x.post("/users", object{"email": freshEmail(), "role": role}).is(201).text("user_id")
	y.Key = x.post("/api-keys", object{"name": "k", "user_id": y.User, "level": level}).is(201).text("key")
	return &y
}

var emails atomic.Int64

// freshEmail returns an address that no other user has.
func freshEmail() string { return fmt.Sprintf("u%d@example.com", emails.Add(1)) }

type object = map[string]any

// reply is a response, read completely.
type reply struct {
	x      *Actor
	status int
	header http.Header
	raw    string
	body   object
}

func (x *Actor) request(method, path string, body io.Reader, header ...string) *http.Request {
	x.Helper()
	r, err := http.NewRequestWithContext(x.Context(), method, x.world.URL+path, body)
	require.NoError(x, err)
	if x.Key != "" {
		r.Header.Set("Authorization", "Bearer "+x.Key)
	}
	if x.in != "" {
		r.Header.Set("X-Organization", x.in)
	}
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	return r
}

// client follows redirects to presigned addresses, without the key: S3 refuses a request that is signed twice. Go
// removes the header for another host name, but not for another port of one machine.
var client = &http.Client{CheckRedirect: func(next *http.Request, via []*http.Request) error {
	if next.URL.Host != via[0].URL.Host {
		next.Header.Del("Authorization")
	}
	if len(via) == 10 {
		return errors.New("redirected ten times")
	}
	return nil
}}

func (x *Actor) do(r *http.Request) reply {
	x.Helper()
	response, err := client.Do(r)
	require.NoError(x, err)
	defer func() { _ = response.Body.Close() }()
	raw, err := io.ReadAll(response.Body)
	require.NoError(x, err)
	require.NoError(x, x.documented(r, response, raw))
	a := reply{x: x, status: response.StatusCode, header: response.Header, raw: string(raw)}
	_ = json.Unmarshal(raw, &a.body)
	return a
}

// documents has the OpenAPI documents of worlds, by their URLs.
var documents sync.Map

// documented returns an error unless the world's OpenAPI document has the response.
func (x *Actor) documented(r *http.Request, response *http.Response, body []byte) error {
	if x.world.Spread || response.Request.URL.Host != r.URL.Host {
		return nil // there is a gateway with answers of its own; or it is the bytes of a bucket
	}
	document, err := x.api()
	if err != nil {
		return err
	}
	return document.Answer(r.Method, r.URL, response.StatusCode, response.Header, body)
}

// api returns the OpenAPI document of the actor's world.
func (x *Actor) api() (*apidoctest.Document, error) {
	read, _ := documents.LoadOrStore(x.world.URL, sync.OnceValues(func() (*apidoctest.Document, error) {
		answer, err := http.Get(x.world.URL + "/openapi.json") //nolint:noctx // of a test
		if err != nil {
			return nil, err
		}
		defer func() { _ = answer.Body.Close() }()
		document, err := io.ReadAll(answer.Body)
		if err != nil {
			return nil, err
		}
		return apidoctest.New(document)
	}))
	return read.(func() (*apidoctest.Document, error))()
}

// gone reports whether a path is not found any more. It does not read the body, which may be cut off while the object
// is deleted.
func (x *Actor) gone(path string) bool {
	x.Helper()
	response, err := client.Do(x.request(http.MethodGet, path, nil))
	require.NoError(x, err)
	defer func() { _ = response.Body.Close() }()
	return response.StatusCode == http.StatusNotFound
}

func (x *Actor) get(path string, header ...string) reply {
	x.Helper()
	return x.do(x.request(http.MethodGet, path, nil, header...))
}

func (x *Actor) send(method, path string, body any, header ...string) reply {
	x.Helper()
	var reader io.Reader
	if body != nil {
		b, err := json.Marshal(body)
		require.NoError(x, err)
		reader = bytes.NewReader(b)
		header = append([]string{"Content-Type", "application/json"}, header...)
	}
	return x.do(x.request(method, path, reader, header...))
}

func (x *Actor) post(path string, body any, header ...string) reply {
	x.Helper()
	return x.send(http.MethodPost, path, body, header...)
}

func (x *Actor) patch(path string, body any, header ...string) reply {
	x.Helper()
	return x.send(http.MethodPatch, path, body, header...)
}

func (x *Actor) delete(path string) reply {
	x.Helper()
	return x.send(http.MethodDelete, path, nil)
}

// form builds a multipart form of pairs. A value that begins with "file:" or "csv:" is sent as a file.
func form(pairs ...string) (body *bytes.Buffer, contentType string) {
	body = &bytes.Buffer{}
	w := multipart.NewWriter(body)
	for i := 0; i+1 < len(pairs); i += 2 {
		kind, content, _ := strings.Cut(pairs[i+1], ":")
		if ending := map[string]string{"file": ".txt", "csv": ".csv"}[kind]; ending != "" {
			part, _ := w.CreateFormFile(pairs[i], pairs[i]+ending)
			_, _ = io.WriteString(part, content)
			continue
		}
		_ = w.WriteField(pairs[i], pairs[i+1])
	}
	_ = w.Close()
	return body, w.FormDataContentType()
}

func (x *Actor) chatRequest(pairs ...string) *http.Request {
	x.Helper()
	named := false
	for i := 0; i < len(pairs); i += 2 {
		named = named || pairs[i] == "agent_id"
	}
	if !named {
		pairs = append([]string{"agent_id", x.Agent}, pairs...)
	}
	body, kind := form(pairs...)
	return x.request(http.MethodPost, "/chat", body, "Content-Type", kind)
}

// chat posts a message to the client's agent.
func (x *Actor) chat(pairs ...string) reply {
	x.Helper()
	return x.do(x.chatRequest(pairs...))
}

// begin starts a run and returns its id without waiting for its end.
func (x *Actor) begin(pairs ...string) string {
	x.Helper()
	return x.chat(append(pairs, "wait", "false")...).is(202).text("run_id")
}

// startLongRun starts a run that continues until it is cancelled, at the latest at the end of the scenario.
func (x *Actor) startLongRun(pairs ...string) string {
	x.Helper()
	run := x.begin(append(pairs, "message", "/sleep 2m")...)
	x.Cleanup(func() {
		r := x.request(http.MethodPost, "/runs/"+run+"/cancel", nil).WithContext(context.Background())
		if response, err := http.DefaultClient.Do(r); err == nil {
			_ = response.Body.Close()
		}
	})
	return run
}

// stop cancels a run and waits until it has ended.
func (x *Actor) stop(run string) {
	x.Helper()
	x.post("/runs/"+run+"/cancel", nil).is(200)
	x.await(run, "cancelled")
}

// stopAll cancels the runs of the actor's agent, which are n, and does not wait for their ends.
func (x *Actor) stopAll(n int) {
	x.Helper()
	x.post("/runs/cancel", object{"filter": object{"agent_id": x.Agent}, "confirm_count": n}).is(200)
}

// is checks the response's status.
func (a reply) is(status int) reply {
	a.x.Helper()
	require.Equal(a.x, status, a.status, a.raw)
	return a
}

// problem checks an error's status and code, and the form of all errors.
func (a reply) problem(status int, code string) reply {
	a.x.Helper()
	require.Equal(a.x, status, a.status, a.raw)
	assert.Equal(a.x, code, a.body["code"], a.raw)
	assert.Equal(a.x, "error", a.body["status"])
	assert.NotEmpty(a.x, a.body["message"])
	assert.Equal(a.x, a.body["message"], a.body["detail"])
	assert.Equal(a.x, a.header.Get("X-Request-Id"), a.body["request_id"])
	if status == 429 || status == 503 {
		assert.Regexp(a.x, `^[1-9][0-9]*$`, a.header.Get("Retry-After"))
	}
	return a
}

// names checks that a 400 names the field.
func (a reply) names(field string) reply {
	a.x.Helper()
	a.problem(400, "invalid_request")
	assert.Contains(a.x, a.raw, field)
	return a
}

// at returns a member, by names of objects and indices of lists.
func (a reply) at(path ...any) any {
	a.x.Helper()
	var v any = a.body
	for _, p := range path {
		switch p := p.(type) {
		case string:
			m, ok := v.(object)
			require.True(a.x, ok, "%v: no object at %v: %s", path, p, a.raw)
			v = m[p]
		case int:
			l, ok := v.([]any)
			require.True(a.x, ok && p < len(l), "%v: nothing at %d: %s", path, p, a.raw)
			v = l[p]
		}
	}
	return v
}

func (a reply) text(path ...any) string {
	a.x.Helper()
	s, ok := a.at(path...).(string)
	require.True(a.x, ok, "%v is no text: %s", path, a.raw)
	return s
}

func (a reply) number(path ...any) float64 {
	a.x.Helper()
	n, ok := a.at(path...).(float64)
	require.True(a.x, ok, "%v is no number: %s", path, a.raw)
	return n
}

func (a reply) list(path ...any) []any {
	a.x.Helper()
	l, ok := a.at(path...).([]any)
	require.True(a.x, ok, "%v is no list: %s", path, a.raw)
	return l
}

// patience limits every wait of a scenario.
const patience = 3 * time.Minute

// await polls a run until it has a status.
func (x *Actor) await(run, status string) reply {
	x.Helper()
	var last reply
	for end := time.Now().Add(patience); time.Now().Before(end); {
		last = x.get("/runs/" + run + "?wait_ms=2000").is(200)
		if last.text("status") == status {
			return last
		}
		switch last.text("status") {
		case "completed", "failed", "cancelled", "timed_out":
			require.Equal(x, status, last.text("status"), last.raw)
		}
	}
	require.Fail(x, "the run never was "+status, last.raw)
	return last
}

// eventually repeats ok until it returns true, with growing intervals: frequent requests slow a deployment on one
// machine.
func (x *Actor) eventually(what string, ok func() bool) {
	x.Helper()
	ctx, cancel := context.WithTimeout(x.Context(), patience)
	defer cancel()
	for pause := 20 * time.Millisecond; !ok(); pause = min(pause*3/2, time.Second) {
		select {
		case <-ctx.Done():
			require.Fail(x, what+" never happened")
		case <-time.After(pause):
		}
	}
}

// awaitTurn is await for a parked message. Its run does not exist before it starts.
func (x *Actor) awaitTurn(parked, status string) reply {
	x.Helper()
	x.eventually("the parked turn", func() bool { return x.get("/runs/"+parked).status == 200 })
	return x.await(parked, status)
}

// interrupt returns the id of a paused run's nth pending interrupt.
func (a reply) interrupt(n int) string {
	a.x.Helper()
	return a.text("interrupts", n, "id")
}

func decide(pairs ...string) object {
	var list []object
	for i := 0; i+1 < len(pairs); i += 2 {
		list = append(list, object{"interrupt_id": pairs[i], "decision": pairs[i+1]})
	}
	return object{"decisions": list}
}

func tool(name string, arguments object) string {
	b, _ := json.Marshal(arguments)
	return fmt.Sprintf("/tool %s %s", name, b)
}

// patient makes an agent whose runs may be active for longer than the world's limit.
func (x *Actor) patient() string {
	x.Helper()
	return x.post("/agents",
		object{"name": "long", "limits": object{"max_active_seconds": 180}}).is(201).text("agent_id")
}

// careful makes an agent that needs approval for every tool call.
func (x *Actor) careful() string {
	x.Helper()
	return x.post("/agents", object{"name": "Careful", "approval": object{"mode": "always"}}).is(201).text("agent_id")
}
