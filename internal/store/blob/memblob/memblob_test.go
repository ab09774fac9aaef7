package memblob_test

import (
	"testing"

	"agentplatform/internal/blob"
	"agentplatform/internal/blob/blobtest"
	"agentplatform/internal/blob/memblob"
)

func TestContract(t *testing.T) {
	blobtest.Run(t, func(*testing.T) blob.Store {
		return &memblob.Store{}
	})
}
