package plan_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/scripts/import/plan"
)

const anAssistant = `{"id":"asst_1","object":"assistant","name":"A","model":"gpt-4o"}`

func TestBrokenFilesAreReportedAndTheRestGoesOn(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"deep":    {strings.Repeat("[", 1000) + strings.Repeat("]", 1000), "nested more than 64 levels"},
		"twice":   {`{"agents":[],"agents":[]}`, "is repeated"},
		"cut off": {`{"agents":[`, "cut off"},
		"empty":   {"", "the JSON is empty"},
		"text":    {`"\"\\\"text\\\"\""`, "is a text, not an export"},
		"error":   {`{"error":{"message":"Incorrect API key provided"}}`, "is not a known export"},
	} {
		t.Run(name, func(t *testing.T) {
			files := fstest.MapFS{"a.json": {Data: []byte(anAssistant)}, "b.json": {Data: []byte(c.text)}}
			p, err := plan.Read(files, "", plan.Options{})
			require.NoError(t, err)
			assert.Len(t, p.Agents, 1)
			assert.Contains(t, report(t, p), c.want)

			_, err = plan.Read(files, "b.json", plan.Options{})
			assert.ErrorContains(t, err, "the path has no export")
		})
	}
}

func TestTooManyFilesAreNotAnExport(t *testing.T) {
	files := fstest.MapFS{}
	for i := range 20_001 {
		files[fmt.Sprint("files/", i)] = &fstest.MapFile{}
	}
	_, err := plan.Read(files, "", plan.Options{})
	assert.ErrorContains(t, err, "more than 20000 files")
}

// Names in an export are looked up among its files and never opened. Links are not followed.
func TestNothingOutsideOfTheFolderIsRead(t *testing.T) {
	outer := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(outer, "secret"), []byte("outside"), 0o600))
	inner := filepath.Join(outer, "export")
	require.NoError(t, os.MkdirAll(filepath.Join(inner, "files"), 0o700))
	for name, text := range map[string]string{
		"a.json": `[` + anAssistant + `]`,
		"b.json": `[{"id":"vs_1","object":"vector_store","name":"V"},
			{"id":"file-1","object":"vector_store.file","vector_store_id":"vs_1","status":"completed"},
			{"id":"file-1","object":"file","filename":"../secret"},
			{"id":"../../secret","object":"vector_store.file","vector_store_id":"vs_1","status":"completed"}]`,
	} {
		require.NoError(t, os.WriteFile(filepath.Join(inner, name), []byte(text), 0o600))
	}
	require.NoError(t, os.Symlink("../../secret", filepath.Join(inner, "files", "secret")))
	root, err := os.OpenRoot(inner)
	require.NoError(t, err)
	defer func() { _ = root.Close() }()
	p, err := plan.Read(root.FS(), "", plan.Options{})
	require.NoError(t, err)
	require.Len(t, p.Bases, 1)
	assert.Empty(t, p.Bases[0].Documents)
	text := report(t, p)
	assert.Contains(t, text, "is not a regular file: links are not followed")
	assert.Contains(t, text, "its content is not in the export")
}

// If two files have one name, an original under that name could be either. Only an id identifies it.
func TestAFileIsNotTakenForAnotherOfItsName(t *testing.T) {
	list := `[{"id":"vs_1","object":"vector_store","name":"V"}`
	for _, id := range []string{"file-1", "file-2"} {
		list += `,{"id":"` + id + `","object":"vector_store.file","vector_store_id":"vs_1","status":"completed"},
			{"id":"` + id + `","object":"file","filename":"notes.txt"}`
	}
	files := fstest.MapFS{"a.json": {Data: []byte(list + "]")}, "files/notes.txt": {Data: []byte("whose?")},
		"files/file-2": {Data: []byte("of the second")}}
	p, err := plan.Read(files, "", plan.Options{})
	require.NoError(t, err)
	require.Len(t, p.Bases[0].Documents, 1)
	assert.Equal(t, "files/file-2", p.Bases[0].Documents[0].Path)
	assert.Contains(t, report(t, p), "put the file there as files/file-1, or its text")
}

