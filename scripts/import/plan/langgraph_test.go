package plan_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/scripts/import/plan"
)

// planned returns the plan of one file, with its report.
func planned(t *testing.T, text string) (p *plan.Plan, out string) {
	t.Helper()
	p, err := plan.Read(fstest.MapFS{"a.json": {Data: []byte(text)}}, "", plan.Options{})
	require.NoError(t, err)
	return p, report(t, p)
}

// configured returns an assistant of LangGraph with these settings.
func configured(settings string) string {
	return fmt.Sprintf(`{"assistant_id":"a1","graph_id":"agent","name":"A","config":{"configurable":%s}}`, settings)
}

// Graphs in TypeScript spell their settings in camel case, and give any names to those of servers.
func TestSettingsOfGraphsInTypeScript(t *testing.T) {
	p, out := planned(t, configured(`{"modelName":"openai/gpt-4o","temperature":0.3,"maxTokens":2000,
		"systemPrompt":"You guide.","mcpConfig":{"url":"https://one.example","tools":["add"],"auth_required":false},
		"myServer":{"url":"https://two.example/mcp","tools":["sub"]},
		"ragConfig":{"rag_url":"https://rag.example","collections":["c1"]},"shelf":{"collections":["c2"]}}`))
	a := p.Agents[0]
	assert.Equal(t, "openai/gpt-4o", a.Model.String())
	assert.InDelta(t, 0.3, *a.Model.Temperature, 0)
	assert.Equal(t, 2000, *a.Model.MaxTokens)
	assert.Equal(t, "You guide.", a.Instructions)
	assert.Equal(t, []string{"langgraph:c1", "langgraph:c2"}, a.Bases)
	assert.Len(t, a.Toolkits, 2)
	require.Len(t, p.Toolkits, 2)
	assert.Equal(t, "https://one.example/mcp", p.Toolkits[0].URL)
	assert.Equal(t, "https://two.example/mcp", p.Toolkits[1].URL)
	assert.NotContains(t, out, "credentials")
}

func TestSamplingWithoutAModel(t *testing.T) {
	p, _ := planned(t, configured(`{"temperature":0.3,"max_tokens":7}`))
	m := p.Agents[0].Model
	assert.Equal(t, "demo", m.String())
	require.NotNil(t, m.Temperature)
	require.NotNil(t, m.MaxTokens)
	assert.InDelta(t, 0.3, *m.Temperature, 0)
	assert.Equal(t, 7, *m.MaxTokens)
}

// Deep agents have one MCP server as their tools, with the calls that need a human's decision.
func TestDeepAgents(t *testing.T) {
	p, out := planned(t, configured(`{"instructions":"x","triggers":["at-noon"],
		"subagents":[{"name":"researcher","prompt":"p","tools":["t"]}],
		"tools":{"url":"https://tools.example","tools":["send_mail","read","pay"],"auth_required":true,
			"interrupt_config":{"send_mail":true,"read":false,"pay":{"allow_accept":true}}}}`))
	a := p.Agents[0]
	require.Len(t, p.Toolkits, 1)
	assert.Equal(t, []string{"pay", "read", "send_mail"}, p.Toolkits[0].Enabled)
	assert.Equal(t, []string{p.Toolkits[0].Mark}, a.Toolkits)
	assert.Equal(t, []string{"pay", "send_mail"}, a.Approval)
	for _, what := range []string{"agent researcher", "trigger at-noon", "the server wants credentials"} {
		assert.Contains(t, out, what)
	}
	assert.NotContains(t, out, "must be a list")
}

// An assistant has the tools that it names. If it names none it has none, and not all of the server's.
func TestServersOfWhichNoToolIsNamed(t *testing.T) {
	for _, tools := range []string{`,"tools":null`, `,"tools":[]`, ``} {
		p, out := planned(t, configured(`{"mcp_config":{"url":"https://tools.example"`+tools+`}}`))
		assert.Empty(t, p.Toolkits, tools)
		assert.Empty(t, p.Agents[0].Toolkits)
		assert.Contains(t, out, "the assistant uses no tool of this server")
	}
}

