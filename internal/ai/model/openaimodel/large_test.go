//go:build !race

package openaimodel_test

import (
	"net/http"
	"testing"

	"agentplatform/internal/ai/model"
	"agentplatform/internal/ai/model/modeltest"
	"agentplatform/internal/ai/model/openaimodel"
)

func TestAnEventWithManyValuesUsesLimitedMemory(t *testing.T) {
	open := func(c *http.Client) model.Model { return openaimodel.New("", "", c) }
	for before, behind := range map[string]string{
		`{"choices":[`: `]}`, `{"choices":[{"delta":{"tool_calls":[`: `]}}]}`,
		`{"choices":[{"delta":{"content":[`: `]}}]}`, `{"x":[`: `]}`,
	} {
		modeltest.RunLarge(t, before, behind, open)
	}
	modeltest.RunUnreadable(
		t,
		open,
		`{"choices":{}}`,
		`{"choices":[{"delta":[]}]}`,
		`{"choices":[{"delta":{"tool_calls":"x"}}]}`,
		`[]`,
		`{`,
		`nonsense`,
		`{"usage":"x"}`,
		`{"choices":[{"delta":{"tool_calls":[{"function":7}]}}]}`,
	)
}