// A file that is named alone may be in a folder with any other files. These are ignored.
func TestAFileAloneLeavesItsFolderAlone(t *testing.T) {
	files := fstest.MapFS{"a.json": {Data: []byte(anAssistant)}, "b.json": {Data: []byte("{")}, "c.txt": {}}
	p, err := plan.Read(files, "a.json", plan.Options{})
	require.NoError(t, err)
	assert.Len(t, p.Agents, 1)
	assert.Empty(t, p.Findings)
}

func TestTextsAreCutToTheLimitsOfTheAPI(t *testing.T) {
	long := strings.Repeat("é", 300_000)
	text := `{"id":"` + long + `","object":"assistant","name":"` + long + `","description":"` + long +
		`","instructions":"` + long + `","model":"gpt-4o","metadata":{"a":"` + long + `"}}`
	p, shown := planned(t, text)
	a := p.Agents[0]
	assert.Len(t, []rune(a.Name), 200)
	assert.Len(t, []rune(a.Description), 10_000)
	assert.Len(t, a.Instructions, 256<<10)
	assert.Less(t, len(a.Mark), 30)
	assert.Equal(t, map[string]string{plan.ImportedFrom: a.Mark}, a.Metadata)
	for _, what := range []string{"name: cut to 200 of its 300000", "description: cut to 10000", "cut to 256 KiB",
		"names may have 64 and values 1024"} {
		assert.Contains(t, shown, what)
	}
}

func TestReportsObeyNoTerminal(t *testing.T) {
	text := `{"id":"asst_1","object":"assistant","name":"A\u001b[2Jred\u202e","model":"gpt\u0007",
		"tools":[{"type":"\u001b]0;x"}]}`
	_, shown := planned(t, text)
	for _, r := range shown {
		assert.False(t, r < ' ' && r != '\n' || r == '\u202e', "%q", r)
	}
}

// A secret in any place is neither taken nor printed. The report has only the host of a server's address.
func TestSecretsAreNeitherTakenNorPrinted(t *testing.T) {
	p, err := plan.Read(fstest.MapFS{"a.json": {Data: []byte(`[
		{"id":"asst_1","object":"assistant","name":"A","model":"gpt-4o","x":"tvly-SECRET789abcdef",
			"y":"SECRET",
			"metadata":{"openai_key":"SECRET1","db":"postgres://u:SECRET@db/x","hook":"sk-SECRET789abcdef","ok":"yes"},
			"tools":[{"type":"function","function":{"name":"pay"}},
				{"type":"function","function":{"name":"buy","parameters":{"properties":{
					"card":{"default":"SECRET","examples":["SECRET"]},"a SECRET name":{}}}}}]},
		{"agents":[{"name":"T","system":"s","tags":["ok","ghp_SECRET789abcdef"]}],"tools":[]},
		{"id":"vs_1","object":"vector_store","name":"V"},
		{"id":"f1","object":"vector_store.file","vector_store_id":"vs_1","status":"completed",
			"attributes":{"note":"ghp_SECRET789abcdef","ok":true}},
		{"assistant_id":"a1","graph_id":"g","name":"L","config":{"configurable":{"tavily_key":"SECRET2",
			"hook":"https://hooks.example/SECRETHOOK",
			"tools":["SECRET?","hf_SECRET789abcdef",{"name":"SECRET:x"},"add"],
			"triggers":["https://hooks.example/SECRET"],
			"mcp_config":{"tools":["a"],
				"url":"https://m.example/s/SECRETPATH/mcp?sig=SECRETSIG&code=SECRET&a=sk-SECRET789abcdef&b=1"}}}}]`)},
		"files/f1": {Data: []byte("text")},
	}, "", plan.Options{Tools: map[string]string{"pay": "https://f.example/SECRETFUNCTION"}})
	require.NoError(t, err)
	out := report(t, p)
	assert.NotContains(t, out, "SECRET")
	assert.Contains(t, out, "mcp at https://m.example")
	assert.Contains(t, out, "it takes (text, 13 bytes), card, as its schema there says")
	assert.Contains(t, out, "tool add is a program")
	assert.Equal(t, "ok", p.Agents[1].Metadata["tags"])
	require.Len(t, p.Toolkits, 2)
	assert.Equal(t, "https://m.example/s/SECRETPATH/mcp?b=1", p.Toolkits[1].URL, "its path is where the server is")
	assert.Equal(t, map[string]string{plan.ImportedFrom: p.Agents[0].Mark, "ok": "yes"}, p.Agents[0].Metadata)
	assert.Equal(t, map[string]any{"ok": true}, p.Bases[0].Documents[0].Metadata)
}

