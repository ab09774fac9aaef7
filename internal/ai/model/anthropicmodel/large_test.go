//go:build !race

package anthropicmodel_test

import (
	"net/http"
	"testing"

	"agentplatform/internal/ai/model"
	"agentplatform/internal/ai/model/anthropicmodel"
	"agentplatform/internal/ai/model/modeltest"
)

func TestAnEventWithManyValuesUsesLimitedMemory(t *testing.T) {
	open := func(c *http.Client) model.Model { return anthropicmodel.New("", "", c) }
	for before, behind := range map[string]string{
		`{"content_block":{"text":[`: `]}}`, `{"content_block":{"input":[`: `]}}`, `{"x":[`: `]}`,
	} {
		modeltest.RunLarge(t, before, behind, open)
	}
	modeltest.RunUnreadable(
		t,
		open,
		`{"type":7}`,
		`{"delta":[]}`,
		`{"content_block":"x"}`,
		`{"message":7}`,
		`{"usage":"x"}`,
		`[]`,
		`{`,
		`nonsense`,
	)
}
