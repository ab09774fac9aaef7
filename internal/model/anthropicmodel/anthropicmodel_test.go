package anthropicmodel_test

import (
	"net/http"
	"testing"

	"agentplatform/internal/model"
	"agentplatform/internal/model/anthropicmodel"
	"agentplatform/internal/model/modeltest"
)

func TestACancelClosesTheConnection(t *testing.T) {
	modeltest.RunCancel(t, "text/event-stream",
		func(address string) model.Model { return anthropicmodel.New(address, "k", http.DefaultClient) })
}

func TestRecordings(t *testing.T) {
	modeltest.RunRecordings(t,
		func(address string) model.Model { return anthropicmodel.New(address, "k", http.DefaultClient) })
}
