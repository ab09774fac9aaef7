//go:build peers

package mcptool_test

import (
	"encoding/json"
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/peertest"
	"agentplatform/internal/tool"
	"agentplatform/internal/tool/mcptool"
	"agentplatform/internal/tool/tooltest"
)

func TestTheReferenceServer(t *testing.T) {
	k := &mcptool.Kind{Client: http.DefaultClient}
	e := tool.Endpoint{URL: peertest.Everything(t)}
	tooltest.Run(t, tooltest.Harness{Kind: k, Endpoint: e, Echo: "echo"})
	beside, err := k.Browse(t.Context(), e)
	require.NoError(t, err)
	assert.NotEmpty(t, beside.Resources)
	assert.NotEmpty(t, beside.Prompts)
	found, err := k.Discover(t.Context(), e)
	require.NoError(t, err)
	results := map[string]tool.Result{}
	for _, d := range found {
		if arguments := map[string]string{"get-sum": `{"a":2,"b":3}`, "get-tiny-image": `{}`}[d.Name]; arguments != "" {
			results[d.Name], err = k.Call(t.Context(), e, d,
				tool.Invocation{Name: d.Name, Arguments: json.RawMessage(arguments)})
			require.NoError(t, err)
		}
	}
	assert.Contains(t, results["get-sum"].Text, "5")
	picture := results["get-tiny-image"]
	assert.NotEmpty(t, picture.Text)
	require.Len(t, picture.Files, 1)
	assert.Equal(t, "image/png", picture.Files[0].ContentType)
	assert.Equal(t, "\x89PNG", string(picture.Files[0].Data[:4]))
}

func TestTheReferenceServerWorksAsAProgram(t *testing.T) {
	e := tool.Endpoint{Command: []string{"node", peertest.EverythingProgram(t), "stdio"}}
	tooltest.Run(t, tooltest.Harness{Kind: &mcptool.Kind{Client: http.DefaultClient}, Endpoint: e, Echo: "echo"})
}
