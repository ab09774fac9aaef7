package dirblob_test

import (
	"testing"

	"agentplatform/internal/blob"
	"agentplatform/internal/blob/blobtest"
	"agentplatform/internal/blob/dirblob"
)

func TestContract(t *testing.T) {
	blobtest.Run(t, func(t *testing.T) blob.Store {
		s, err := dirblob.Open(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		return s
	})
}
