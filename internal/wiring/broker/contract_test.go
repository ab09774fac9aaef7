package broker_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/ai/embedding"
	"agentplatform/internal/ai/embedding/builtinembedding"
	"agentplatform/internal/ai/embedding/embeddingtest"
	"agentplatform/internal/ai/model"
	"agentplatform/internal/ai/provider"
	"agentplatform/internal/ai/tool"
	"agentplatform/internal/org/catalog"
	"agentplatform/internal/org/toolkit"
	"agentplatform/internal/platform/host"
	"agentplatform/internal/platform/problem"
	"agentplatform/internal/run/webhook"
	"agentplatform/internal/store/blob/memblob"
	"agentplatform/internal/store/record"
	"agentplatform/internal/store/seal"
	"agentplatform/internal/store/seal/keyseal"
	"agentplatform/internal/store/table/memtable"
	"agentplatform/internal/wiring/broker"
)

var quiet = slog.New(slog.DiscardHandler)

// world is a deployment whose secrets a broker can open. Tests call it directly, or through the broker.
type world struct {
	kind         *kind
	catalogue    *catalogue
	posted       *http.Request
	toolkits     *toolkit.Toolkits
	organization string
	id           string // of a toolkit with credentials

	asker  toolkit.Asker
	prober webhook.Prober
	models provider.Models
}

// ways are the ways to call a world.
var ways = []string{"by itself", "through a broker"}

func newWorld(t *testing.T, way string) *world {
	t.Helper()
	machine := host.System()
	store := record.New(memtable.New(machine.Now), &memblob.Store{}, machine)
	w := &world{
		kind: &kind{names: []string{"stays", "goes", "changes"}}, catalogue: &catalogue{names: []string{"small"}},
		organization: machine.NewID(),
	}
	w.toolkits = &toolkit.Toolkits{
		Store: store, Cached: store.Cached(), Host: machine, Sealer: sealer(t, 1),
		Kinds: map[string]tool.Kind{toolkit.Builtin: &kind{names: []string{"echo"}}, "mcp": w.kind},
	}
	name, address := "one", "https://a.example.com"
	made, err := w.toolkits.Create(t.Context(), w.organization, toolkit.Draft{
		Kind: "mcp", Name: &name, URL: &address, Credentials: &tool.Credentials{Type: "bearer", Token: "open-sesame"},
	})
	require.NoError(t, err)
	w.id, w.kind.let = made.Value.ID, tool.Credentials{}
	secret, err := w.toolkits.Sealer.Seal(t.Context(), w.organization, "of the organization")
	require.NoError(t, err)
	_, err = record.Create(t.Context(), store, catalog.Organization{ID: w.organization, Secret: secret}, "made")
	require.NoError(t, err)
	sender := &webhook.Sender{Store: store, Host: machine, Client: w, Log: quiet, Secret: "whsec_MDEyMw==",
		Sealer: w.toolkits.Sealer}
	set := &provider.Set{Host: machine, Catalogues: map[string]model.Catalogue{
		"demo": w.catalogue, "near": w.catalogue, "away": &catalogue{down: errors.New("connection refused")},
	}}
	w.asker, w.prober, w.models = w.toolkits, sender, set
	if way == "by itself" {
		return w
	}
	client := &broker.Client{Broker: &broker.Broker{Toolkits: w.toolkits, Webhooks: sender, Models: set, Log: quiet}}
	w.asker, w.prober, w.models = client, client, &broker.Models{Client: client, Near: &provider.Set{
		Host: machine, Catalogues: map[string]model.Catalogue{"demo": &catalogue{}},
	}}
	return w
}

func sealer(t *testing.T, first byte) seal.Sealer {
	t.Helper()
	key := make([]byte, seal.KeySize)
	key[0] = first
	s, err := keyseal.New(key)
	require.NoError(t, err)
	return s
}

func (w *world) scope() record.Scope { return record.Of(w.organization) }

// Do implements [webhook.Post].
func (w *world) Do(r *http.Request) (*http.Response, error) {
	w.posted = r
	if strings.Contains(r.URL.Host, "down") {
		return nil, errors.New("it is down")
	}
	return &http.Response{StatusCode: http.StatusTeapot, Body: io.NopCloser(strings.NewReader("short and stout"))}, nil
}

// kind is a kind of toolkits whose server returns configured answers.
type kind struct {
	names  []string
	about  string
	fails  error
	panics bool
	size   int // of a result
	let    tool.Credentials
	ctx    context.Context //nolint:containedctx // of the last call
}

func (k *kind) ask(ctx context.Context, e tool.Endpoint) error {
	if k.let, k.ctx = e.Credentials, ctx; k.panics {
		panic("open-sesame")
	}
	return k.fails
}

