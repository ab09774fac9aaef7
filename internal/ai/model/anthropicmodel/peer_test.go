//go:build peers

package anthropicmodel_test

import (
	"net/http"
	"testing"

	"agentplatform/internal/ai/model"
	"agentplatform/internal/ai/model/anthropicmodel"
	"agentplatform/internal/ai/model/modeltest"
)

func TestContract(t *testing.T) {
	modeltest.RunPeer(t, func(address string) model.Model {
		return anthropicmodel.New(address, "secret-key", http.DefaultClient)
	})
}

func TestLlama(t *testing.T) {
	modeltest.RunLlama(t, func(address string) model.Model {
		return anthropicmodel.New(address, "", http.DefaultClient)
	})
}
