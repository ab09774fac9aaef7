package plan

import (
	"encoding/json"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/text/encoding/unicode"
)

const oneAssistant = `{"id":"asst_1","object":"assistant","name":"A","model":"gpt-4o"}`

// read returns the plan of files, given by name and content.
func read(t *testing.T, only string, files map[string]string) *Plan {
	t.Helper()
	folder := fstest.MapFS{}
	for name, text := range files {
		folder[name] = &fstest.MapFile{Data: []byte(text)}
	}
	p, err := Read(folder, only, Options{})
	require.NoError(t, err)
	return p
}

// whats returns the findings' texts.
func whats(p *Plan) string {
	var all []string
	for _, f := range p.Findings {
		all = append(all, f.Kind+": "+f.What+"; "+f.Do)
	}
	return strings.Join(all, "\n")
}

// Exports come from many tools: one object a line, endings in capitals, a byte order mark at the beginning.
func TestFormsOfFilesOfJSON(t *testing.T) {
	other := strings.Replace(oneAssistant, "asst_1", "asst_2", 1)
	for name, c := range map[string]struct {
		file, only, text string
		agents           int
	}{
		"lines":        {"a.jsonl", "", oneAssistant + "\n" + other + "\r\n\n", 2},
		"a line":       {"a.ndjson", "", oneAssistant + "\n", 1},
		"lines, .json": {"a.json", "", oneAssistant + "\n" + other, 2},
		"capitals":     {"A.JSON", "", oneAssistant, 1},
		"BOM":          {"a.json", "", "\ufeff" + oneAssistant, 1},
		"data alone":   {"a.json", "", `{"data":[` + oneAssistant + `],"has_more":false}`, 1},
		"named":        {"saved.txt", "saved.txt", oneAssistant, 1},
	} {
		t.Run(name, func(t *testing.T) {
			p := read(t, c.only, map[string]string{c.file: c.text})
			assert.Len(t, p.Agents, c.agents)
			assert.Empty(t, whats(p))
		})
	}
}

func TestUnreadableFilesReportTheReason(t *testing.T) {
	wide, err := unicode.UTF16(unicode.LittleEndian, unicode.IgnoreBOM).NewEncoder().String(oneAssistant)
	require.NoError(t, err)
	for name, c := range map[string]struct{ text, want string }{
		"UTF-16":          {"\xff\xfe" + wide, "is UTF-16"},
		"UTF-16, no mark": {wide, "is UTF-16"},
		"broken line":     {oneAssistant + "\n" + oneAssistant + "\n{\"id\":", "/2 is not valid JSON"},
		"agents of the API": {`[{"id":"agent-1","name":"A","system":"s","agent_type":"letta_v1_agent",
			"memory":{"blocks":[]},"tools":[],"sources":[]}]`, "/export"},
		"more pages": {`{"object":"list","data":[],"has_more":true}`, "further pages"},
	} {
		t.Run(name, func(t *testing.T) {
			p := read(t, "", map[string]string{"a.json": oneAssistant, "b.json": c.text})
			assert.Len(t, p.Agents, 1)
			assert.Contains(t, whats(p), c.want)
			assert.True(t, p.Unread(), whats(p))
		})
	}
	p := read(t, "", map[string]string{"a.json": oneAssistant, "b.json": "[" + strings.Repeat("0,", maxValues) + "0]"})
	assert.Contains(t, whats(p), "divide the export")
	p = read(t, "", map[string]string{"a.json": oneAssistant, "notes.txt": "x"})
	assert.False(t, p.Unread(), "what is no export is not asked for")
}

// The text of a document is counted when it is sent, not among the descriptions.
func TestTextsDoNotCountAsDescriptions(t *testing.T) {
	p := &planner{found: map[string]bool{}, alike: map[[2]string]int{}, export: &export{
		root: fstest.MapFS{
			"contents/f1.json": {Data: []byte(`{"data":[{"type":"text","text":"hello"}]}`)},
			"b.json":           {Data: []byte(oneAssistant)},
		},
		used: map[string]bool{}, read: maxRead,
	}}
	text, ok := p.parsedText(&object{p: p}, "contents/f1.json")
	assert.True(t, ok)
	assert.Equal(t, "hello\n", text)
	p.describe("b.json", false)
	require.Len(t, p.Findings, 1)
	assert.Contains(t, p.Findings[0].Do, "divide the export")
	assert.True(t, p.Unread())
}

// OpenAI's API returns the text of a file in one of two shapes.
func TestTextsOfFilesInBothShapes(t *testing.T) {
	for _, shape := range []string{
		`{"object":"vector_store.file_content.page","data":[{"type":"text","text":"hello"}],"has_more":false}`,
		`{"file_id":"f1","filename":"a.md","attributes":{},"content":[{"type":"text","text":"hello"}]}`,
	} {
		p := read(t, "", map[string]string{"a.json": `[{"id":"vs_1","object":"vector_store","name":"V"},
			{"id":"f1","object":"vector_store.file","vector_store_id":"vs_1","status":"completed"}]`,
			"contents/f1.json": shape})
		require.Len(t, p.Bases[0].Documents, 1, whats(p))
		assert.Equal(t, "hello\n", p.Bases[0].Documents[0].Text)
	}
}

// A small file does not make a large report.
func TestFindingsOfOneKindAreCounted(t *testing.T) {
	list, err := json.Marshal(make([]int, 5000))
	require.NoError(t, err)
	p := read(t, "", map[string]string{"a.json": oneAssistant, "b.json": string(list),
		"c.json": strings.Replace(oneAssistant, `"A"`, `"A","brand_new":1`, 1)})
	assert.Len(t, p.Findings, 100+1+2)
	assert.Contains(t, whats(p), "and 4900 more like it: is unknown")
	assert.Contains(t, whats(p), "brand_new")
}