func (k *kind) Discover(ctx context.Context, e tool.Endpoint) ([]tool.Definition, error) {
	var list []tool.Definition
	for _, name := range k.names {
		list = append(list, tool.Definition{
			Spec: tool.Spec{Name: name, Description: k.about,
				Parameters: json.RawMessage(`{"type":"object","properties":{"n":{"type":"number"}}}`)},
			Binding: json.RawMessage(`{"tool":"` + name + `"}`), ReadOnly: true,
		})
	}
	return list, k.ask(ctx, e)
}

func (k *kind) Call(ctx context.Context, e tool.Endpoint, d tool.Definition, i tool.Invocation) (tool.Result, error) {
	text := d.Name + " with " + string(i.Arguments) + " <&>" + strings.Repeat("x", k.size)
	return tool.TextResult(text), k.ask(ctx, e)
}

func (k *kind) Browse(ctx context.Context, e tool.Endpoint) (tool.Offerings, error) {
	return tool.Offerings{
		Resources: []tool.Resource{{URI: "file:///a", Name: "a", Description: "b", ContentType: "text/plain"}},
		Prompts: []tool.Prompt{{Name: "p", Description: "q", Arguments: []string{"r"}},
			{Name: "bare", Arguments: []string{}}},
	}, k.ask(ctx, e)
}

// catalogue is a provider's list.
type catalogue struct {
	names []string
	down  error
}

func (c *catalogue) List(context.Context) (infos []model.Info, err error) {
	for _, n := range c.names {
		infos = append(infos, model.Info{Name: n, Description: "about " + n})
	}
	return infos, c.down
}

var errMayNot = problem.New(problem.Forbidden, "insufficient_permission", "this needs the level admin").With("n", "m")

func never() error  { return errMayNot }
func gladly() error { return nil }

// outcome is the result of an operation, as far as callers can see it.
type outcome struct {
	Result    any
	Text      string
	Problem   problem.Error
	Cause     string
	Marks     []bool
	Embedding embedding.Kind
	Wait      time.Duration
	Tool      string
}

func seen(w *world, result any, err error) outcome {
	if err == nil {
		return outcome{Result: result}
	}
	o := outcome{}
	neutral := func(text string) string {
		return strings.NewReplacer(w.id, "TOOLKIT", w.organization, "ORGANIZATION",
			catalog.BuiltinToolkit(w.organization), "BUILTIN").Replace(text)
	}
	o.Text = neutral(err.Error())
	if p, is := problem.As(err); is {
		o.Problem = *p
		if p.Cause != nil {
			o.Cause = neutral(p.Cause.Error())
		}
		o.Problem.Cause, o.Problem.Message = nil, neutral(p.Message)
	}
	for _, mark := range []error{record.ErrConflict, seal.ErrNotOurs, context.Canceled, context.DeadlineExceeded} {
		o.Marks = append(o.Marks, errors.Is(err, mark))
	}
	if e, is := errors.AsType[*embedding.Error](err); is {
		o.Embedding, o.Wait = e.Kind, e.Wait
	}
	if e, is := errors.AsType[*tool.Error](err); is {
		o.Tool = e.Message
	}
	return o
}

