//go:build peers

package openaimodel_test

import (
	"net/http"
	"testing"

	"agentplatform/internal/ai/model"
	"agentplatform/internal/ai/model/modeltest"
	"agentplatform/internal/ai/model/openaimodel"
)

func TestContract(t *testing.T) {
	modeltest.RunPeer(t, func(address string) model.Model {
		return openaimodel.New(address+"/v1", "secret-key", http.DefaultClient)
	})
}

func TestLlama(t *testing.T) {
	modeltest.RunLlama(t, func(address string) model.Model {
		return openaimodel.New(address+"/v1", "", http.DefaultClient)
	})
}
