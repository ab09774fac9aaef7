package logline_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/platform/logline"
)

func TestLongValuesAreCut(t *testing.T) {
	long := strings.Repeat("x", 1<<20)
	var out bytes.Buffer
	log := logline.New(&out, slog.LevelInfo)
	log.With("of", long).Error(long, "text", long, "error", errors.New(long), "panic", []string{long}, "nothing", nil,
		slog.Group("group", "inner", long))
	assert.Less(t, out.Len(), 200<<10)
	assert.Equal(t, 1, strings.Count(out.String(), "\n"))
	var line map[string]any
	require.NoError(t, json.Unmarshal(out.Bytes(), &line))
	assert.Equal(t, "ERROR", line["level"])
	assert.Contains(t, line["error"], "(1048576 bytes)")

	out.Reset()
	log.Info("short", "n", 3, "error", errors.New("why"))
	require.NoError(t, json.Unmarshal(out.Bytes(), &line))
	assert.Equal(t, "why", line["error"])
	assert.InDelta(t, 3, line["n"], 0)
}
