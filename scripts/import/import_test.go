package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/platform/setting"
	"agentplatform/internal/wiring/boot"
)

type object = map[string]any

// world is the service, with a server of tools that requires a token.
type world struct {
	t     *testing.T
	url   string
	key   string
	tools string // host
}

const token = "open-sesame"

func start(t *testing.T) *world {
	t.Helper()
	tools := toolServer(t)
	s, err := setting.Read([]string{"ADDR=127.0.0.1:0", "DATA_DIR=" + t.TempDir(), "TOOL_ALLOW_HOSTS=" + tools,
		"RATE_LIMIT=1000000", "RATE_BURST=1000000"})
	require.NoError(t, err)
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError}))
	local, err := boot.StartLocal(t.Context(), s, log)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, local.Stop()) })
	return &world{t, local.URL, local.Key, tools}
}

// toolServer starts an MCP server with one tool, and a function behind a URL. It returns its host.
func toolServer(t *testing.T) string {
	t.Helper()
	s := mcp.NewServer(&mcp.Implementation{Name: "test", Version: "1"}, nil)
	mcp.AddTool(s, &mcp.Tool{Name: "echo", Annotations: &mcp.ToolAnnotations{ReadOnlyHint: true}},
		func(_ context.Context, _ *mcp.CallToolRequest, in struct {
			Text string `json:"text"`
		}) (*mcp.CallToolResult, any, error) {
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "heard " + in.Text}}}, nil, nil
		})
	mcp.AddTool(s, &mcp.Tool{Name: "erase"},
		func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, any, error) {
			return &mcp.CallToolResult{}, nil, nil
		})
	handler := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s }, nil)
	mux := http.NewServeMux()
	mux.Handle("/mcp", handler)
	mux.HandleFunc("POST /status", func(w http.ResponseWriter, r *http.Request) {
		var in struct{ Order string }
		if err := json.NewDecoder(r.Body).Decode(&in); err != nil || in.Order == "" {
			http.Error(w, "which order?", http.StatusBadRequest)
			return
		}
		_, _ = io.WriteString(w, "order "+in.Order+" is on its way")
	})
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer "+token {
			http.Error(w, "who are you?", http.StatusUnauthorized)
			return
		}
		mux.ServeHTTP(w, r)
	}))
	t.Cleanup(func() {
		web.CloseClientConnections()
		web.Close()
	})
	return strings.TrimPrefix(web.URL, "http://")
}

// sample returns a copy of a sample that uses the test's server of tools.
func (w *world) sample(name string) string {
	w.t.Helper()
	to := w.t.TempDir()
	require.NoError(w.t, os.CopyFS(to, os.DirFS("testdata/"+name)))
	require.NoError(w.t, filepath.WalkDir(to, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		raw, err := os.ReadFile(path)
		require.NoError(w.t, err)
		text := string(raw)
		for _, user := range []string{"", "user:pass@"} {
			text = strings.ReplaceAll(text, "https://"+user+"tools.example", "http://"+user+w.tools)
		}
		return os.WriteFile(path, []byte(text), 0o600)
	}))
	return to
}

// imports runs the command.
func (w *world) imports(base, from string, more ...string) (status int, out, errs string) {
	w.t.Helper()
	var o, e bytes.Buffer
	environ := map[string]string{keyVariable: w.key, "TOOLS_TOKEN": token}
	status = run(w.t.Context(), append([]string{"-from", from, "-base-url", base}, more...),
		func(name string) string { return environ[name] }, &o, &e)
	return status, o.String(), e.String()
}

// succeeds runs the command, which must succeed, and returns its output.
func (w *world) succeeds(from string, more ...string) string {
	w.t.Helper()
	status, out, errs := w.imports(w.url, from, more...)
	require.Equal(w.t, done, status, "%s\n%s", out, errs)
	return out
}

// call calls the API by the command's own client.
func (w *world) call(method, path string, body any) (v object) {
	w.t.Helper()
	require.NoError(w.t, newClient(w.url, w.key).call(w.t.Context(), method, path, body, &v))
	return v
}

