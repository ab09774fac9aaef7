//go:build peers

package modeltest

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/ai/model"
	"agentplatform/internal/proof/peertest"
)

// RunLlama checks an adapter against a real server, llama.cpp's, which speaks two APIs. It checks the limit of tokens
// and the rows of [Answers] of that server. Open makes the adapter for the server's address.
func RunLlama(t *testing.T, open func(address string) model.Model) {
	t.Helper()
	address := peertest.Llama(t, 512, "--jinja", "--chat-template-file", peertest.ToolsTemplate(t))
	m := model.WithSimpleTools(open(address))
	coldest := 0.0
	var tools []model.ToolSpec
	send := func(ctx context.Context, most int, message model.Message, emit func(string)) (model.Reply, error) {
		message.Role = model.User
		request := model.Request{
			Name: "smol", MaxTokens: &most, Temperature: &coldest, Messages: []model.Message{message}, Tools: tools,
		}
		reply, err := m.Converse(ctx, request, emit)
		if model.KindOf(err) == model.Retryable && ctx.Err() == nil { // it may have closed the kept connection
			reply, err = m.Converse(ctx, request, emit)
		}
		return reply, err
	}
	none := func(string) {}
	t.Run("the limit of tokens", func(t *testing.T) {
		reply, err := send(t.Context(), 5, model.Message{Text: "Count from one to a hundred."}, none)
		require.NoError(t, err)
		assert.Equal(t, "length", reply.Finish)
		assert.EqualValues(t, 5, reply.OutputTokens)
		assert.Greater(t, reply.InputTokens, int64(5))
	})
	t.Run("tools of which it makes no grammar", func(t *testing.T) {
		tools = []model.ToolSpec{{Name: "f", Parameters: json.RawMessage(`{"properties":{"a":{"pattern":"[0-9]+"},` +
			`"b":{"pattern":"^\\w+$"},"c":{"$ref":"#"},"d":{"type":"integer","maximum":1e30,"minimum":-1e30}}}`)}}
		_, err := send(t.Context(), 2, model.Message{Text: "Hello."}, none)
		require.NoError(t, err)
		tools = nil
	})
	t.Run("a picture", func(t *testing.T) {
		const dot = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
		png, err := base64.StdEncoding.DecodeString(dot)
		require.NoError(t, err)
		_, err = send(t.Context(), 5, model.Message{Text: "What is it?",
			Images: []model.Image{{ContentType: "image/png", Data: png}}}, none)
		assert.Equal(t, model.BadRequest, model.KindOf(err), "%v", err)
		assert.ErrorContains(t, err, "image input is not supported")
	})
	t.Run("what does not fit", func(t *testing.T) {
		_, err := send(t.Context(), 5, model.Message{Text: strings.Repeat("word ", 2000)}, none)
		assert.Equal(t, model.TooLong, model.KindOf(err), "%v", err)
	})
	t.Run("a cancel", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		reply, err := send(ctx, 200, model.Message{Text: "Tell a long story."}, func(string) { cancel() })
		require.Error(t, err)
		assert.Empty(t, reply.Calls)
	})
}
