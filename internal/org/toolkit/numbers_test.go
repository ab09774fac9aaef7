package toolkit_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/ai/tool"
	"agentplatform/internal/org/catalog"
	"agentplatform/internal/org/toolkit"
	"agentplatform/internal/store/record"
)

// lister lists tools by their server's own names, as a server of MCP or as an OpenAPI document. A call returns the
// server's own name of the called tool.
type lister struct {
	own      []string
	requests bool // they are operations of a document
	under    string
}

func (k *lister) Discover(context.Context, tool.Endpoint) (list []tool.Definition, err error) {
	for _, own := range k.own {
		d := tool.Definition{Spec: tool.Spec{Name: tool.Name(own), Parameters: json.RawMessage(`{"type":"object"}`)}}
		if k.requests {
			d.Own = own
			at := "https://a.example.com/" + k.under + own
			d.Binding, err = json.Marshal(map[string]string{"method": "GET", "url": at})
		} else {
			d.Binding, err = json.Marshal(map[string]string{"name": own})
		}
		list = append(list, d)
	}
	return list, err
}

func (k *lister) Call(_ context.Context, _ tool.Endpoint, d tool.Definition, _ tool.Invocation) (tool.Result, error) {
	var at struct{ Name, URL string }
	err := json.Unmarshal(d.Binding, &at)
	return tool.TextResult(at.Name + strings.TrimPrefix(at.URL, "https://a.example.com/")), err
}

func listed(t *testing.T, k *lister, first ...string) (*toolkit.Toolkits, catalog.Toolkit) {
	t.Helper()
	k.own = first
	s := newToolkits(t, &kind{})
	s.Kinds["mcp"] = k
	return s, made(t, s, toolkit.Draft{Name: text("one"), URL: text("https://a.example.com")})
}

// names are the tools of a toolkit, by the server's own names.
func names(t *testing.T, s *toolkit.Toolkits, id string) map[string]string {
	t.Helper()
	_, tools, err := s.Offered(t.Context(), record.Of("o"), id)
	require.NoError(t, err)
	by := map[string]string{}
	for _, one := range tools {
		assert.Empty(t, one.Problem, one.Name)
		a, err := s.TestCall(t.Context(), record.Of("o"), id, one.Name, json.RawMessage(`{}`), gladly)
		require.NoError(t, err)
		by[a.Result] = one.Name
	}
	require.Len(t, by, len(tools))
	return by
}

// Each tool has a name of its own and keeps it, in any list of its server and any order.
func TestAToolKeepsItsNameInAnyListOfItsServer(t *testing.T) {
	long := strings.Repeat("x", tool.MaxName)
	pool := []string{
		"天気", "株価", "ニュース", "tool", "tool_2", "a.b", "a_b", "a b", "a_b_2", "a/b", "_a_b_", long, long + "1",
		long + "2", long[:62] + "_2", long[:63] + " y", long[:62] + "__y",
		"-", "--", "_", "ask_user",
		"ask_user_2", "search", "ask.user", "é", "!", "A.b",
	}
	for _, requests := range []bool{false, true} {
		for seed := range uint64(40) {
			random := rand.New(rand.NewPCG(seed, 1))
			some := func() []string {
				list := slices.Clone(pool)
				random.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
				return list[:1+random.IntN(len(list))]
			}
			k := &lister{requests: requests}
			s, one := listed(t, k, some()...)
			ever, owner := map[string]string{}, map[string]string{}
			for round := range 8 {
				if round > 0 {
					k.own = some()
					_, err := s.Refresh(t.Context(), record.Of("o"), one.ID)
					require.NoError(t, err)
				}
				now := names(t, s, one.ID)
				require.Len(t, now, len(k.own))
				for own, name := range now {
					at := fmt.Sprintf("seed %d, round %d, %v: %q is %q", seed, round, requests, own, name)
					require.Equal(t, tool.Name(name), name, at)
					if had, known := ever[own]; known {
						require.Equal(t, had, name, at)
					}
					require.Contains(t, []string{"", own}, owner[name], at)
					ever[own], owner[name] = name, own
				}
			}
		}
	}
}

// The names that a toolkit of an earlier version has stay; its tools without a name get one at the next refresh.
func TestStoredToolsKeepTheirNames(t *testing.T) {
	k := &lister{}
	s, one := listed(t, k, "a.b", "a_b", "c")
	stored := `[{"name":"a_b","parameters":{"type":"object"},"binding":{"name":"a_b"},"enabled":true,"approval":{}},` +
		`{"name":"a_b","parameters":{"type":"object"},"binding":{"name":"a.b"},"enabled":false,"approval":{},` +
		`"problem":"another tool has the same name"},` +
		`{"name":"c","parameters":{"type":"object"},"binding":{"name":"c"},"enabled":true,"approval":{}}]`
	putTools(t, s, one.ID, stored)
	d, err := s.Refresh(t.Context(), record.Of("o"), one.ID)
	require.NoError(t, err)
	assert.Equal(t, toolkit.Difference{Added: []string{"a_b_2"}}, d)
	assert.Equal(t, map[string]string{"a_b": "a_b", "a.b": "a_b_2", "c": "c"}, names(t, s, one.ID))
	yes := true
	_, err = s.SetRules(t.Context(), record.Of("o"), one.ID, "a_b_2", toolkit.Rules{Enabled: &yes})
	require.NoError(t, err)
	assert.Len(t, opened(t, s, one.ID), 3)
}

// An operation of a stored document has no name of its server's yet: its request identifies it, else its name here.
func TestStoredOperationsKeepTheirNames(t *testing.T) {
	k := &lister{requests: true}
	s, one := listed(t, k, "a b", "a.b", "a_b", "c")
	stored := `{"tools":[` +
		`{"name":"a_b","parameters":{"type":"object"},"binding":{"method":"GET","url":"https://a.example.com/a.b"}},` +
		`{"name":"a_b_2","parameters":{"type":"object"},` +
		`"binding":{"method":"GET","url":"https://a.example.com/a_b"}},` +
		`{"name":"c","parameters":{"type":"object"},"binding":{"method":"GET","url":"https://a.example.com/v1/c"}}],` +
		`"gone":[{"name":"a_b_3","approval":{"mode":"always"}}]}`
	putTools(t, s, one.ID, stored)
	_, err := s.Refresh(t.Context(), record.Of("o"), one.ID)
	require.NoError(t, err)
	assert.Equal(t, map[string]string{"a.b": "a_b", "a_b": "a_b_2", "a b": "a_b_4", "c": "c"}, names(t, s, one.ID))
}

// An operation that moves to another path is the same one, by the document's own name of it.
func TestAMovedOperationKeepsItsName(t *testing.T) {
	k := &lister{requests: true}
	s, one := listed(t, k, "a.b", "a_b")
	k.own, k.under = []string{"a_b", "a.b"}, "v2/"
	d, err := s.Refresh(t.Context(), record.Of("o"), one.ID)
	require.NoError(t, err)
	assert.Equal(t, toolkit.Difference{Changed: []string{"a_b_2", "a_b"}}, d)
	assert.Equal(t, map[string]string{"v2/a.b": "a_b", "v2/a_b": "a_b_2"}, names(t, s, one.ID))
}

func putTools(t *testing.T, s *toolkit.Toolkits, id, list string) {
	t.Helper()
	_, err := record.Change(t.Context(), s.Store, record.Of("o"), id, 0,
		func(k *catalog.Toolkit, tx *record.Tx) error {
			k.Tools = tx.PutBlob(t.Context(), *k, "tools", []byte(list))
			return tx.Err()
		})
	require.NoError(t, err)
}
