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

// If several things have one id, or none, a reference means one of them. The others are reported.
func TestIDsThatStandTwiceAreReported(t *testing.T) {
	p, out := planned(t, `{"agents":[{"id":"agent-0","name":"A","system":"s","block_ids":["b0"],"tool_ids":["t0"],
			"source_ids":["s0"]}],
		"tools":[{"id":"t0","name":"first","tool_type":"custom"},{"id":"t0","name":"second","tool_type":"custom"},
			{"name":"nameless","tool_type":"custom"}],
		"blocks":[{"id":"b0","label":"persona","value":"FIRST"},{"id":"b0","label":"human","value":"SECOND"}],
		"sources":[{"id":"s0","name":"S1"},{"id":"s0","name":"S2"}],
		"mcp_servers":[{"server_name":"x","server_type":"streamable_http","server_url":"https://one.example/mcp"},
			{"server_name":"x","server_type":"streamable_http","server_url":"https://two.example/mcp"}]}`)
	assert.Contains(t, p.Agents[0].Instructions, "FIRST")
	assert.NotContains(t, p.Agents[0].Instructions, "SECOND")
	require.Len(t, p.Bases, 1)
	assert.Equal(t, "S1", p.Bases[0].Name)
	require.Len(t, p.Toolkits, 1)
	assert.Equal(t, "https://one.example/mcp", p.Toolkits[0].URL)
	assert.Contains(t, out, "function first")
	for _, source := range []string{
		`tool "second"`, `tool "nameless"`, `block "human"`, `source "S2"`, `MCP server "x"`,
	} {
		assert.Contains(t, out, "\n"+source+"\n  left out")
	}
	assert.Equal(t, 5, strings.Count(out, "nothing can refer to it"))
}

// A source that two agent files share is one knowledge base, with the documents of both.
func TestASourceOfTwoFilesHasTheDocumentsOfBoth(t *testing.T) {
	const form = `{"agents":[{"name":"%s","system":"s","source_ids":["s0"]}],"tools":[],
		"sources":[{"id":"s0","name":"shared"}],"files":[%s]}`
	const one = `{"id":"f0","source_id":"s0","file_name":"a.md","content":"one"}`
	const two = `{"id":"f1","source_id":"s0","file_name":"b.md","content":"two"}`
	p, err := plan.Read(fstest.MapFS{
		"a.af": {Data: []byte(fmt.Sprintf(form, "A", one))},
		"b.af": {Data: []byte(fmt.Sprintf(form, "B", one+","+two))},
	}, "", plan.Options{})
	require.NoError(t, err)
	require.Len(t, p.Bases, 1)
	require.Len(t, p.Bases[0].Documents, 2)
	assert.Equal(t, "b.md", p.Bases[0].Documents[1].Title)
	assert.Equal(t, p.Agents[0].Bases, p.Agents[1].Bases)
	assert.Contains(t, report(t, p), "one knowledge base has the documents of both")
}

// Agents of one template are alike in all fields of a mark, and are still different agents.
func TestAgentsOfOneTemplate(t *testing.T) {
	const form = `{"agents":[{"name":"helper","system":"s","block_ids":["b0"]},
		{"name":"helper","system":"s","block_ids":["b1"]}],"tools":[],
		"blocks":[{"id":"b0","label":"human","value":"Anna"},{"id":"b1","label":"human","value":"%s"}]}`
	p, out := planned(t, fmt.Sprintf(form, "Bert"))
	assert.Len(t, p.Agents, 1)
	assert.Contains(t, out, "other memory")
	assert.Contains(t, out, "give it a name of its own")
	_, out = planned(t, fmt.Sprintf(form, "Anna"))
	assert.Contains(t, out, "the export has this agent twice")
}

// Newer files have the response format in the model's settings.
func TestTheFormOfAnswersStandsWithTheModel(t *testing.T) {
	const form = `{"type":"json_schema","json_schema":{"name":"x","schema":{"type":"object"}}}`
	for _, members := range []string{
		`"response_format":` + form,
		`"llm_config":{"model":"gpt-4o","model_endpoint_type":"openai","response_format":` + form + `}`,
		`"model":"openai/gpt-4o","model_settings":{"provider_type":"openai","response_format":` + form + `}`,
	} {
		p, out := planned(t, `{"agents":[{"name":"A","system":"s",`+members+`}],"tools":[]}`)
		assert.JSONEq(t, `{"type":"object"}`, string(p.Agents[0].OutputSchema), members)
		assert.NotContains(t, out, "response_format")
	}
}

// An agent file has no archival memory. Saved next to the file, the memory becomes documents.
func TestArchivalMemory(t *testing.T) {
	const agent = `{"agents":[{"name":"A","system":"s","tool_ids":["t0","t1"]}],"tools":[
		{"id":"t0","name":"archival_memory_insert","tool_type":"letta_core"},
		{"id":"t1","name":"archival_memory_search","tool_type":"letta_core"}]}`
	_, out := planned(t, agent)
	assert.Equal(t, 1, strings.Count(out, "archival memory is not in an agent file"))
	p, out := planned(t, `[{"id":"passage-1","text":"The user likes tea","agent_id":"agent-1","created_at":"x"},
		{"id":"passage-2","text":"and toast","agent_id":"agent-1","embedding":[0.5],"tags":["food"]},
		{"id":"passage-3","text":"elsewhere","archive_id":"archive-1"}]`)
	require.Len(t, p.Bases, 2)
	assert.Equal(t, []plan.Document{{Title: "passage-1", Name: "passage-1.txt", Text: "The user likes tea"},
		{Title: "passage-2", Name: "passage-2.txt", Text: "and toast"}}, p.Bases[0].Documents)
	assert.Contains(t, out, "give it to the agent")
	assert.Contains(t, out, "tags")
}

func TestSkillsAreNamed(t *testing.T) {
	_, out := planned(t, `{"agents":[],"tools":[],"skills":[{"name":"baking","files":{"SKILL.md":"flour"}},
		{"name":"brewing"}]}`)
	for _, name := range []string{"baking", "brewing"} {
		assert.Contains(t, out, `skill "`+name+`"`)
	}
	assert.NotContains(t, out, "flour")
}

// No name of metadata is overwritten silently. Metadata beyond the limits is reported.
func TestMetadataIsNotOverwrittenSilently(t *testing.T) {
	p, out := planned(t, `{"assistant_id":"a1","graph_id":"agent","name":"A","metadata":{"graph":"mine"}}`)
	assert.Equal(t, "agent", p.Agents[0].Metadata["graph"])
	assert.Contains(t, out, "a.json .metadata graph: ")

	p, out = planned(t, `{"agents":[{"name":"A","system":"s","tags":["x"],"metadata":{"tags":"mine"}}],"tools":[]}`)
	assert.Equal(t, "mine", p.Agents[0].Metadata["tags"])
	assert.Contains(t, out, "a.json .agents[0] tags: ")

	var full []string
	for i := range 15 {
		full = append(full, fmt.Sprintf(`"k%d":"v"`, i))
	}
	for _, tags := range []string{`["x"]`, `[{"tag":"x"}]`} {
		p, out = planned(t, `{"agents":[{"name":"A","system":"s","tags":`+tags+`,"metadata":{`+
			strings.Join(full, ",")+`}}],"tools":[]}`)
		assert.NotContains(t, p.Agents[0].Metadata, "tags")
		assert.Contains(t, out, "a.json .agents[0] tags: ")
		for _, e := range p.Mapped {
			assert.NotContains(t, e.Path, "tags")
		}
	}
}