// rows returns a list of the API by the names of its elements. Two elements with one name fail the test.
func (w *world) rows(path, list string) map[string]object {
	w.t.Helper()
	name := map[string]string{"documents": "title"}[list]
	if name == "" {
		name = "name"
	}
	all := map[string]object{}
	for _, row := range w.call(http.MethodGet, path+"?limit=100", nil)[list].([]any) {
		row := row.(object)
		title := row[name].(string)
		require.NotContains(w.t, all, title, "%s has it twice", path)
		all[title] = row
	}
	return all
}

// asks sends a message to an agent and returns the answer.
func (w *world) asks(agent object, message string) (v object) {
	w.t.Helper()
	var body bytes.Buffer
	form := multipart.NewWriter(&body)
	for name, value := range map[string]string{
		"agent_id": agent["agent_id"].(string), "message": message, "wait": "true",
	} {
		require.NoError(w.t, form.WriteField(name, value))
	}
	require.NoError(w.t, form.Close())
	require.NoError(w.t, newClient(w.url, w.key).send(w.t.Context(), http.MethodPost, w.url+"/chat",
		map[string]string{"Content-Type": form.FormDataContentType()}, body.Bytes(), &v))
	return v
}

// counts returns the number of things of each kind.
func (w *world) counts() map[string]int {
	w.t.Helper()
	n := map[string]int{}
	for path, list := range map[string]string{
		"/agents": "agents", "/toolkits": "toolkits", "/knowledge-bases": "knowledge_bases",
		"/documents": "documents",
	} {
		n[list] = len(w.rows(path, list))
	}
	return n
}

func TestAssistantsOfOpenAI(t *testing.T) {
	t.Parallel()
	w := start(t)
	from := w.sample("openai")
	out := w.succeeds(from)
	assert.Contains(t, out, "the deployment has no provider openai; the agent has the model demo")
	assert.Contains(t, out, "created 3, already present 0")

	agent := w.rows("/agents", "agents")["Support desk"]
	assert.Equal(t, "Answers customers of the bicycle shop.", agent["description"])
	assert.Contains(t, agent["instructions"], "Search the handbook")
	assert.Equal(t, object{"imported_from": "openai:asst_SupportDesk01", "team": "shop"}, agent["metadata"])
	assert.InDelta(t, 0.3, agent["model"].(object)["temperature"], 0)
	assert.InDelta(t, 20, agent["knowledge"].(object)["limit"], 0)
	assert.Empty(t, agent["toolkit_ids"])
	assert.NotNil(t, w.rows("/agents", "agents")["Assistant asst_Classifier02"]["output_schema"])
	documents := w.rows("/documents", "documents")
	require.Len(t, documents, 2)
	assert.Equal(t, object{"chapter": 4.0, "public": true}, documents["returns.md"]["metadata"])
	answer := w.asks(agent, "/search within how many days may a bicycle be returned")["answer"]
	assert.Contains(t, answer, "forty-one days")
	assert.Contains(t, w.asks(agent, "/search warranty of frames")["answer"], "eleven years")

	before := w.counts()
	out = w.succeeds(from)
	assert.Contains(t, out, "created 0, already present 3")
	assert.Equal(t, before, w.counts())

	// The user names the URL that executes a function. The existing agent gets it.
	more := []string{"-tool", "order_status=http://" + w.tools + "/status", "-bearer", w.tools + "=TOOLS_TOKEN"}
	out = w.succeeds(from, more...)
	assert.Contains(t, out, "changed agent Support desk: toolkit_ids")
	const order = `/tool order_status {"body":{"order":"17"}}`
	assert.Equal(t, "awaiting_input", w.asks(agent, order)["status"], "a new tool that may change something")
	kit := w.rows("/agents", "agents")["Support desk"]["toolkit_ids"].([]any)[0].(string)
	require.NoError(t, newClient(w.url, w.key).call(t.Context(), http.MethodPatch,
		"/toolkits/"+kit+"/tools/order_status", object{"approval": "never"}, nil))
	answer = w.asks(agent, order)["answer"]
	assert.Contains(t, answer, "order 17 is on its way")
	before["toolkits"]++
	_, out, _ = w.imports(w.url, from, more...)
	assert.Equal(t, before, w.counts())
	assert.NotContains(t, out, "still has toolkit")

	// With another URL the old toolkit stays, and the agent has both.
	more[1] = "order_status=http://" + w.tools + "/other"
	out = w.succeeds(from, more...)
	assert.Len(t, w.rows("/agents", "agents")["Support desk"]["toolkit_ids"], 2)
	assert.Contains(t, out, "the agent still has toolkit order_status")
}

