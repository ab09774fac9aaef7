package toolkit_test

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/ai/tool"
	"agentplatform/internal/org/catalog"
	"agentplatform/internal/org/toolkit"
	"agentplatform/internal/platform/host"
	"agentplatform/internal/store/blob/memblob"
	"agentplatform/internal/store/record"
	"agentplatform/internal/store/seal"
	"agentplatform/internal/store/seal/keyseal"
	"agentplatform/internal/store/table/memtable"
)

// kind is a kind whose tools return how they were called.
type kind struct {
	names []string
	about string
	safe  bool
	reads map[string]bool // the tools that only read
	let   tool.Credentials
}

func (k *kind) Discover(_ context.Context, e tool.Endpoint) ([]tool.Definition, error) {
	k.let = e.Credentials
	var list []tool.Definition
	for _, name := range k.names {
		list = append(list, tool.Definition{Spec: tool.Spec{
			Name: name, Description: k.about, RetrySafe: k.safe, Parameters: json.RawMessage(`{"type":"object"}`),
		}, ReadOnly: k.reads[name]})
	}
	return list, nil
}

func (k *kind) Call(_ context.Context, e tool.Endpoint, d tool.Definition, i tool.Invocation) (tool.Result, error) {
	k.let = e.Credentials
	return tool.TextResult(d.Name + " as " + i.Name), nil
}

func sealer(t *testing.T, first byte) seal.Sealer {
	t.Helper()
	key := make([]byte, seal.KeySize)
	key[0] = first
	s, err := keyseal.New(key)
	require.NoError(t, err)
	return s
}

func newToolkits(t *testing.T, k *kind) *toolkit.Toolkits {
	t.Helper()
	machine := host.System()
	store := record.New(memtable.New(machine.Now), &memblob.Store{}, machine)
	return &toolkit.Toolkits{
		Store: store, Cached: store.Cached(), Host: machine, Sealer: sealer(t, 1), Commands: [][]string{{"serve",
			"tools"}, {"python3", "serve.py", "a", "b"}},
		Kinds: map[string]tool.Kind{toolkit.Builtin: &kind{names: []string{"echo"}}, "mcp": k},
	}
}

func text(s string) *string { return &s }

func made(t *testing.T, s *toolkit.Toolkits, d toolkit.Draft) catalog.Toolkit {
	t.Helper()
	d.Kind = "mcp"
	e, err := s.Create(t.Context(), "o", d)
	require.NoError(t, err)
	return e.Value
}

func opened(t *testing.T, s *toolkit.Toolkits, ids ...string) map[string]func() (string, error) {
	t.Helper()
	offers, err := s.Open(t.Context(), "o", ids)
	require.NoError(t, err)
	calls := map[string]func() (string, error){}
	for _, o := range offers {
		calls[o.Name] = func() (string, error) {
			r, err := o.Call(t.Context(), tool.Invocation{Name: o.Name})
			return r.Text, err
		}
	}
	require.Len(t, calls, len(offers), "no two tools have one name")
	return calls
}

func TestToolsWithTheSameNameGetDistinctOnes(t *testing.T) {
	k := &kind{names: []string{"echo", "find"}}
	s := newToolkits(t, k)
	one, two := made(t, s, toolkit.Draft{Name: text("First one"), URL: text("https://a.example.com")}), made(t, s,
		toolkit.Draft{Name: text("Second"), URL: text("https://b.example.com")})
	calls := opened(t, s, catalog.BuiltinToolkit("o"), one.ID, two.ID, "0123456789abcdef01234567")
	var names []string
	for name, call := range calls {
		names = append(names, name)
		got, err := call()
		require.NoError(t, err)
		assert.Contains(t, []string{"echo as echo", "find as find"}, got, "a tool is called by its own name")
	}
	assert.ElementsMatch(t, []string{"echo", "echo_First_one", "echo_Second", "find", "find_Second"}, names)
}

func TestCredentialsOfAnotherToolkitCannotBeOpened(t *testing.T) {
	k := &kind{names: []string{"act"}}
	s := newToolkits(t, k)
	secret := tool.Credentials{Type: "bearer", Token: "open-sesame"}
	one := made(t, s, toolkit.Draft{Name: text("one"), URL: text("https://a.example.com"), Credentials: &secret})
	bound := secret
	bound.Origins = []string{"https://a.example.com"}
	assert.Equal(t, bound, k.let)
	assert.NotContains(t, one.Credentials, "sesame")
	_, err := opened(t, s, one.ID)["act"]()
	require.NoError(t, err)
	assert.Equal(t, bound, k.let)

	two := made(t, s, toolkit.Draft{Name: text("two"), URL: text("https://b.example.com")})
	two.Credentials = one.Credentials // like a person with write access to the store
	_, err = s.Sealer.Open(t.Context(), two.Organization+"/"+two.ID, two.Credentials)
	require.ErrorIs(t, err, seal.ErrNotOurs)
}

func TestFingerprintChangesWithTheAddress(t *testing.T) {
	s := newToolkits(t, &kind{names: []string{"act"}})
	one := made(t, s, toolkit.Draft{Name: text("one"), URL: text("https://a.example.com/first")})
	source := func() tool.Offer {
		offers, err := s.Open(t.Context(), "o", []string{one.ID})
		require.NoError(t, err)
		require.Len(t, offers, 1)
		return offers[0]
	}
	before := source()
	_, err := s.Edit(t.Context(), record.Of("o"), one.ID, 0, toolkit.Draft{Name: text("two")})
	require.NoError(t, err)
	assert.True(t, source().Is(before.Source, before.Fingerprint))
	_, err = s.Edit(t.Context(), record.Of("o"), one.ID, 0, toolkit.Draft{URL: text("https://a.example.com/second")})
	require.NoError(t, err)
	assert.False(t, source().Is(before.Source, before.Fingerprint), "what was approved was a call of the first")
}

func TestUnopenableToolkitFailsItsCallsOnly(t *testing.T) {
	s := newToolkits(t, &kind{names: []string{"act"}})
	sealed := made(t, s, toolkit.Draft{Name: text("sealed"), URL: text("https://a.example.com"),
		Credentials: &tool.Credentials{Type: "bearer", Token: "x"}})
	program := made(t, s, toolkit.Draft{Name: text("program"), Command: []string{"serve", "tools"}})
	s.Sealer, s.Commands = sealer(t, 2), nil
	for id, wantErr := range map[string]string{sealed.ID: "set them again", program.ID: "no longer allows"} {
		_, err := opened(t, s, id)["act"]()
		var failure *tool.Error
		require.ErrorAs(t, err, &failure)
		assert.Contains(t, failure.Message, wantErr)
	}
}

func TestUnlistedCommandIsRefused(t *testing.T) {
	s := newToolkits(t, &kind{names: []string{"act"}})
	for _, command := range [][]string{{}, {"serve"}, {"serve tools"}, {"serve", "tools", "--more"}, {"sh", "-c",
		"serve tools"}, {"python3", "serve.py", "a b"}, {"python3 serve.py", "a", "b"}} {
		_, err := s.Create(t.Context(), "o", toolkit.Draft{Kind: "mcp", Name: text("n"), Command: command})
		assert.ErrorContains(t, err, "must be one of the commands", command)
	}
}
