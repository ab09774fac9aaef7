package main

import (
	"archive/tar"
	"errors"
	"io"
	"log"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/scripts/container"
)

func programsOf(stream, worker string) []container.File {
	return []container.File{
		container.Program("stream", []byte(stream)), container.Program("worker", []byte(worker)),
	}
}

func TestTheSameProgramGivesTheSameImage(t *testing.T) {
	digest := func(worker string) v1.Hash {
		image, err := imageOf(programsOf("a program", worker))
		require.NoError(t, err)
		sum, err := image.Digest()
		require.NoError(t, err)
		return sum
	}
	assert.Equal(t, digest("a second"), digest("a second"))
	assert.NotEqual(t, digest("a second"), digest("another"))
}

func TestAPushedImageContainsThePrograms(t *testing.T) {
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	defer server.Close()
	to, err := name.NewTag(strings.TrimPrefix(server.URL, "http://") + "/agents:1")
	require.NoError(t, err)
	image, err := imageOf(programsOf("a program", "a second"))
	require.NoError(t, err)
	require.NoError(t, remote.Write(to, image))
	back, err := remote.Image(to)
	require.NoError(t, err)
	file, err := back.ConfigFile()
	require.NoError(t, err)
	assert.Equal(t, "arm64", file.Architecture)
	assert.Equal(t, []string{"/stream"}, file.Config.Entrypoint)
	assert.Equal(t, "65532:65532", file.Config.User)
	held := map[string]string{}
	for files := tar.NewReader(mutate.Extract(back)); ; {
		h, err := files.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		content, err := io.ReadAll(files)
		require.NoError(t, err)
		held[h.Name] = string(content)
	}
	assert.Equal(t, map[string]string{"tmp": "", "stream": "a program", "worker": "a second"}, held)
}
