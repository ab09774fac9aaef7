package model_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"agentplatform/internal/ai/model"
	"agentplatform/internal/ai/providerhttp"
)

func TestAProvidersErrorResponseHasAKind(t *testing.T) {
	for _, c := range []struct {
		status int
		text   string
		want   model.Kind
	}{
		{429, "Rate limit reached", model.Throttled},
		{500, "internal", model.Retryable},
		{529, "Overloaded", model.Retryable},
		{408, "timeout", model.Retryable},
		{400, "prompt is too long: 210000 tokens > 200000 maximum", model.TooLong},
		{400, "Invalid value for temperature", model.BadRequest},
		{401, "Incorrect API key", model.BadRequest},
		{404, "model not found", model.BadRequest},
	} {
		var failure *model.Error
		if assert.ErrorAs(t, model.FromHTTP(c.status, providerhttp.NewTrouble(c.text)), &failure) {
			assert.Equal(t, c.want, failure.Kind, "%d %s", c.status, c.text)
		}
	}
}
