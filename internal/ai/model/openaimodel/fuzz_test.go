package openaimodel_test

import (
	"net/http"
	"testing"

	"agentplatform/internal/ai/model"
	"agentplatform/internal/ai/model/modeltest"
	"agentplatform/internal/ai/model/openaimodel"
)

func FuzzAnswer(f *testing.F) {
	modeltest.FuzzAnswer(f, func(c *http.Client) model.Model { return openaimodel.New("", "", c) })
}
