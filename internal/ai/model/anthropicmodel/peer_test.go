//go:build peers

package anthropicmodel_test

import (
	"net/http"
	"testing"

	"agentplatform/internal/model"
	"agentplatform/internal/model/anthropicmodel"
	"agentplatform/internal/model/modeltest"
)

func TestContract(t *testing.T) {
	modeltest.RunPeer(t, func(address string) model.Model {
		return anthropicmodel.New(address, "secret-key", http.DefaultClient)
	})
}
