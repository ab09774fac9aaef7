package openaimodel_test

import (
	"net/http"
	"testing"

	"agentplatform/internal/model"
	"agentplatform/internal/model/modeltest"
	"agentplatform/internal/model/openaimodel"
)

func FuzzAnswer(f *testing.F) {
	modeltest.FuzzAnswer(f, func(c *http.Client) model.Model { return openaimodel.New("", "", c) })
}
