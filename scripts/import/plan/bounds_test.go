package plan

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// allocated returns how many bytes the plan of a file allocates, and the plan. No other test may run in parallel.
func allocated(t *testing.T, text string) (bytes int, p *Plan) {
	t.Helper()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	p = read(t, "", map[string]string{"a.json": text})
	runtime.ReadMemStats(&after)
	return int(after.TotalAlloc - before.TotalAlloc), p
}

// repeated returns a list of n elements, each made from its index.
func repeated(n int, form string) string {
	all := make([]string, n)
	for i := range all {
		all[i] = strings.ReplaceAll(form, "%", fmt.Sprint(i))
	}
	return "[" + strings.Join(all, ",") + "]"
}

// A thing that a small file has once costs memory once, for any number of references to it. Reading a file takes some
// 30 times its size, with all copies.
func TestReferencesCostNothing(t *testing.T) {
	large := strings.Repeat("x", 1<<20)
	for name, c := range map[string]struct {
		text string
		most int // MiB
	}{
		"a block many times": {`{"agents":[{"name":"A","system":"s","block_ids":` + repeated(1000, `"b"`) +
			`}],"tools":[],"blocks":[{"id":"b","label":"l","value":"` + large + `"}]}`, 60},
		"a block of many agents": {`{"agents":` + repeated(300, `{"name":"A%","system":"s","block_ids":["b"]}`) +
			`,"tools":[],"blocks":[{"id":"b","label":"l","value":"` + large + `"}]}`,
			60 + 300}, // an agent has 256 KiB, which are put together and cut
		"a tool many times": {`{"agents":[{"name":"A","system":"s","tool_ids":` + repeated(500, `"t"`) +
			`}],"tools":[{"id":"t","name":"t","json_schema":{"parameters":{"type":"` + large + `"}}}]}`, 60},
		"a tool of many agents": {`{"agents":` + repeated(500, `{"name":"A%","system":"s","tool_ids":["t"]}`) +
			`,"tools":[{"id":"t","name":"t","json_schema":{"parameters":{"type":"` + large + `"}}}]}`, 60},
		"sources of one name": {`{"agents":[],"tools":[],"sources":` + repeated(2000, `{"id":"s%","name":"s"}`) +
			`,"files":` + repeated(2000, `{"source_id":"s%","file_name":"f%.txt","content":"c"}`) + `}`, 60},
	} {
		t.Run(name, func(t *testing.T) {
			bytes, p := allocated(t, c.text)
			assert.Less(t, bytes, c.most<<20, "%d MiB", bytes>>20)
			for _, a := range p.Agents {
				assert.LessOrEqual(t, len(a.Instructions), maxInstructions)
			}
		})
	}
}

// All agents together have no more memory blocks than the limit for read descriptions. An agent beyond it is not made
// at all. A later run would not add its memory blocks.
func TestTheMemoryOfAllAgentsIsBounded(t *testing.T) {
	const agents = 1100
	p := read(t, "", map[string]string{"a.json": `{"agents":` +
		repeated(agents, `{"name":"A%","system":"s","block_ids":["b"]}`) + `,"tools":[],"blocks":[{"id":"b","label":"l",
		"value":"` + strings.Repeat("x", maxInstructions) + `"}]}`})
	require.Equal(t, maxRead/maxInstructions+1, len(p.Agents)) //nolint:testifylint // it would print them all
	assert.True(t, p.Unread())
	assert.Contains(t, whats(p), "memory")
}

// A thing that is named several times is in the plan once, in the order of the export.
func TestWhatIsNamedTwiceIsThereOnce(t *testing.T) {
	p := read(t, "", map[string]string{"a.json": `{"agents":[{"name":"A","system":"s","block_ids":["b","c","b"],
			"tool_ids":["t","t"],"source_ids":["s","s"],"tool_rules":[{"type":"requires_approval","tool_name":"t"},
			{"type":"requires_approval","tool_name":"a"},{"type":"requires_approval","tool_name":"t"}]}],
		"tools":[{"id":"t","name":"t","default_requires_approval":true,"tags":["mcp:m"],"tool_type":"external_mcp"}],
		"sources":[{"id":"s","name":"s"}],
		"mcp_servers":[{"server_name":"m","server_type":"streamable_http","server_url":"https://m.example/mcp"}],
		"blocks":[{"id":"b","label":"B","value":"1"},{"id":"c","label":"C","value":"2"}]}`})
	a := p.Agents[0]
	assert.Equal(t, "s\n\n# Memory\n\n## B\n\n1\n\n\n## C\n\n2", a.Instructions)
	assert.Equal(t, []string{"t", "a"}, a.Approval)
	assert.Len(t, a.Bases, 1)
	assert.Len(t, a.Toolkits, 1)
	assert.Equal(t, []string{"t"}, p.Toolkits[0].Enabled)
}
