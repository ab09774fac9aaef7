package main

import (
	"os"
	"reflect"
	"regexp"
	"slices"
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

// guide is infra/README.md without the table of what has not been tried, which says what tries it, not how.
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

// commands are the calls of make in the code of a page: the target and what follows it.
func commands(text string) [][2]string {
	var all [][2]string
	code := regexp.MustCompile("(?s)```.*?```|`[^`]+`")
	call := regexp.MustCompile(`\bmake ([a-z][a-z-]*)([^\n;&#` + "`" + `]*)`)
	for _, c := range code.FindAllString(text, -1) {
		for _, m := range call.FindAllStringSubmatch(c, -1) {
			all = append(all, [2]string{m[1], m[2]})
		}
	}
	return all
}

// wrong says what is wrong with the calls of make in a text.
func wrong(makefile, text string) []string {
	var all []string
	rules := map[string][]string{}
	for _, m := range regexp.MustCompile(`(?m)^([a-z][a-z-]*):([^#\n=]*)`).FindAllStringSubmatch(makefile, -1) {
		rules[m[1]] = strings.Fields(m[2])
	}
	for _, c := range commands(text) {
		needs, there := rules[c[0]]
		switch {
		case !there:
			all = append(all, "there is no target "+c[0])
		case (slices.Contains(needs, "stage") || c[0] == "smoke") && !strings.Contains(c[1], "STAGE="):
			all = append(all, "make "+c[0]+c[1]+" says no stage")
		}
	}
	return all
}

func TestTheGuideAndTheMakefileAgree(t *testing.T) {
	makefile := page(t, "Makefile")
	require.Greater(t, len(commands(guide(t))), 10)
	assert.Empty(t, wrong(makefile, guide(t)))
	assert.Equal(t, []string{"make deploy says no stage", "there is no target rollback"},
		wrong(makefile, "`git checkout X && make deploy`; `make rollback STAGE=x`; `make deploy STAGE=x`; `make "+
			"integration`"),
		"it can tell")
	for _, target := range []string{"preflight", "deploy", "destroy", "synth", "invoke"} {
		assert.Regexp(t, `(?m)^`+target+`: stage\b`, makefile)
	}
	assert.Regexp(t, `(?m)^STAGE \?=$`, makefile, "there is no default")
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