func TestAgentsOfLetta(t *testing.T) {
	t.Parallel()
	w := start(t)
	from := w.sample("letta")
	status, out, errs := w.imports(w.url, from)
	require.Equal(t, failed, status, "the server of tools wants a token")
	assert.Contains(t, errs, "run again to continue")
	assert.Contains(t, out, "run again with -bearer")
	keeper := w.rows("/agents", "agents")["Keeper"]
	assert.Empty(t, keeper["toolkit_ids"])

	w.succeeds(from, "-bearer", w.tools+"=TOOLS_TOKEN")
	keeper = w.rows("/agents", "agents")["Keeper"]
	assert.Contains(t, keeper["instructions"], "You keep the animals of a small zoo.\n\n# Memory\n\n## persona\n"+
		"(How the keeper speaks)\n\nI am patient")
	assert.Equal(t, object{"mode": "never", "tools": []any{}, "self": true}, keeper["approval"], "it has no tool weigh")
	assert.Contains(t, w.asks(keeper, `/tool echo {"text":"hello"}`)["answer"], "heard hello")
	assert.Contains(t, w.asks(keeper, `/tool erase {}`)["answer"], "error", "it is not enabled")
	assert.Contains(t, w.asks(keeper, "/search what otters eat")["answer"], "crayfish")
	assert.Equal(t, map[string]int{"agents": 3, "toolkits": 2, "knowledge_bases": 1, "documents": 1}, w.counts(),
		"with the agent and the toolkit that every organization has")
	assert.Contains(t, w.rows("/agents", "agents")["Collector"]["instructions"], "I collect stamps.")
}

func TestAssistantsOfLangGraph(t *testing.T) {
	t.Parallel()
	w := start(t)
	from := w.sample("langgraph")
	more := []string{"-bearer", w.tools + "=TOOLS_TOKEN", "-model", "mistral/mistral-large=demo/other"}
	for range 2 {
		w.succeeds(from, more...)
		assert.Equal(t, map[string]int{"agents": 4, "toolkits": 2, "knowledge_bases": 2, "documents": 1}, w.counts())
	}
	guide := w.rows("/agents", "agents")["Harbour guide"]
	assert.InDelta(t, 4000, guide["model"].(object)["max_tokens"], 0)
	assert.Len(t, guide["knowledge_base_ids"], 2)
	assert.Contains(t, w.asks(guide, "/search high water at the pier")["answer"], "nineteen minutes past six")
	assert.Contains(t, w.asks(guide, `/tool echo {"text":"ahoy"}`)["answer"], "heard ahoy")
	overseer := w.rows("/agents", "agents")["Overseer"]
	assert.Equal(t, "other", overseer["model"].(object)["name"])
	assert.Equal(t, "You hand work on.", overseer["instructions"])
}

