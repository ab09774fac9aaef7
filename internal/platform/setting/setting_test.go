package setting_test

import (
	"flag"
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/platform/setting"
)

var update = flag.Bool("update", false, "rewrite the table of docs/settings.md")

func TestEmptyEnvironmentGivesTheDefaults(t *testing.T) {
	s, err := setting.Read(nil)
	require.NoError(t, err)
	assert.Equal(t, "127.0.0.1:8080", s.Addr)
	assert.Equal(t, 5, s.UserCap)
	assert.Equal(t, "72h0m0s", s.PauseExpiry.String())
}

func TestErrorNamesEachInvalidVariable(t *testing.T) {
	for _, bad := range []string{
		"ADDR=8080", "METRICS_ADDR=9090", "PUBLIC_URL=ftp://x", "OBSERVE_WINDOW=soon", "OBSERVE_WINDOW=-1s",
		"RESPONSE_WINDOW=2h",
		"START_DEADLINE=10ms",
		"ACTIVE_LIMIT=0s", "PAUSE_EXPIRY=999ms", "USER_FILES=0",
		"LEASE=1ms", "USER_CAP=0", "PAUSED_RUNS=0", "ORGANIZATION_CAP=1000001", "RATE_LIMIT=x", "RATE_BURST=0",
		"WORKERS=10001",
		"STREAMS=0", "KEY_STREAMS=1000001", "ADDRESS_CONNECTIONS=0", "MAX_BODY=1", "WEBHOOK_ALLOW_HOSTS=host",
		"WEBHOOK_RETENTION_DAYS=-1", "WEBHOOK_RETENTION_DAYS=90d",
		"LOG_LEVEL=loud", "BEDROCK_MODELS=amazon nova", "BEDROCK_GUARDRAIL=x", "BEDROCK_GUARDRAIL=x:y",
		"OTEL_EXPORTER_OTLP_ENDPOINT=collector:4318", "OTEL_EXPORTER_OTLP_ENDPOINT=http://u:p@x",
		"OTEL_EXPORTER_OTLP_ENDPOINT=http://x?key=y", "OTEL_EXPORTER_OTLP_HEADERS=x",
		"OTEL_EXPORTER_OTLP_HEADERS=x=%zz",
		"OTEL_TRACES_SAMPLER_ARG=1.1", "OTEL_TRACES_SAMPLER_ARG=-1", "OTEL_TRACES_SAMPLER_ARG=NaN",
		"OTEL_TRACES_SAMPLER_ARG=all",
	} {
		name, _, _ := strings.Cut(bad, "=")
		_, err := setting.Read([]string{bad})
		require.Error(t, err, bad)
		assert.Contains(t, err.Error(), name, bad)
	}
}

func TestCloudSettingsAreRequiredAndValidated(t *testing.T) {
	all := []string{
		"CORE_TABLE=c", "FEED_TABLE=f", "BUCKET=b", "RUN_QUEUE_URL=r", "WEBHOOK_QUEUE_URL=w", "JOB_QUEUE_URL=j",
		"INGEST_QUEUE_URL=i", "VECTOR_BUCKET=v", "PAUSE_MACHINE_ARN=p", "SEALING_KEY=k",
	}
	c, err := setting.ReadCloud(all)
	require.NoError(t, err)
	assert.Equal(t, "30s", c.CacheLife.String())
	for i, one := range all {
		name, _, _ := strings.Cut(one, "=")
		_, err := setting.ReadCloud(append(append([]string{}, all[:i]...), all[i+1:]...))
		require.ErrorContains(t, err, name)
	}
	for _, bad := range []string{"CACHE_LIFE=6m", "CACHE_LIFE=x", "HAND_OVER_AFTER=15m", "HAND_OVER_AFTER=0s"} {
		name, _, _ := strings.Cut(bad, "=")
		_, err := setting.ReadCloud(append(all, bad))
		require.ErrorContains(t, err, name)
	}
}

func TestAGuardrailIsAnIDOrAnARNWithItsVersion(t *testing.T) {
	for named, want := range map[string][2]string{
		"": {}, "gr4n9abc:7": {"gr4n9abc", "7"},
		"arn:aws:bedrock:eu-central-1:123456789012:guardrail/gr4n9abc:DRAFT": {
			"arn:aws:bedrock:eu-central-1:123456789012:guardrail/gr4n9abc", "DRAFT"},
	} {
		_, err := setting.Read([]string{"BEDROCK_GUARDRAIL=" + named})
		require.NoError(t, err)
		id, version := setting.Guardrail(named)
		assert.Equal(t, want, [2]string{id, version})
	}
}

func TestEachVariableHasAKind(t *testing.T) {
	kinds := setting.Names()
	assert.Equal(t, setting.Secret, kinds["OPENAI_API_KEY"])
	assert.Equal(t, setting.Resource, kinds["CORE_TABLE"])
	plain, ok := kinds["CACHE_LIFE"]
	assert.True(t, ok)
	assert.Equal(t, setting.Plain, plain)
	for name, kind := range kinds {
		secret := strings.HasSuffix(name, "_KEY") || strings.HasSuffix(name, "_SECRET") ||
			strings.HasSuffix(name, "_HEADERS")
		assert.Equal(t, secret && name != "SEALING_KEY", kind == setting.Secret, name)
	}
}

// The page's table is made of the tags.
func TestTheSettingsPageListsTheSettings(t *testing.T) {
	var table strings.Builder
	table.WriteString("\n| name | default | what |\n|---|---|---|\n")
	for _, f := range reflect.VisibleFields(reflect.TypeFor[setting.Settings]()) {
		value := f.Tag.Get("envDefault")
		if value != "" {
			value = "`" + value + "`"
		}
		fmt.Fprintf(&table, "| `%s` | %s | %s |\n", f.Tag.Get("env"), value, f.Tag.Get("help"))
	}
	const begin, end = "<!-- settings:begin, rewritten by make golden -->\n", "\n<!-- settings:end -->"
	page, err := os.ReadFile("../../../docs/settings.md")
	require.NoError(t, err)
	before, rest, ok := strings.Cut(string(page), begin)
	require.True(t, ok)
	listed, after, ok := strings.Cut(rest, end)
	require.True(t, ok)
	if *update {
		page := before + begin + table.String() + end + after
		require.NoError(t, os.WriteFile("../../../docs/settings.md", []byte(page), 0o600))
		return
	}
	var missing []string
	for row := range strings.Lines(table.String()) {
		if !strings.Contains(listed, row) {
			missing = append(missing, row)
		}
	}
	require.Empty(t, missing, "docs/settings.md lacks these rows: run make golden if this is meant")
	assert.Equal(t, listed, table.String(), "run make golden if this is meant")
}

// The error of a value out of its bounds has both of them, and the value.
func TestErrorNamesTheBounds(t *testing.T) {
	_, err := setting.Read([]string{"OBSERVE_WINDOW=1h", "WORKERS=0"})
	assert.ErrorContains(t, err, "settings: OBSERVE_WINDOW must be between 0s and 5m0s, not 1h0m0s")
	assert.ErrorContains(t, err, "settings: WORKERS must be between 1 and 10000, not 0")
}
