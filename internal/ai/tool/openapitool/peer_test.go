//go:build peersall

package openapitool_test

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/ai/tool"
	"agentplatform/internal/ai/tool/openapitool"
	"agentplatform/internal/proof/peertest"
)

// A server that others wrote checks the request of each operation against the document, and has no objection.
func TestAServerOfDocumentsAcceptsEachRequest(t *testing.T) {
	for _, name := range []string{"styles.yaml", "swagger.yaml"} {
		file := filepath.Join("testdata", name)
		document, err := os.ReadFile(file)
		require.NoError(t, err)
		k := &openapitool.Kind{Client: http.DefaultClient}
		e := tool.Endpoint{Document: document, BaseURL: peertest.Prism(t, file)}
		found, err := k.Discover(t.Context(), e)
		require.NoError(t, err)
		for _, one := range found {
			if one.Name == "upload" {
				assert.NotEmpty(t, one.Problem)
				continue
			}
			var schema map[string]any
			require.NoError(t, json.Unmarshal(one.Parameters, &schema))
			arguments, err := json.Marshal(made(schema))
			require.NoError(t, err)
			require.Empty(t, one.Problem, one.Name)
			_, err = k.Call(t.Context(), e, one, tool.Invocation{Name: one.Name, Arguments: arguments})
			assert.NoError(t, err, "%s %s: %s", name, one.Name, arguments)
		}
		// the server does find faults
		for _, one := range found {
			if one.Name == "faulty" {
				_, err := k.Call(t.Context(), e, one, tool.Invocation{Arguments: json.RawMessage(`{"ids":["x"]}`)})
				require.ErrorContains(t, err, "422")
			}
		}
	}
	peertest.Seen(t, peertest.Counterpart{
		Area: "tools", Name: "Prism (@stoplight/prism-cli)", Version: "5.16.0",
		Works: "accepts requests of all operations of two documents: OpenAPI 3 styles, forms, multipart, Swagger 2.0",
		Not:   "its own reading of commas in paths, spaceDelimited, exploded label objects, names with capitals",
	})
}

// made is a value that fits a schema of the test's documents.
func made(schema map[string]any) any {
	if all, ok := schema["enum"].([]any); ok {
		return all[0]
	}
	switch schema["type"] {
	case "integer", "number":
		return 7
	case "boolean":
		return true
	case "array":
		items, _ := schema["items"].(map[string]any)
		return []any{made(items), made(items)}
	case "object":
		all := map[string]any{}
		properties, _ := schema["properties"].(map[string]any)
		for name, one := range properties {
			all[name] = made(one.(map[string]any))
		}
		return all
	}
	return "a b&c"
}
