package memindex_test

import (
	"testing"

	"agentplatform/internal/index"
	"agentplatform/internal/index/indextest"
	"agentplatform/internal/index/memindex"
)

func TestContract(t *testing.T) {
	indextest.Run(t, indextest.Harness{Open: func(*testing.T) index.Index { return &memindex.Index{} }})
}
