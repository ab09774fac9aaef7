//go:build linux && !race

package worker

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"runtime/debug"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/ai/model"
	"agentplatform/internal/ai/model/anthropicmodel"
	"agentplatform/internal/ai/model/openaimodel"
	"agentplatform/internal/platform/host"
	"agentplatform/internal/platform/share"
	"agentplatform/internal/store/blob/dirblob"
	"agentplatform/internal/store/record"
	"agentplatform/internal/store/table/memtable"
)

// The worker function has 224 MB (infra/stacks/service.go). Its runs use less than half of it in the tests on
// LocalStack. Pictures use more: their bytes, in base64, and in a request.
const (
	functionMemory = 224 << 20
	modelAddress   = "TEST_MODEL_ADDRESS" // makes this process the one that is measured
)

// TestTheLargestMessageFitsIntoAFunction measures the largest memory of a separate process that sends a model the
// largest pictures of a message.
func TestTheLargestMessageFitsIntoAFunction(t *testing.T) {
	if address := os.Getenv(modelAddress); address != "" {
		showPictures(t, address)
		return
	}
	served := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n, err := io.Copy(io.Discard, r.Body)
		assert.NoError(t, err)
		assert.Greater(t, n, int64(maxShown), "in base64")
		w.WriteHeader(http.StatusBadRequest) // nothing more of it is needed
	}))
	defer served.Close()
	for _, provider := range []string{"openai", "anthropic"} {
		child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
		child.Env = append(os.Environ(), modelAddress+"="+provider+" "+served.URL)
		output, err := child.CombinedOutput()
		require.NoError(t, err, string(output))
		var most int64
		_, rest, _ := strings.Cut(string(output), "VmHWM:")
		_, err = fmt.Sscanf(rest, "%d", &most)
		require.NoError(t, err, string(output))
		t.Logf("%s: %d MB", provider, most>>10)
		assert.Less(t, most<<10, int64(functionMemory), provider)
	}
}

func showPictures(t *testing.T, to string) {
	debug.SetMemoryLimit(functionMemory * 3 / 4)
	provider, address, _ := strings.Cut(to, " ")
	machine := host.System()
	blobs, err := dirblob.Open(t.TempDir(), share.NewDisk(func() int64 { return 1 << 40 }, 0))
	require.NoError(t, err)
	store := record.New(memtable.New(machine.Now), blobs, machine)
	f := store.NewFile("o", "u", "cat.png", "image/png")
	f.ID = "1"
	_, err = record.Create(t.Context(), store, f, "1")
	require.NoError(t, err)
	picture := append([]byte("\x89PNG\x00"), bytes.Repeat([]byte{0xa5}, maxShown/4-5)...)
	f, err = store.FillFile(t.Context(), record.Of("o"), "1", bytes.NewReader(picture), int64(len(picture)))
	require.NoError(t, err)
	debug.FreeOSMemory()
	require.NoError(t, os.WriteFile("/proc/self/clear_refs", []byte("5"), 0)) // resets the peak
	w := &Worker{Store: store}
	left := int64(maxShown)
	files := slices.Repeat([]record.FileRef{f.Ref()}, maxImages)
	m, err := w.message(t.Context(), "o", record.Input{Files: files}, &left)
	require.NoError(t, err)
	require.Zero(t, left, "as many as may be shown")
	m.Role = model.User
	var shown model.Model = openaimodel.New(address, "key", http.DefaultClient)
	if provider == "anthropic" {
		shown = anthropicmodel.New(address, "key", http.DefaultClient)
	}
	for range 3 { // a failed call is made again
		_, err = shown.Converse(t.Context(), model.Request{Name: "m", Messages: []model.Message{m}}, func(string) {})
		require.Error(t, err)
	}
	status, err := os.ReadFile("/proc/self/status")
	require.NoError(t, err)
	_, _ = os.Stdout.Write(status)
	t.Logf("%d pictures", len(m.Images))
}
