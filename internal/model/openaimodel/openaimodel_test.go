package openaimodel_test

import (
	"net/http"
	"testing"

	"agentplatform/internal/model"
	"agentplatform/internal/model/modeltest"
	"agentplatform/internal/model/openaimodel"
)

func TestACancelClosesTheConnection(t *testing.T) {
	modeltest.RunCancel(t, "text/event-stream",
		func(address string) model.Model { return openaimodel.New(address, "k", http.DefaultClient) })
}

func TestRecordings(t *testing.T) {
	modeltest.RunRecordings(t,
		func(address string) model.Model { return openaimodel.New(address+"/v1", "k", http.DefaultClient) })
}

func TestWhatDoesNotFitTheWindowIsTold(t *testing.T) {
	modeltest.RunRefusals(t, func(c *http.Client) model.Model { return openaimodel.New("", "k", c) },
		`"error":`, `"object":"error"`)
}