// The readable part of an address stays. A part that may be a secret is left out and reported.
func TestAddressesAreTakenWithoutSecrets(t *testing.T) {
	for address, want := range map[string]string{
		"https://m.example/mcp?api_key=SECRET;b":     "https://m.example/mcp",
		"https://m.example/mcp?b=1&token=SECRET%zz":  "https://m.example/mcp",
		"https://m.example/mcp#SECRET":               "https://m.example/mcp",
		"https://m.example/mcp?b=1#access=SECRET":    "https://m.example/mcp?b=1",
		"https://user:SECRET@m.example/mcp?b=1":      "https://m.example/mcp?b=1",
		"https://m.example/mcp?refresh_rate=5&b=1#":  "https://m.example/mcp?refresh_rate=5&b=1",
		"https://m.example/mcp?a=-----BEGIN+KEY&b=1": "https://m.example/mcp?b=1",
	} {
		p, out := planned(t, configured(fmt.Sprintf(`{"mcp_config":{"url":%q,"tools":["a"]}}`, address)))
		require.Len(t, p.Toolkits, 1, address)
		assert.Equal(t, want, p.Toolkits[0].URL)
		assert.NotContains(t, out, "SECRET")
		assert.Equal(t, strings.Contains(address, "SECRET") || strings.Contains(address, "BEGIN"),
			strings.Contains(out, "the address may contain credentials"), address)
	}
}

func TestWrongTypesAreReported(t *testing.T) {
	for _, text := range []string{
		`{"id":7,"object":"assistant","name":[],"model":{},"tools":{},"tool_resources":3,"metadata":"x",
			"temperature":"warm"}`,
		`{"agents":[7,{"name":7,"system":{},"tools":7,"llm_config":[],"tool_ids":7,"block_ids":[7],"tags":7}],
			"tools":7,"blocks":{}}`,
		`[{"assistant_id":"a","graph_id":7,
			"config":{"configurable":{"model":7,"mcp_config":7,"rag":{"collections":7},"tools":7}}}]`,
	} {
		p, shown := planned(t, text)
		assert.Greater(t, len(p.Findings), 4, text)
		assert.Contains(t, shown, "must be")
	}
}

// FuzzRead checks that no export ends the program, and that each plan fits the API.
func FuzzRead(f *testing.F) {
	for _, name := range []string{"openai/assistants.json", "openai/vector_stores.json", "letta/keeper.af",
		"letta/collector.af", "langgraph/assistants.json"} {
		raw, err := os.ReadFile("../testdata/" + name)
		require.NoError(f, err)
		f.Add(raw)
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		p, err := plan.Read(fstest.MapFS{"a.json": {Data: raw}}, "", plan.Options{})
		if err != nil {
			return
		}
		for _, a := range p.Agents {
			assert.NotEmpty(t, a.Name)
			assert.LessOrEqual(t, len([]rune(a.Name)), 200)
			assert.LessOrEqual(t, len(a.Metadata), 16)
			assert.LessOrEqual(t, len(a.Bases), 20)
		}
		for _, k := range p.Toolkits {
			assert.LessOrEqual(t, len([]rune(k.Name)), 200)
		}
		for _, b := range p.Bases {
			assert.LessOrEqual(t, len([]rune(b.Description)), 2000)
		}
		report := &strings.Builder{}
		require.NoError(t, p.Write(report))
	})
}
