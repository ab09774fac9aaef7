//go:build peersall

package main

import (
	"maps"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/proof/peertest"
)

// framework is a framework that is a client of the service, with a story of scripts/peers/frameworks. A line moves from
// fails to want when the service gets the missing feature: the test then fails, and prints the line.
type framework struct {
	name, version string
	command       []string
	want          map[string]string // the lines of the story
	fails         map[string]string // the content of a line that fails
	reports       map[string]string // the text of a failed run, which a line has
}

// parts are the lines of stories, as the page names them.
var parts = map[string]string{
	"agent": "agent with tools", "asked": "question", "call": "function call", "cancelled": "cancel",
	"card": "card", "chat": "chat completions", "crew": "crew", "failure": "reason of a failed run",
	"handoff": "handoff", "output_type": "structured answer", "picture": "picture of a function",
	"session": "session", "streamed": "stream",
	"text": "answer", "tools": "client functions",
}

// sees runs the story against an address and puts a row on the page.
func (f framework) sees(t *testing.T, url, key string) {
	t.Helper()
	t.Setenv("HOME", t.TempDir())
	t.Setenv("OPENAI_API_KEY", "")
	t.Setenv("CREWAI_DISABLE_TELEMETRY", "true")
	t.Setenv("OTEL_SDK_DISABLED", "true")
	lines := runStory(t, nil, append(f.command, url, key)...)
	for part, value := range f.want {
		assert.Equal(t, value, lines[part], part)
	}
	var works, not []string
	for part, value := range f.reports {
		assert.Regexp(t, "^failed: .*"+value, lines[part], part)
		works = append(works, parts[part])
	}
	for part := range f.want {
		works = append(works, parts[part])
	}
	for _, part := range slices.Sorted(maps.Keys(f.fails)) {
		assert.Regexp(t, "^failed: .*"+f.fails[part], lines[part], part)
		not = append(not, parts[part])
	}
	assert.Len(t, lines, len(f.want)+len(f.fails)+len(f.reports), "%v", lines)
	slices.Sort(works)
	peertest.Seen(t, peertest.Counterpart{
		Area: "clients", Name: f.name, Version: f.version, Not: strings.Join(not, "; "),
		Works: strings.Join(works, ", "),
	})
}

// python is the command of a story in an environment of Python.
func python(t *testing.T, environment, story string) []string {
	t.Helper()
	return []string{peertest.Environment(t, environment), storyFile(t, story+"_story.py")}
}

// javascript is the command of a story for Node.js.
func javascript(t *testing.T, story string) []string {
	t.Helper()
	return []string{"node", storyFile(t, story+"_story.mjs"), peertest.Frameworks(t)}
}

func storyFile(t *testing.T, file string) string {
	t.Helper()
	path, err := filepath.Abs(filepath.Join("../../scripts/peers/frameworks", file))
	require.NoError(t, err)
	return path
}

const noChat = "404"