// An import may be cut off at any request, also when the service did the request and the response was lost. Another run
// goes on, and nothing is there twice.
func TestAnImportThatIsCutOffGoesOn(t *testing.T) {
	t.Parallel()
	w := start(t)
	from := w.sample("openai")
	target, err := url.Parse(w.url)
	require.NoError(t, err)
	behind := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: target.Scheme, Host: target.Host})
	var left atomic.Int64
	lossy := httptest.NewServer(http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		if left.Add(-1) < 0 { // the request is done, and its response is lost
			behind.ServeHTTP(httptest.NewRecorder(), r)
			panic(http.ErrAbortHandler)
		}
		behind.ServeHTTP(out, r)
	}))
	defer lossy.Close()
	status, runs := failed, 0
	for ; status != done; runs++ {
		require.Less(t, runs, 40)
		left.Store(int64(runs))
		var errs string
		status, _, errs = w.imports(lossy.URL+target.Path, from, "-tool", "refund=http://"+w.tools+"/status",
			"-bearer", w.tools+"=TOOLS_TOKEN")
		assert.Equal(t, status == done, errs == "", errs)
	}
	assert.Greater(t, runs, 8)
	assert.Equal(t, map[string]int{"agents": 3, "toolkits": 2, "knowledge_bases": 1, "documents": 2}, w.counts())
	assert.Len(t, w.rows("/agents", "agents")["Support desk"]["toolkit_ids"], 1)
}

// Large files are sent to the store. Content that comes twice is one document, which is reported.
func TestLargeFilesAndEqualOnes(t *testing.T) {
	t.Parallel()
	w := start(t)
	const assistant = `[{"assistant_id":"a","graph_id":"g","name":"A","config":{"configurable":
		{"rag":{"collections":["c1"]}}}}]`
	large := strings.Repeat("The lighthouse has forty steps.\n", inForm/32+1)
	out := w.succeeds(w.folder(map[string]string{
		"a.json": assistant, "collections/c1/1.txt": large, "collections/c1/2.txt": large,
	}))
	assert.Contains(t, out, "has the same content as 1.txt")
	assert.Contains(t, w.asks(w.rows("/agents", "agents")["A"], "/search steps of the lighthouse")["answer"], "forty")
	assert.Equal(t, 1, w.counts()["documents"])
}

// folder makes a folder with some files and returns its path.
func (w *world) folder(files map[string]string) string {
	w.t.Helper()
	from := w.t.TempDir()
	for name, text := range files {
		require.NoError(w.t, os.MkdirAll(filepath.Dir(filepath.Join(from, name)), 0o700))
		require.NoError(w.t, os.WriteFile(filepath.Join(from, name), []byte(text), 0o600))
	}
	return from
}

// export makes a folder with one file and returns its path.
func (w *world) export(text string) string { return w.folder(map[string]string{"a.json": text}) }

// If the service refuses one thing, only that thing is left out, not the agent or the toolkit.
func TestWhatIsRefusedIsLeftOutAlone(t *testing.T) {
	t.Parallel()
	w := start(t)
	from := w.export(`[{"id":"asst_1","object":"assistant","name":"Strict","model":"gpt-4o",
			"response_format":{"type":"json_schema","json_schema":{"name":"x","schema":
				{"type":"object","properties":{"p":{"type":"string","pattern":"^(a"}}}}}},
		{"assistant_id":"a1","graph_id":"g","name":"Caller","config":{"configurable":
			{"mcp_config":{"url":"http://` + w.tools + `","tools":["away","echo","gone.too"]}}}}]`)
	out := w.succeeds(from, "-bearer", w.tools+"=TOOLS_TOKEN")
	assert.Contains(t, out, "the service refuses its output_schema")
	for _, name := range []string{"away", "gone_too"} {
		assert.Contains(t, out, "the server has no tool "+name)
	}
	agents := w.rows("/agents", "agents")
	assert.Nil(t, agents["Strict"]["output_schema"])
	assert.Contains(t, w.asks(agents["Caller"], `/tool echo {"text":"hello"}`)["answer"], "heard hello")
}

