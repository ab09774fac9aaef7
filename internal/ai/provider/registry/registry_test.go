package registry_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/ai/model"
	"agentplatform/internal/ai/provider/registry"
	"agentplatform/internal/platform/host"
	"agentplatform/internal/platform/setting"
)

func TestEachSettingAddsItsProvider(t *testing.T) {
	t.Setenv("AWS_REGION", "eu-central-1")
	names, kinds := map[string]bool{}, setting.Names()
	for _, p := range registry.All() {
		assert.False(t, names[p.Name], "%s stands twice", p.Name)
		names[p.Name] = true
		for _, name := range p.Settings {
			assert.Contains(t, kinds, name)
			s, err := setting.Read([]string{name + "=http-and-a-key"})
			require.NoError(t, err)
			models, err := registry.Models(t.Context(), s, host.System())
			require.NoError(t, err)
			assert.Len(t, models, 2, "demo, and that of %s", name)
			assert.NotNil(t, models[p.Name])
			assert.Contains(t, registry.Catalogues(s), p.Name)
			assert.Equal(t, p.Key == "", registry.KeylessCatalogues(s)[p.Name] != nil, p.Name)
		}
		if p.Key != "" {
			assert.Equal(t, setting.Secret, kinds[p.Key])
			assert.Contains(t, p.Settings, p.Key)
			s, err := setting.Read([]string{p.Key + "=the key"})
			require.NoError(t, err)
			assert.Equal(t, "the key", *s.Secret(p.Key))
		}
	}
}

// The words are Gemini's (zed#44875). Its endpoint of OpenAI's API knows few keywords of JSON schema.
func TestAModelThatRefusesItsToolsIsSentSimplerOnes(t *testing.T) {
	var requests atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests.Add(1)
		if body, _ := io.ReadAll(r.Body); strings.Contains(string(body), `"const"`) {
			w.WriteHeader(http.StatusBadRequest)
			_, _ = io.WriteString(w, `{"error":{"code":400,"message":"Invalid JSON payload received. Unknown name `+
				`\"const\" at 'tools[0].function_declarations[0].parameters': Cannot find field."}}`)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, `data: {"choices":[{"delta":{"content":"Hi"},"finish_reason":"stop"}]}`+"\n\n")
	}))
	defer server.Close()
	s, err := setting.Read([]string{"OPENAI_BASE_URL=" + server.URL})
	require.NoError(t, err)
	models, err := registry.Models(t.Context(), s, host.System())
	require.NoError(t, err)
	parameters := json.RawMessage(`{"type":"object","properties":{"a":{"const":"x"}}}`)
	request := model.Request{Name: "gemini-flash", Tools: []model.ToolSpec{{Name: "f", Parameters: parameters}}}
	for range 2 {
		reply, err := models["openai"].Converse(t.Context(), request, func(string) {})
		require.NoError(t, err)
		assert.Equal(t, "Hi", reply.Text)
	}
	assert.EqualValues(t, 3, requests.Load(), "it is remembered")
}

// A function that only lists models has a cold start, which grows with what it links.
func TestAProgramLinksOnlyTheAdaptersThatItMakes(t *testing.T) {
	if testing.Short() {
		t.Skip("it builds a program")
	}
	program := filepath.Join(t.TempDir(), "lists")
	out, err := exec.Command("go", "build", "-o", program, "./testdata/lists").CombinedOutput()
	require.NoError(t, err, "%s", out)
	symbols, err := exec.Command("go", "tool", "nm", program).Output()
	require.NoError(t, err)
	assert.Contains(t, string(symbols), "agentplatform/internal/ai/model/openaimodel.Catalogue")
	for _, made := range []string{
		"openaimodel.New", "openaiembedding.New", "bedrockmodel.New", "bedrockembedding.New", "bedrockruntime.New",
	} {
		assert.NotContains(t, string(symbols), made)
	}
}

var update = flag.Bool("update", false, "rewrite the table of docs/models-and-tools.md")

func TestTheModelsPageListsTheProviders(t *testing.T) {
	code := func(names ...string) string { return "`" + strings.Join(names, "`, `") + "`" }
	var table strings.Builder
	table.WriteString("\n| provider | what it is | settings |\n|---|---|---|\n")
	for _, p := range registry.All() {
		settings := "always there"
		if len(p.Settings) > 0 {
			settings = code(p.Settings...)
		}
		fmt.Fprintf(&table, "| %s | %s | %s |\n", code(p.Name), p.What, settings)
	}
	const begin, end = "<!-- providers:begin, rewritten by make golden -->\n", "\n<!-- providers:end -->"
	const file = "../../../../docs/models-and-tools.md"
	page, err := os.ReadFile(file)
	require.NoError(t, err)
	before, rest, ok := strings.Cut(string(page), begin)
	require.True(t, ok)
	listed, after, ok := strings.Cut(rest, end)
	require.True(t, ok)
	if *update {
		require.NoError(t, os.WriteFile(file, []byte(before+begin+table.String()+end+after), 0o600))
		return
	}
	assert.Equal(t, table.String(), listed, "run make golden if this is meant")
}
