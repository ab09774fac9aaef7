package dirblob_test

import (
	"testing"

	"agentplatform/internal/store/blob"
	"agentplatform/internal/store/blob/blobtest"
	"agentplatform/internal/store/blob/dirblob"
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
