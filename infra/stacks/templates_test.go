//go:build infra

package stacks_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/jsii-runtime-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/infra/stacks"
	"agentplatform/infra/stage"
)

// templates are the synthesised stacks, by name.
type templates map[string]map[string]any

var functions = []string{"chat", "api", "broker", "reader", "worker", "webhook", "job", "ingest", "sweeper"}

// geographies has the prefixes of names of inference profiles.
var geographies = []string{"us", "us-gov", "eu", "apac", "jp", "au", "ca", "global"}

func synthesised(t *testing.T, name string, change func(*stage.Stage)) templates {
	t.Helper()
	binaries := t.TempDir()
	for _, f := range functions {
		require.NoError(t, os.MkdirAll(filepath.Join(binaries, f), 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(binaries, f, "bootstrap"), []byte(f), 0o700))
	}
	s, err := stage.Named(name, "someone@example.com")
	require.NoError(t, err)
	s.Settings = map[string]string{
		"BEDROCK_MODELS": "eu.amazon.nova-lite-v1:0, amazon.titan-text, " +
			strings.Join(geographies, ".anthropic.claude-sonnet-4-5, ") + ".anthropic.claude-sonnet-4-5",
		"BEDROCK_GUARDRAIL": "gr4n9abc:7",
		"EMBEDDING_MODELS":  "bedrock/amazon.titan-embed-text-v2:0:512, openai/text-embedding-3-small",

		"OTEL_EXPORTER_OTLP_ENDPOINT": "https://xray.eu-central-1.amazonaws.com",
	}
	change(&s)
	require.NoError(t, s.Validate())
	out := t.TempDir()
	app := awscdk.NewApp(&awscdk.AppProps{Outdir: jsii.String(out), AnalyticsReporting: jsii.Bool(false)})
	made := stacks.New(app, s, stacks.Found{Binaries: binaries, Image: "sha256:" + strings.Repeat("0", 64),
		OriginPrefixList: "pl-0123456", Zones: []string{"eu-central-1a", "eu-central-1b"},
		WebACL: "arn:aws:wafv2:us-east-1:123456789012:global/webacl/x/y", Commit: "0123abc", CommitBefore: "9876fed"})
	for _, stack := range made {
		assert.NotContains(t, *stack.Tags().TagValues(), "commit", "each resource would have it, and change with it")
	}
	app.Synth(nil)
	all := templates{}
	for _, what := range []string{"Data", "Edge", "Service"} {
		b, err := os.ReadFile(filepath.Join(out, what+".template.json"))
		require.NoError(t, err)
		var one map[string]any
		require.NoError(t, json.Unmarshal(b, &one))
		all[what] = one
	}
	return all
}

func (all templates) clone(t *testing.T) templates {
	b, err := json.Marshal(all)
	require.NoError(t, err)
	var c templates
	require.NoError(t, json.Unmarshal(b, &c))
	return c
}

type properties = map[string]any

// of returns the properties of all resources of a type in all stacks, by logical id.
func (all templates) of(kind string) map[string]properties {
	found := map[string]properties{}
	for _, stack := range all {
		for id, v := range object(stack["Resources"]) {
			if r := object(v); r["Type"] == kind {
				found[id] = object(r["Properties"])
			}
		}
	}
	return found
}

func (all templates) the(kind, prefix string) properties {
	for id, p := range all.of(kind) {
		if strings.HasPrefix(id, prefix) {
			return p
		}
	}
	panic("there is no " + kind + " " + prefix)
}

// id returns the logical id of a resource.
func (all templates) id(kind, prefix string) string {
	for id := range all.of(kind) {
		if strings.HasPrefix(id, prefix) {
			return id
		}
	}
	panic("there is no " + kind + " " + prefix)
}

// add adds a resource.
func (all templates) add(id, kind string, p properties) {
	object(all["Service"]["Resources"])[id] = map[string]any{"Type": kind, "Properties": p}
}

func object(v any) map[string]any { m, _ := v.(map[string]any); return m }
func list(v any) []any            { l, _ := v.([]any); return l }
func text(v any) string           { b, _ := json.Marshal(v); return string(b) }

func number(v any) float64 { n, _ := v.(float64); return n }

// several returns the strings of a member that is one string or a list.
func several(v any) []string {
	if s, ok := v.(string); ok {
		return []string{s}
	}
	var all []string
	for _, one := range list(v) {
		if s, ok := one.(string); ok {
			all = append(all, s)
		} else {
			all = append(all, text(one))
		}
	}
	if v != nil && all == nil {
		all = []string{text(v)}
	}
	return all
}

// aliases returns the aliases that a reference refers to.
func (all templates) aliases(reference any) (found []properties) {
	for id, p := range all.of("AWS::Lambda::Alias") {
		if strings.Contains(text(reference), `"`+id+`"`) {
			found = append(found, p)
		}
	}
	return found
}

// invoked returns the function behind a reference to its alias.
func (all templates) invoked(reference any) properties {
	if alias := all.target("AWS::Lambda::Alias", reference); alias != nil {
		return all.target("AWS::Lambda::Function", alias["FunctionName"])
	}
	return nil
}

// target returns the resource that a reference refers to.
func (all templates) target(kind string, reference any) properties {
	for id, p := range all.of(kind) {
		if strings.Contains(text(reference), `"`+id+`"`) {
			return p
		}
	}
	return nil
}
