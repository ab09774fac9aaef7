package main

import (
	"log/slog"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"agentplatform/internal/platform/setting"
	"agentplatform/internal/proof/scenario"
	"agentplatform/internal/wiring/boot"
)

// laptop runs worlds in this process, each with its own data folder.
type laptop struct{}

func (laptop) Start(t *testing.T, settings map[string]string) scenario.World {
	environ := []string{"ADDR=127.0.0.1:0", "DATA_DIR=" + t.TempDir()}
	for k, v := range settings {
		environ = append(environ, k+"="+v)
	}
	s, err := setting.Read(environ)
	require.NoError(t, err)
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError}))
	local, err := boot.StartLocal(t.Context(), s, log)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, local.Stop()) })
	return scenario.World{URL: local.URL, Key: local.Key}
}

func TestScenarios(t *testing.T) { scenario.Run(t, laptop{}) }

func TestAuthorisation(t *testing.T) {
	t.Parallel()
	scenario.Matrix(t, laptop{})
}