// For any call of toolkits, a broker returns the same as the use case itself, with the same visible errors.
func TestToolkitsAreAskedAlikeThroughABroker(t *testing.T) {
	type do = func(w *world) (any, error)
	attempt := func(name, arguments string, approve func() error) do {
		return func(w *world) (any, error) {
			a, err := w.asker.TestCall(t.Context(), w.scope(), w.id, name, json.RawMessage(arguments), approve)
			a.Elapsed = 0
			return a, err
		}
	}
	refresh := func(w *world) (any, error) { return w.asker.Refresh(t.Context(), w.scope(), w.id) }
	preview := func(w *world) (any, error) { return w.asker.Preview(t.Context(), w.scope(), w.id) }
	choose := func(include ...string) do {
		return func(w *world) (any, error) {
			return w.asker.Select(t.Context(), w.scope(), w.id, 0, toolkit.Choice{Include: &include})
		}
	}
	browse := func(w *world) (any, error) { return w.asker.Browse(t.Context(), w.scope(), w.id) }
	plain := func(*world) {}
	offers := func(about string, names ...string) func(*world) {
		return func(w *world) { w.kind.names, w.kind.about = names, about }
	}
	fails := func(err error) func(*world) { return func(w *world) { w.kind.fails = err } }
	chosen := func(w *world) {
		_, err := w.toolkits.Select(t.Context(), w.scope(), w.id, 0, toolkit.Choice{Include: &[]string{"stays"}})
		require.NoError(t, err)
	}
	builtin := func(w *world) { w.id = catalog.BuiltinToolkit(w.organization) }
	asks := func(w *world) {
		_, err := w.toolkits.SetRules(t.Context(), w.scope(), w.id, "stays",
			toolkit.Rules{Approval: &tool.Approval{Mode: "always"}})
		require.NoError(t, err)
	}
	const secret, unknown, arguments = "open-sesame", "0123456789abcdef01234567", ` {"n": 1.0} `
	large := `{"n":"` + strings.Repeat("x", 3<<20) + `"}`
	late := fmt.Errorf("after a while: %w", context.DeadlineExceeded)
	for name, c := range map[string]struct {
		before func(*world)
		do     do
		code   string // of the problem; empty: there is none
		want   string // contained in the result, or in the error
	}{
		"a refresh":                    {offers("", "changes", "stays", "comes"), refresh, "", "Added:[comes]"},
		"a refresh that finds nothing": {plain, refresh, "", "Added:[]"},
		"a preview":                    {offers("<b>", "stays", "comes"), preview, "", "Removed:[goes changes]"},
		"a choice of tools":            {plain, choose("stays"), "", "Removed:[goes changes]"},
		"a choice of all again":        {chosen, choose(), "", "Added:[goes changes]"},
		"a choice of nothing":          {plain, choose("no"), "invalid_request", "body.include[0]"},
		"what is offered":              {plain, browse, "", "file:///a"},
		"what the built-in one offers": {builtin, browse, "", "file:///a"},
		"a try":                        {plain, attempt("stays", arguments, never), "", `stays with {"n":1} <&>`},
		"a try of the built-in one":    {builtin, attempt("echo", arguments, never), "", "echo"},
		"a try that needs an approval": {asks, attempt("stays", arguments, never), "insufficient_permission", "level"},
		"a try that has its approval":  {asks, attempt("stays", arguments, gladly), "", "stays with"},
		"a tool that fails": {fails(tool.Fail("broken")), attempt("stays", "{}", never), "",
			"Error:broken"},
		"a failure that tells a secret": {fails(tool.Fail(secret)), attempt("stays", "{}", never), "", "Error:[cred"},
		"a tool that is not there":      {plain, attempt("no", "{}", never), "not_found", `tool "no"`},
		"arguments that are none":       {plain, attempt("stays", "[]", never), "invalid_request", "not a JSON object"},
		"arguments with a member twice": {plain, attempt("stays", `{"n":1,"n":2}`, never), "invalid_request",
			"is repeated"},
		"arguments that do not fit": {plain, attempt("stays", `{"n":"x"}`, never), "invalid_request", "arguments"},
		"arguments that are too large": {plain, attempt("stays", large, never), "invalid_request",
			"the limit is 262144"},
		"a toolkit that is not there": {func(w *world) { w.id = unknown }, refresh, "not_found", "toolkit"},
		"a toolkit of others": {
			func(w *world) { w.organization = unknown }, browse, "outside_organization", "",
		},
		"the built-in toolkit": {builtin, refresh, "conflict", "cannot be changed"},
		"a server that refuses": {fails(tool.Fail("go away")), preview, "invalid_request",
			"cannot be read: go away"},
		"a server that is not to be asked": {fails(tool.Fail("go away")), browse, "conflict",
			"cannot be reached: go away"},
		"a server that takes too long": {fails(late), browse, "", "after a while"},
		"a fault of ours":              {fails(errors.New("it broke")), browse, "", "it broke"},
		"credentials of another key": {
			func(w *world) { w.toolkits.Sealer = sealer(t, 2) }, preview, "", "does not open",
		},
	} {
		t.Run(name, func(t *testing.T) {
			var got []outcome
			for _, way := range ways {
				w := newWorld(t, way)
				c.before(w)
				result, err := c.do(w)
				one := seen(w, result, err)
				assert.Equal(t, c.code, one.Problem.Code, "%s: %v", way, err)
				assert.Contains(t, fmt.Sprintf("%+v %s", result, one.Text), c.want, way)
				got = append(got, one)
			}
			assert.Equal(t, got[0], got[1])
		})
	}
}

