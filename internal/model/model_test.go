package model_test

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"agentplatform/internal/model"
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
		// OpenAI
		{400, "This model's maximum context length is 8192 tokens. However, you requested 9000.", model.TooLong},
		// Anthropic
		{400, "prompt is too long: 210000 tokens > 200000 maximum", model.TooLong},
		// Bedrock
		{400, "Input is too long for requested model.", model.TooLong},
		// llama.cpp
		{400, "the request exceeds the available context size, context window 4096", model.TooLong},
		{400, "Invalid value for temperature", model.BadRequest},
		{401, "Incorrect API key", model.BadRequest},
		{404, "model not found", model.BadRequest},
	} {
		var failure *model.Error
		if assert.ErrorAs(t, model.FromHTTP(c.status, time.Second, errors.New(c.text)), &failure) {
			assert.Equal(t, c.want, failure.Kind, "%d %s", c.status, c.text)
		}
	}
}
