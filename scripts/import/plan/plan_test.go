package plan_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/scripts/import/plan"
)

var update = flag.Bool("update", false, "rewrite the reports")

var samples = []string{"openai", "letta", "langgraph"}

func read(t *testing.T, sample string, options plan.Options) *plan.Plan {
	t.Helper()
	p, err := plan.Read(os.DirFS("../testdata/"+sample), "", options)
	require.NoError(t, err)
	return p
}

func report(t *testing.T, p *plan.Plan) string {
	t.Helper()
	var b bytes.Buffer
	require.NoError(t, p.Write(&b))
	return b.String()
}

func TestReportsOfTheSamples(t *testing.T) {
	for _, sample := range samples {
		t.Run(sample, func(t *testing.T) {
			got := report(t, read(t, sample, plan.Options{}))
			golden := "testdata/" + sample + ".golden.txt"
			if *update {
				require.NoError(t, os.WriteFile(golden, []byte(got), 0o644))
			}
			want, err := os.ReadFile(golden)
			require.NoError(t, err)
			assert.Equal(t, string(want), got, "rewrite it with -update, and read the difference")
			assert.NotContains(t, got, "not-to-be-shown", "no secret of an export is shown")
		})
	}
}

// withoutMeaning has the members that may be ignored without a report. Common names have the name of their object.
var withoutMeaning = strings.Fields(`object first_id last_id created_at updated_at version revision_id id bytes status
	status_details purpose usage_bytes file_counts last_active_at function.strict json_schema.strict json_schema.name
	json_schema.type json_schema.description data.type response_format chunking_strategy limit read_only created_by_id
	last_updated_by_id return_char_limit enable_parallel_execution handle provider_name provider_category display_name
	model_endpoint timezone tools.description json_schema args_json_schema source_code source_type file_name file_path
	file_type file_size file_creation_date file_last_modified_date processing_status total_chunks chunks_embedded
	context prompt_template`)

var indices = regexp.MustCompile(`\[\d+\]`)

// meaningless reports whether a member may be ignored.
func meaningless(path string) bool {
	names := strings.Split(indices.ReplaceAllString(path, ""), ".")
	last := names[len(names)-1]
	return slices.Contains(withoutMeaning, last) || slices.Contains(withoutMeaning, names[len(names)-2]+"."+last)
}

// Each member of a sample is mapped, in the report, or among those without meaning.
func TestNoMemberIsDroppedSilently(t *testing.T) {
	for _, sample := range samples {
		t.Run(sample, func(t *testing.T) {
			p := read(t, sample, plan.Options{})
			c := covered(t, p)
			for _, e := range p.Ignored {
				assert.True(t, meaningless(e.Path), "%s %s: %s", e.File, e.Path, e.Why)
			}
			for _, f := range p.Findings {
				assert.NotEmpty(t, f.Do, "%v says what the user can do", f)
			}
			folder := "../testdata/" + sample
			require.NoError(t, filepath.WalkDir(folder, func(name string, d os.DirEntry, err error) error {
				if ext := filepath.Ext(name); err != nil || d.IsDir() || ext != ".json" && ext != ".af" {
					return err
				}
				c.file(folder, name)
				return nil
			}))
			assert.Greater(t, c.seen, 30)
		})
	}
}

// coverage walks a sample by itself.
type coverage struct {
	t       *testing.T
	covered map[string]bool
	seen    int
}

// covered returns the members that a plan maps, reports or ignores.
func covered(t *testing.T, p *plan.Plan) *coverage {
	c := &coverage{t: t, covered: map[string]bool{}}
	for _, e := range slices.Concat(p.Mapped, p.Ignored) {
		c.covered[e.File+e.Path] = true
	}
	for _, f := range p.Findings {
		c.covered[f.File+f.Path] = c.covered[f.File+f.Path] || f.Whole
		for _, m := range f.Members {
			c.covered[f.File+f.Path+"."+m] = true
		}
	}
	return c
}

