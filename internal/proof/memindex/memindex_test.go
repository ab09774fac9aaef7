package memindex_test

import (
	"testing"

	"agentplatform/internal/proof/memindex"
	"agentplatform/internal/text/index"
	"agentplatform/internal/text/index/indextest"
)

func TestContract(t *testing.T) {
	indextest.Run(t, indextest.Harness{Open: func(*testing.T) index.Index { return &memindex.Index{} }})
}
