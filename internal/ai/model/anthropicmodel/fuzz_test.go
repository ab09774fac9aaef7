package anthropicmodel_test

import (
	"net/http"
	"testing"

	"agentplatform/internal/ai/model"
	"agentplatform/internal/ai/model/anthropicmodel"
	"agentplatform/internal/ai/model/modeltest"
)

func FuzzAnswer(f *testing.F) {
	modeltest.FuzzAnswer(f, func(c *http.Client) model.Model { return anthropicmodel.New("", "", c) })
}
