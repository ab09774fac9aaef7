package main

import (
	"io"
	"log"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// distribution is a folder as make release leaves it, with texts in place of programs.
func distribution(t *testing.T) string {
	t.Helper()
	dist := t.TempDir()
	for _, file := range append([]string{"agentplatform-v1.2.3-linux-amd64", "agentplatform-v1.2.3-linux-arm64"},
		licenses...) {
		require.NoError(t, os.WriteFile(filepath.Join(dist, file), []byte(file), 0o600))
	}
	return dist
}

func TestATagHasAnImageForEachProcessor(t *testing.T) {
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	defer server.Close()
	repository := strings.TrimPrefix(server.URL, "http://") + "/agentplatform"
	require.NoError(t, run(t.Context(), "v1.2.3", distribution(t), repository))
	tag, err := name.NewTag(repository + ":v1.2.3")
	require.NoError(t, err)
	for _, processor := range processors {
		image, err := remote.Image(tag, remote.WithPlatform(v1.Platform{OS: "linux", Architecture: processor}))
		require.NoError(t, err)
		file, err := image.ConfigFile()
		require.NoError(t, err)
		assert.Equal(t, processor, file.Architecture)
		assert.Equal(t, "65532:65532", file.Config.User)
		assert.Equal(t, "v1.2.3", file.Config.Labels["org.opencontainers.image.version"])
		assert.NotNil(t, file.Config.Healthcheck)
		files := unpack(t, image, t.TempDir())
		assert.Equal(t, "agentplatform-v1.2.3-linux-"+processor, files["agentplatform"])
		assert.Equal(t, "NOTICE", files["licenses/NOTICE"])
	}
}

func TestADistributionGetsFilesForDocker(t *testing.T) {
	dist := distribution(t)
	require.NoError(t, run(t.Context(), "v1.2.3", dist, ""))
	tag, err := name.NewTag("agentplatform:v1.2.3")
	require.NoError(t, err)
	for _, processor := range processors {
		image, err := tarball.ImageFromPath(filepath.Join(dist, "agentplatform-v1.2.3-image-"+processor+".tar"), &tag)
		require.NoError(t, err)
		file, err := image.ConfigFile()
		require.NoError(t, err)
		assert.Equal(t, processor, file.Architecture)
	}
	require.NoError(t, os.Remove(filepath.Join(dist, "NOTICE")))
	require.Error(t, run(t.Context(), "v1.2.3", dist, ""))
}
