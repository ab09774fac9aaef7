package main

import (
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/infra/stage"
)

func page(t *testing.T, name string) string {
	t.Helper()
	raw, err := os.ReadFile("../../" + name)
	require.NoError(t, err)
	return string(raw)
}

// guide returns infra/README.md without its table of untried parts, which names the commands without their arguments.
func guide(t *testing.T) string {
	t.Helper()
	whole := page(t, "infra/README.md")
	before, after, found := strings.Cut(whole, "\n## What has not been tried")
	require.True(t, found)
	if _, rest, more := strings.Cut(after, "\n## "); more {
		before += "\n## " + rest
	}
	return before
}

// Each command of the guide and the runbook names the stage, and make has no default. (internal/proof/docs checks
// targets.)
func TestTheGuideAndTheMakefileAgree(t *testing.T) {
	makefile := page(t, "Makefile")
	for _, target := range []string{"preflight", "deploy", "destroy", "synth", "invoke"} {
		assert.Regexp(t, `(?m)^`+target+`: stage\b`, makefile)
	}
	assert.Regexp(t, `(?m)^STAGE \?=$`, makefile, "there is no default")
	call := regexp.MustCompile("make (?:preflight|deploy|destroy|synth|invoke|smoke)\\b[^\n;&#`]*")
	calls := call.FindAllString(guide(t)+page(t, "docs/operate.md"), -1)
	require.Greater(t, len(calls), 10)
	for _, c := range calls {
		assert.Contains(t, c, "STAGE=")
	}
}

func TestTheGuideHasEverySettingOfAStage(t *testing.T) {
	_, table, found := strings.Cut(guide(t), "### A stage's settings")
	require.True(t, found)
	table, _, _ = strings.Cut(table, "\n### ")
	for field := range reflect.TypeFor[stage.Stage]().Fields() {
		assert.Regexp(t, `(?m)^\|[^|]*`+"`"+field.Name+"`"+`[^|]*\|`, table, "%s has no row", field.Name)
	}
}

func TestTheGuideAnswersEveryCheck(t *testing.T) {
	_, table, found := strings.Cut(guide(t), "### What the preflight says")
	require.True(t, found)
	table, _, _ = strings.Cut(table, "\n### ")
	for _, k := range checks {
		assert.Regexp(t, `(?m)^\|[^|]*`+regexp.QuoteMeta(k.name)+`[^|]*\|`, table, "%s has no row", k.name)
	}
}
