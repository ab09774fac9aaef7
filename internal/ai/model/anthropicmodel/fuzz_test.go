package anthropicmodel_test

import (
	"net/http"
	"testing"

	"agentplatform/internal/model"
	"agentplatform/internal/model/anthropicmodel"
	"agentplatform/internal/model/modeltest"
)

func FuzzAnswer(f *testing.F) {
	modeltest.FuzzAnswer(f, func(c *http.Client) model.Model { return anthropicmodel.New("", "", c) })
}