// pythonFrameworks are the frameworks of Python that speak the Responses API.
func pythonFrameworks(t *testing.T) []framework {
	hello, count, sunny := "You said: hello", "You said: count", "It is sunny."
	both := func(more ...string) map[string]string {
		lines := map[string]string{"text": hello, "streamed": count}
		for i := 0; i < len(more); i += 2 {
			lines[more[i]] = more[i+1]
		}
		return lines
	}
	return []framework{
		{
			name: "LangChain and LangGraph, `use_responses_api=True`", command: python(t, "frameworks", "langchain"),
			version: peertest.PyPI(t, "frameworks", "langchain"),
			want:    both("call", "('get_weather', {'location': 'San Francisco, CA'})", "agent", sunny),
			fails:   map[string]string{"chat": noChat},
		},
		{
			name: "LlamaIndex, `OpenAIResponses`", command: python(t, "frameworks", "llamaindex"),
			version: peertest.PyPI(t, "frameworks", "llama-index-core"),
			want:    both("call", "('get_weather', {'location': 'San Francisco, CA'})"),
			fails:   map[string]string{"chat": noChat},
		},
		{
			name: "Pydantic AI, `OpenAIResponsesModel`", command: python(t, "frameworks", "pydantic_ai"),
			version: peertest.PyPI(t, "frameworks", "pydantic-ai-slim"),
			want:    both("tools", sunny, "output_type", "San Francisco, CA"),
			fails:   map[string]string{"chat": noChat},
		},
		{
			name: "OpenAI's Agents SDK for Python", command: python(t, "frameworks", "agents"),
			version: peertest.PyPI(t, "frameworks", "openai-agents"),
			want: both("tools", sunny, "session",
				"user: My name is Ann. assistant: You said: My name is Ann. user: What is my name?",
				"handoff", `('Meteorologist', 'It is {"assistant": "Meteorologist"}.')`),
			fails: map[string]string{"chat": noChat},
		},
		{
			name: "CrewAI, `api=\"responses\"`", command: python(t, "crewai", "crewai"),
			version: peertest.PyPI(t, "crewai", "crewai"),
			want:    map[string]string{"text": hello, "crew": "You said:", "tools": sunny},
			fails:   map[string]string{"chat": noChat},
		},
		{
			name: "Semantic Kernel, `OpenAIResponsesAgent`", command: python(t, "microsoft", "semantic_kernel"),
			version: peertest.PyPI(t, "microsoft", "semantic-kernel"), want: both("tools", sunny),
			fails: map[string]string{"chat": noChat},
		},
		{
			name: "Microsoft's Agent Framework, `OpenAIChatClient`", command: python(t, "microsoft", "agent_framework"),
			version: peertest.PyPI(t, "microsoft", "agent-framework-core"), want: both("tools", sunny),
			fails: map[string]string{"chat": noChat},
		},
	}
}

// Frameworks of Python and JavaScript use agents as their models, by the Responses API.
func TestFrameworksAsClients(t *testing.T) {
	p := newForecaster(t).agentOf(t)
	frameworks := append(pythonFrameworks(t),
		framework{
			name: "OpenAI's Agents SDK for JavaScript", command: javascript(t, "agents"),
			version: peertest.FrameworkNPM(t, "@openai/agents"),
			want: map[string]string{"text": "You said: hello", "streamed": "You said: count", "tools": "It is sunny.",
				"handoff": `Meteorologist: It is {"assistant":"Meteorologist"}.`},
			fails: map[string]string{"chat": noChat},
		},
		framework{
			name: "AI SDK of Vercel", command: javascript(t, "ai"), version: peertest.FrameworkNPM(t, "ai"),
			want: map[string]string{"text": "You said: hello", "streamed": "You said: count", "tools": "It is sunny.",
				"picture": "You said: [picture]"},
			fails:   map[string]string{"chat": "Not Found"},
			reports: map[string]string{"failure": "no luck"},
		})
	for _, f := range frameworks {
		t.Run(f.name, func(t *testing.T) { f.sees(t, p.url, p.key) })
	}
}

// The SDK of A2A for JavaScript and a framework use an agent by A2A.
func TestFrameworksByA2A(t *testing.T) {
	p := built(t)
	p.start()
	t.Cleanup(p.stop)
	agent := p.ask(http.MethodPost, "/agents", object{"name": "Echo"}, http.StatusCreated)["agent_id"].(string)
	for _, f := range []framework{
		{
			name: "A2A, official SDK for JavaScript", command: javascript(t, "a2a"),
			version: peertest.FrameworkNPM(t, "@a2a-js/sdk"),
			want: map[string]string{"card": "Echo", "text": "You said: hello", "streamed": "You said: hello 1 2 3",
				"asked": "Answer: Oslo", "cancelled": "5"}, // TASK_STATE_CANCELED
		},
		{
			name: "Google's Agent Development Kit, `RemoteA2aAgent`", command: python(t, "adk", "adk"),
			version: peertest.PyPI(t, "adk", "google-adk"), want: map[string]string{"text": "You said: hello"},
		},
	} {
		t.Run(f.name, func(t *testing.T) { f.sees(t, p.url+"/a2a/"+agent, p.key) })
	}
}