// The broker's work is in the audit log with the name of the client's user. Credentials are opened only for the server.
func TestWhatIsAskedIsDoneInItsAuthorsName(t *testing.T) {
	for _, way := range ways {
		w := newWorld(t, way)
		ctx := record.By(t.Context(), record.Author{Organization: w.organization, UserID: "u", APIKeyID: "k",
			Operation: "try-tool", AsOperator: true})
		_, err := w.asker.TestCall(ctx, w.scope(), w.id, "stays", json.RawMessage(`{}`), never)
		require.NoError(t, err)
		assert.Equal(t, "open-sesame", w.kind.let.Token, way)
		page, err := record.Resources[record.AuditEntry](t.Context(), w.toolkits.Store, w.scope(), "", 10)
		require.NoError(t, err)
		require.Len(t, page.Rows, 1, way)
		e := page.Rows[0].Value
		assert.Equal(t, []any{"try-tool", "u", "k", true, "toolkit", w.id},
			[]any{e.Operation, e.UserID, e.APIKeyID, e.AsOperator, e.Kind, e.Subject}, way)
		_, err = w.asker.TestCall(t.Context(), w.scope(), w.id, "stays", json.RawMessage(`{}`), never)
		require.NoError(t, err, "an ask without an author has no entry")
	}
}

func TestTestEventsArePostedAlikeThroughABroker(t *testing.T) {
	for _, c := range []struct {
		address, excerpt string
		status           int
	}{
		{"https://example.com/hook", "short and stout", http.StatusTeapot},
		{"https://down.example.com/hook", "", 0},
	} {
		var got []outcome
		for _, way := range ways {
			w := newWorld(t, way)
			done, err := w.prober.Probe(t.Context(), w.organization, c.address)
			assert.False(t, done.At.IsZero())
			got = append(got, seen(w, []any{done.Status, done.Error, done.ResponseExcerpt}, err))
			assert.Equal(t, []any{c.status, c.excerpt}, []any{done.Status, done.ResponseExcerpt}, way)
			require.NoError(t, err, "a post that failed is an outcome")
			require.NotNil(t, w.posted)
			assert.Equal(t, c.address, w.posted.URL.String())
			body, err := io.ReadAll(w.posted.Body)
			require.NoError(t, err)
			assert.Equal(t, webhook.Signature("of the organization", body), w.posted.Header.Get("X-Agent-Signature"))
		}
		assert.Equal(t, got[0], got[1])
	}
}

func TestModelsAreAskedForAlikeThroughABroker(t *testing.T) {
	check := func(provider, name string, skip bool) func(provider.Models) (any, error) {
		return func(m modelsOf) (any, error) { return nil, m.Check(t.Context(), provider, name, skip) }
	}
	for name, c := range map[string]struct {
		ask  func(provider.Models) (any, error)
		want string
	}{
		"all":           {func(m provider.Models) (any, error) { return m.List(t.Context()) }, "about small"},
		"there":         {check("near", "small", false), ""},
		"not there":     {check("near", "large", false), `no model "large"`},
		"skipped":       {check("away", "any", true), ""},
		"without name":  {check("near", "", true), "is required"},
		"down":          {check("away", "any", false), "connection refused"},
		"of nobody":     {check("else", "x", true), "must be one of away, demo, near"},
		"without a key": {check("demo", "x", false), ""},
	} {
		var got []outcome
		for _, way := range ways {
			w := newWorld(t, way)
			result, err := c.ask(w.models)
			assert.Contains(t, fmt.Sprint(result, err), c.want, name)
			got = append(got, seen(w, result, err))
		}
		assert.Equal(t, got[0], got[1], name)
	}
}

type modelsOf = provider.Models

// The check of a model that needs no key makes no call.
func TestNobodyIsAskedAboutAModelThatNeedsNoKey(t *testing.T) {
	m := &broker.Models{Client: &broker.Client{Broker: dead{errors.New("asked")}}, Near: &provider.Set{
		Host: host.System(), Catalogues: map[string]model.Catalogue{"demo": &catalogue{}},
	}}
	require.NoError(t, m.Check(t.Context(), "demo", "any", false))
	require.ErrorContains(t, m.Check(t.Context(), "near", "any", false), "asked")
}

// dead is a line that fails.
type dead struct{ err error }

func (d dead) Invoke(context.Context, []byte) ([]byte, error) { return nil, d.err }

func TestEmbeddingContract(t *testing.T) {
	through := &broker.Broker{Log: quiet, Embeddings: map[string]embedding.Model{
		embedding.Builtin: builtinembedding.New(),
	}}
	embeddingtest.Run(t, embeddingtest.Harness{
		Model: &broker.Embedding{Client: &broker.Client{Broker: through}, Provider: embedding.Builtin},
		Name:  "lexical-1", Dimensions: 256,
	})
	_, err := (&broker.Embedding{Client: &broker.Client{Broker: through}, Provider: "else"}).Embed(t.Context(),
		embedding.Request{Name: "x", Texts: []string{"x"}})
	assert.Equal(t, embedding.BadRequest, embedding.KindOf(err), "%v", err)
}