func (c *coverage) file(folder, name string) {
	raw, err := os.ReadFile(name)
	require.NoError(c.t, err)
	var v any
	require.NoError(c.t, json.Unmarshal(raw, &v))
	if inner, double := v.(string); double {
		require.NoError(c.t, json.Unmarshal([]byte(inner), &v))
	}
	at, err := filepath.Rel(folder, name)
	require.NoError(c.t, err)
	c.walk(filepath.ToSlash(at), v)
}

func (c *coverage) walk(at string, v any) {
	c.seen++
	if c.covered[at] {
		return
	}
	switch v := v.(type) {
	case map[string]any:
		for name, inner := range v {
			c.walk(at+"."+name, inner)
		}
	case []any:
		for i, inner := range v {
			c.walk(fmt.Sprintf("%s[%d]", at, i), inner)
		}
	case nil:
	case bool:
		assert.False(c.t, v, "%s is neither mapped nor reported", at)
	case float64:
		assert.Zero(c.t, v, "%s is neither mapped nor reported", at)
	case string:
		assert.Empty(c.t, v, "%s is neither mapped nor reported", at)
	}
}

// A member that a platform adds later is reported as well, in any place.
func TestUnknownMembersAreReported(t *testing.T) {
	for _, sample := range []string{"openai/assistants.json", "openai/vector_stores.json", "openai/files.json",
		"openai/vector_store_files/vs_Handbook01.json", "letta/collector.af", "langgraph/assistants.json"} {
		raw, err := os.ReadFile("../testdata/" + sample)
		require.NoError(t, err)
		var v any
		require.NoError(t, json.Unmarshal(raw, &v))
		n := 0
		surprise(v, &n)
		require.NotZero(t, n)
		changed, err := json.Marshal(v)
		require.NoError(t, err)
		p, _ := planned(t, string(changed))
		covered(t, p).walk("a.json", v)
	}
}

// surprise adds a member to each object.
func surprise(v any, n *int) {
	switch v := v.(type) {
	case map[string]any:
		for _, inner := range v {
			surprise(inner, n)
		}
		v["brand_new"] = map[string]any{"much": "news"}
		*n++
	case []any:
		for _, inner := range v {
			surprise(inner, n)
		}
	}
}

func TestOptionsOfTheUser(t *testing.T) {
	const at = "https://shop.example/functions/"
	p := read(t, "openai", plan.Options{
		Models: map[string]string{"gpt-4o": "anthropic/claude-x", "gpt-9": "openai/x"},
		Tools:  map[string]string{"order_status": at + "status", "nothing": at},
	})
	require.Len(t, p.Toolkits, 1)
	tk := p.Toolkits[0]
	assert.Equal(t, at+"status", tk.URL)
	assert.Equal(t, "http", tk.Kind)
	assert.Equal(t, "body", tk.Request.Body)
	assert.JSONEq(t, `{"type":"object","required":["body"],
		"$defs":{"order":{"type":"string","description":"the order's number"}},
		"properties":{"body":{"type":"object","properties":{"order":{"$ref":"#/$defs/order"}},"required":["order"],
		"$defs":{"order":{"type":"string","description":"the order's number"}}}}}`, string(tk.Request.Parameters))
	assert.Equal(t, []string{tk.Mark}, p.Agents[0].Toolkits)
	assert.Equal(t, plan.Model{Provider: "anthropic", Name: "claude-x", Chosen: true,
		Temperature: p.Agents[0].Model.Temperature}, p.Agents[0].Model)
	text := report(t, p)
	assert.Contains(t, text, "the export has no gpt-9")
	assert.Contains(t, text, "the export has no nothing")
	assert.NotContains(t, text, "the export has no gpt-4o")
}

// The same agent saved again, with other messages and other ids in the file, is the same agent.
func TestMarksOfLettaLastLongerThanTheFile(t *testing.T) {
	const form = `{"agents":[{"id":"%s","name":"A","system":"S","messages":[{"id":"m"}]}],"tools":[],
		"created_at":"%s"}`
	marks := map[string]bool{}
	for _, text := range []string{fmt.Sprintf(form, "agent-0", "2025"), fmt.Sprintf(form, "agent-7", "2026")} {
		p, _ := planned(t, text)
		marks[p.Agents[0].Mark] = true
	}
	assert.Len(t, marks, 1)
}