// Nothing is removed from an agent. A toolkit of an earlier export stays and is reported. Additions of a person stay
// without a report.
func TestAToolkitOfAnEarlierExportStaysAndIsReported(t *testing.T) {
	t.Parallel()
	w := start(t)
	const form = `[{"assistant_id":"a1","graph_id":"g","name":"A","config":{"configurable":
			{"mcp_config":{"url":"http://%[1]s","tools":[%[2]s]}}}},
		{"assistant_id":"b1","graph_id":"g","name":"B","config":{"configurable":
			{"mcp_config":{"url":"http://%[1]s","tools":["echo","erase"]}}}}]`
	more := []string{"-bearer", w.tools + "=TOOLS_TOKEN"}
	w.succeeds(w.export(fmt.Sprintf(form, w.tools, `"echo","erase"`)), more...)
	agent := w.rows("/agents", "agents")["A"]
	given := agent["toolkit_ids"].([]any)
	require.Len(t, given, 1)
	for _, name := range []string{"by hand", "of another platform [letta 0123456789]"} {
		own := w.call(http.MethodPost, "/toolkits", object{"kind": "mcp", "name": name,
			"url": "http://" + w.tools + "/mcp", "enabled": []string{"echo"},
			"credentials": object{"type": "bearer", "token": token}})
		given = append(given, own["toolkit_id"])
	}
	w.call(http.MethodPatch, "/agents/"+agent["agent_id"].(string), object{"toolkit_ids": given})

	for range 2 {
		out := w.succeeds(w.export(fmt.Sprintf(form, w.tools, `"echo"`)), more...)
		now := w.rows("/agents", "agents")["A"]["toolkit_ids"]
		assert.Len(t, now, len(given)+1)
		assert.Subset(t, now, given)
		assert.Equal(t, 1, strings.Count(out, "the agent still has toolkit "), out)
	}
	assert.Len(t, w.rows("/agents", "agents")["B"]["toolkit_ids"], 1)
}

// A server that has none of the tools, or lacks too many, gets no toolkit. Each missing tool costs a request.
func TestServersThatLackTheirTools(t *testing.T) {
	t.Parallel()
	w := start(t)
	const form = `{"assistant_id":"a1","graph_id":"g","name":"A","config":{"configurable":
		{"mcp_config":{"url":"http://%s","tools":[%s]}}}}`
	before := w.counts()["toolkits"]
	for tools, want := range map[string]string{
		`"away"`:                                "none of its tools is left",
		strings.Repeat(`"echo",`, 3) + gone(40): "lacks 16 or more of its tools",
	} {
		status, out, _ := w.imports(w.url, w.export(fmt.Sprintf(form, w.tools, tools)), "-bearer",
			w.tools+"=TOOLS_TOKEN")
		assert.Equal(t, failed, status)
		assert.Contains(t, out, want)
		assert.LessOrEqual(t, strings.Count(out, "the server has no tool"), 16)
		assert.Equal(t, before, w.counts()["toolkits"])
	}
	assert.Empty(t, w.rows("/agents", "agents")["A"]["toolkit_ids"])
}

// gone returns the names of n tools that no server has.
func gone(n int) string {
	var names []string
	for i := range n {
		names = append(names, fmt.Sprintf(`"gone_%d"`, i))
	}
	return strings.Join(names, ",")
}

// Sources with one name are one knowledge base, also those of two people's files. An import that adds to it reports
// that.
func TestASourceThatIsThereAlreadyIsReported(t *testing.T) {
	t.Parallel()
	w := start(t)
	const form = `{"agents":[{"name":"%[1]s","system":"s","source_ids":["s0"]}],"tools":[],
		"sources":[{"id":"s0","name":"notes"}],
		"files":[{"source_id":"s0","file_name":"%[1]s.txt","content":"of %[1]s"}]}`
	for _, c := range []struct {
		name     string
		reported bool
	}{{"Anna", false}, {"Anna", false}, {"Bert", true}, {"Bert", false}} {
		out := w.succeeds(w.export(fmt.Sprintf(form, c.name)))
		assert.Equal(t, c.reported, strings.Contains(out, "all agents that have a source of this name"), out)
	}
	assert.Equal(t, 2, w.counts()["documents"])
}

