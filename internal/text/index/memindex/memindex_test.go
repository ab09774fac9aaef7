package memindex_test

import (
	"testing"

	"agentplatform/internal/text/index"
	"agentplatform/internal/text/index/indextest"
	"agentplatform/internal/text/index/memindex"
)

func TestContract(t *testing.T) {
	indextest.Run(t, indextest.Harness{Open: func(*testing.T) index.Index { return &memindex.Index{} }})
}