// The calls that need a human's decision may also be named outside the server's member.
func TestInterruptsBesideAServer(t *testing.T) {
	p, _ := planned(t, configured(`{"mcp_config":{"url":"https://tools.example","tools":["pay","read"]},
		"interrupt_config":{"pay":true,"read":false}}`))
	assert.Equal(t, []string{"pay"}, p.Agents[0].Approval)
}

// /mcp is added to the path of an address, for any host and query.
func TestAddressesOfServers(t *testing.T) {
	for address, want := range map[string]string{
		"http://mcp": "http://mcp/mcp", "http://mcp/": "http://mcp/mcp",
		"https://h.example/mcp/":    "https://h.example/mcp",
		"https://h.example?to=/mcp": "https://h.example/mcp?to=/mcp",
		"https://h.example/a%2Fb":   "https://h.example/a%2Fb/mcp",
		"https://h.example/mcp?b=1": "https://h.example/mcp?b=1",
		"https://h.example/a/?b=1":  "https://h.example/a/mcp?b=1",
	} {
		p, _ := planned(t, configured(fmt.Sprintf(`{"mcp_config":{"url":%q,"tools":["a"]}}`, address)))
		require.Len(t, p.Toolkits, 1)
		assert.Equal(t, want, p.Toolkits[0].URL)
	}
}

// An agent has no more toolkits, knowledge bases and names for approval than the service takes. Repeated ones do not
// count.
func TestAgentsHaveNoMoreThanTheServiceTakes(t *testing.T) {
	var servers, collections []string
	for i := range 101 {
		servers = append(servers, fmt.Sprintf(`"s%d":{"url":"https://h%d.example","tools":["a"]}`, i, i))
	}
	for i := range 20 {
		collections = append(collections, fmt.Sprintf(`"c%d","c%d"`, i, i))
	}
	long := strings.Repeat("x", 201)
	p, out := planned(t, configured(`{"rag":{"collections":[`+strings.Join(collections, ",")+`]},
		"interrupt_config":{"`+long+`":true},`+strings.Join(servers, ",")+`}`))
	a := p.Agents[0]
	assert.Len(t, a.Toolkits, 100)
	assert.Len(t, a.Bases, 20)
	assert.Equal(t, []string{long[:64]}, a.Approval)
	assert.Contains(t, out, "101 toolkits, of which an agent may have 100")
	assert.NotContains(t, out, "of which an agent may have 20")
}

// The assistant that comes with a graph has an id made of the graph's name, the same in every deployment.
func TestDefaultAssistantsOfTwoDeployments(t *testing.T) {
	const form = `{"assistant_id":"fe096781-5601-53d2-b2f6-0d3403f7e9ca","graph_id":"agent","name":"agent",
		"created_at":"%s","updated_at":"%s","metadata":{"created_by":"%s"}}`
	marks := func(by string) map[string]bool {
		p, err := plan.Read(fstest.MapFS{
			"one.json": {Data: []byte(fmt.Sprintf(form, "2025", "2025", by))},
			"two.json": {Data: []byte(fmt.Sprintf(form, "2026", "2027", by))},
		}, "", plan.Options{})
		require.NoError(t, err)
		all := map[string]bool{}
		for _, a := range p.Agents {
			all[a.Mark] = true
		}
		return all
	}
	assert.Len(t, marks("system"), 2)
	assert.Equal(t, map[string]bool{"langgraph:fe096781-5601-53d2-b2f6-0d3403f7e9ca": true}, marks("user"))
}

// A list of the versions of an assistant has it several times, the newest first.
func TestVersionsOfAnAssistant(t *testing.T) {
	const form = `{"assistant_id":"a1","graph_id":"g","name":"%s","version":%d,"created_at":"%d",
		"metadata":{"created_by":"%s"}}`
	for _, by := range []string{"user", "system"} {
		p, out := planned(t, "["+fmt.Sprintf(form, "new", 2, 2026, by)+","+fmt.Sprintf(form, "old", 1, 2025, by)+"]")
		require.Len(t, p.Agents, 1)
		assert.Equal(t, "new", p.Agents[0].Name)
		assert.Contains(t, out, "the file has this assistant already; this is its version 1")
	}
}