// Everything beyond the limits of an agent is left out. The rest is made.
func TestAnAgentThatIsFull(t *testing.T) {
	t.Parallel()
	w := start(t)
	w.succeeds(w.export(`{"assistant_id":"a1","graph_id":"g","name":"A"}`))
	var ids []string
	for i := range 19 {
		b := w.call(http.MethodPost, "/knowledge-bases", object{"name": fmt.Sprint("b", i)})
		ids = append(ids, b["knowledge_base_id"].(string))
	}
	w.call(http.MethodPatch, "/agents/"+w.rows("/agents", "agents")["A"]["agent_id"].(string),
		object{"knowledge_base_ids": ids})
	for range 2 {
		out := w.succeeds(w.export(`{"assistant_id":"a1","graph_id":"g","name":"A",
			"config":{"configurable":{"rag":{"collections":["c1","c2"]}}}}`))
		assert.Contains(t, out, "21 knowledge bases, of which an agent may have 20")
		assert.Len(t, w.rows("/agents", "agents")["A"]["knowledge_base_ids"], 20)
	}
}

// If more tools of an agent need approval than it may name, each of its calls needs an approval.
func TestTooManyApprovals(t *testing.T) {
	t.Parallel()
	w := start(t)
	var names []string
	for i := range 2001 {
		names = append(names, fmt.Sprintf(`"t%d":true`, i))
	}
	out := w.succeeds(w.export(`{"assistant_id":"a1","graph_id":"g","name":"A",
		"config":{"configurable":{"interrupt_config":{` + strings.Join(names, ",") + `}}}}`))
	assert.Contains(t, out, "each call of a tool needs an approval")
	assert.Equal(t, "always", w.rows("/agents", "agents")["A"]["approval"].(object)["mode"])
}

func TestADryRunCallsNothing(t *testing.T) {
	t.Parallel()
	w := &world{t: t}
	status, out, errs := w.imports("http://127.0.0.1:1/api/v1", "testdata/letta/keeper.af", "-dry-run")
	assert.Equal(t, done, status, errs)
	assert.Contains(t, out, "plan: agents 1, toolkits 1, knowledge bases 1, documents 1")
	assert.NotContains(t, out, "\ncreated ")
}

// The exit status shows that a part of the export is missing, although the rest was made.
func TestWhatCannotBeReadIsNotASuccess(t *testing.T) {
	t.Parallel()
	w := start(t)
	from := w.folder(map[string]string{
		"a.json": `{"assistant_id":"a","graph_id":"g","name":"A"}`, "b.json": `{"agents":[`,
	})
	for _, more := range [][]string{{"-dry-run"}, nil} {
		status, out, errs := w.imports(w.url, from, more...)
		assert.Equal(t, failed, status, out)
		assert.Contains(t, errs, "some parts could not be read")
	}
	assert.Contains(t, w.rows("/agents", "agents"), "A")
}

func TestMistakesOfTheCommandLine(t *testing.T) {
	t.Parallel()
	none := func(string) string { return "" }
	for name, c := range map[string]struct {
		args    []string
		wantErr string
		want    int
	}{
		"no export":   {nil, "-from is required", misuse},
		"more":        {[]string{"-from", "x", "y"}, "-from is required", misuse},
		"no key":      {[]string{"-from", "testdata/letta"}, keyVariable, misuse},
		"no pair":     {[]string{"-from", "x", "-model", "gpt-4o"}, "must be NAME=VALUE", misuse},
		"no token":    {[]string{"-from", "x", "-dry-run", "-bearer", "h=NOWHERE"}, "NOWHERE is not set", misuse},
		"no file":     {[]string{"-from", "nowhere", "-dry-run"}, "nowhere", failed},
		"nothing":     {[]string{"-from", "testdata/openai/files", "-dry-run"}, "the path has no export", failed},
		"help":        {[]string{"-h"}, "-base-url", done},
		"unknown one": {[]string{"-what"}, "-what", misuse},
	} {
		t.Run(name, func(t *testing.T) {
			var out, errs bytes.Buffer
			assert.Equal(t, c.want, run(t.Context(), c.args, none, &out, &errs))
			assert.Contains(t, errs.String(), c.wantErr)
		})
	}
}
