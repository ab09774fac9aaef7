package memblob_test

import (
	"testing"

	"agentplatform/internal/store/blob"
	"agentplatform/internal/store/blob/blobtest"
	"agentplatform/internal/store/blob/memblob"
)

func TestContract(t *testing.T) {
	blobtest.Run(t, func(*testing.T) blob.Store {
		return &memblob.Store{}
	})
}
