package boot_test

import (
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/platform/setting"
	"agentplatform/internal/wiring/boot"
)

// start starts the service of a folder with its metrics at an address.
func start(t *testing.T, dir, metrics string) (*boot.Local, error) {
	s, err := setting.Read([]string{"ADDR=127.0.0.1:0", "DATA_DIR=" + dir, "METRICS_ADDR=" + metrics})
	require.NoError(t, err)
	return boot.StartLocal(t.Context(), s, slog.New(slog.DiscardHandler))
}

// METRICS_ADDR serves only the metrics, to all clients, by any name of the machine, until the service stops.
func TestMetricsAreServedAtTheirOwnAddress(t *testing.T) {
	dir := t.TempDir()
	l, err := start(t, dir, "127.0.0.1:0")
	require.NoError(t, err)
	ask := func(method, url string) (status int, body string) {
		r, err := http.NewRequestWithContext(t.Context(), method, url, nil)
		require.NoError(t, err)
		r.Host = "service.internal:9090" // as a scraper on another machine calls it
		answer, err := http.DefaultClient.Do(r)
		require.NoError(t, err)
		defer func() { _ = answer.Body.Close() }()
		raw, err := io.ReadAll(answer.Body)
		require.NoError(t, err)
		return answer.StatusCode, string(raw)
	}
	status, body := ask(http.MethodGet, l.MetricsURL)
	assert.Equal(t, http.StatusOK, status)
	assert.Contains(t, body, "\nprocess_cpu_seconds_total ")
	assert.Contains(t, body, "\nagentplatform_http_streams_open 0")
	assert.Contains(t, body, "\nhttp_streams_open 0", "the name of earlier versions")
	status, _ = ask(http.MethodHead, l.MetricsURL)
	assert.Equal(t, http.StatusOK, status)
	root := strings.TrimSuffix(l.MetricsURL, "/metrics")
	for _, path := range []string{"", "/", "/api/v1/agents", "/api/v1/healthz", "/debug/pprof/", "/metrics/x"} {
		status, _ = ask(http.MethodGet, root+path)
		assert.Equal(t, http.StatusNotFound, status, path)
	}
	status, _ = ask(http.MethodPost, l.MetricsURL)
	assert.Equal(t, http.StatusMethodNotAllowed, status)
	status, _ = ask(http.MethodGet, strings.Replace(l.URL, "/api/v1", "/metrics", 1))
	assert.Equal(t, http.StatusUnauthorized, status, "the service's own address wants a key as before")

	require.NoError(t, l.Stop())
	free, err := net.Listen("tcp", strings.TrimPrefix(root, "http://"))
	require.NoError(t, err, "it is closed with the service")
	require.NoError(t, free.Close())
}

// An unusable address ends the start with an error that names it. Nothing is left open.
func TestMetricsAtABadAddressEndTheStart(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { _ = taken.Close() }()
	dir := t.TempDir()
	for _, bad := range []string{taken.Addr().String(), "127.0.0.1:99999", "127.0.0.1:http-alike", "192.0.2.1:9090"} {
		_, err := start(t, dir, bad)
		require.ErrorContains(t, err, "cannot listen on METRICS_ADDR", bad)
		assert.ErrorContains(t, err, bad[strings.LastIndexByte(bad, ':')+1:], bad)
	}
	l, err := start(t, dir, "")
	require.NoError(t, err, "the folder is free again")
	assert.Empty(t, l.MetricsURL)
	require.NoError(t, l.Stop())
}
