package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// deploying runs scripts/deploy.sh with programs in the place of its own, which note what they are called with, and
// returns what was called and said, and whether it succeeded.
func deploying(t *testing.T, edge, there bool, environ ...string) (called []string, said string, err error) {
	t.Helper()
	folder := t.TempDir()
	script, err := os.ReadFile("../deploy.sh")
	require.NoError(t, err)
	write := func(name, text string) {
		path := filepath.Join(folder, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
		require.NoError(t, os.WriteFile(path, []byte("#!/usr/bin/env bash\n"+text), 0o700)) //nolint:gosec // a program
	}
	facts := `{"stage":"x","commit":"c0ffee","before":"BEFORE","originPrefixList":"pl-1","zones":["z-1a","z-1b"],` +
		`"edge":EDGE}`
	facts = strings.Replace(facts, "EDGE", map[bool]string{true: "true", false: "false"}[edge], 1)
	facts = strings.Replace(facts, "BEFORE", map[bool]string{true: "beef"}[there], 1)
	write("scripts/deploy.sh", string(script))
	write("bin/go", `echo "go $*" >>"$LOG"
case "$*" in
*preflight*) [ -z "${REFUSE:-}" ] || exit 1; echo '`+facts+`' ;;
*imagepush*) echo sha256:1 ;;
*firstkey*) [ -n "${THERE:-}" ] || echo '{"key":"first"}' ;;
esac`)
	write("bin/make", `echo "make $*" >>"$LOG"`)
	write("cdk", `echo "cdk $*" >>"$LOG"
[ "${REFUSE_STACK:-}" != "${*: -1}" ] || exit 1
args=("$@")
for i in "${!args[@]}"; do [ "${args[$i]}" != --outputs-file ] || out=${args[$i+1]}; done
echo '{"agents-x-data":{"ImageRepository":"repo","CoreTable":"core"},"agents-x-edge":{"WebAclArn":"acl"}}' >"$out"`)
	log := filepath.Join(folder, "log")
	command := exec.CommandContext(t.Context(), filepath.Join(folder, "scripts/deploy.sh"), "x")
	command.Env = append(append(os.Environ(), "PATH="+folder+"/bin:"+os.Getenv("PATH"), "LOG="+log,
		"CDK="+folder+"/cdk", "OPERATOR_KEY="), environ...)
	if there {
		command.Env = append(command.Env, "THERE=1")
	}
	out, err := command.CombinedOutput()
	noted, readErr := os.ReadFile(log)
	require.NoError(t, readErr, string(out))
	return strings.Split(strings.TrimSpace(string(noted)), "\n"), string(out), err
}

// steps are what was called, without the arguments that all have.
func steps(called []string) []string {
	var short []string
	for _, c := range called {
		words := strings.Fields(c)
		switch words[0] {
		case "cdk":
			short = append(short, words[0]+" "+words[len(words)-1])
		default:
			short = append(short, strings.Join(words[:min(3, len(words))], " "))
		}
	}
	return short
}

func TestADeployGoesInItsOrder(t *testing.T) {
	called, said, err := deploying(t, true, false)
	require.NoError(t, err, said)
	assert.Equal(t, []string{"go run ./scripts/preflight", "cdk Data", "cdk Edge", "go run ./scripts/imagepush",
		"go run ./scripts/firstkey", "cdk Service", "make smoke STAGE=x"}, steps(called))
	service := called[5]
	for _, known := range []string{"stage=x", "commit=c0ffee", "originPrefixList=pl-1", "zones=z-1a,z-1b", "webAcl=acl",
		"image=sha256:1"} {
		assert.Contains(t, service, "-c "+known)
	}
	assert.Contains(t, said, "deploying commit c0ffee to x")
	assert.NotContains(t, service, "commitBefore", "of a first deploy")
}

func TestAStageWithoutAnEdgeHasNoSuchStep(t *testing.T) {
	called, said, err := deploying(t, false, false)
	require.NoError(t, err, said)
	assert.NotContains(t, steps(called), "cdk Edge")
	assert.NotContains(t, strings.Join(called, "\n"), "webAcl")
}

func TestNothingIsDeployedAfterARefusal(t *testing.T) {
	called, _, err := deploying(t, true, false, "REFUSE=1")
	require.Error(t, err)
	assert.Equal(t, []string{"go run ./scripts/preflight"}, steps(called))
	called, _, err = deploying(t, true, false, "REFUSE_STACK=Data")
	require.Error(t, err)
	assert.Equal(t, []string{"go run ./scripts/preflight", "cdk Data"}, steps(called))
}

func TestAStageWhoseKeyIsElsewhereIsDeployedAndNotTested(t *testing.T) {
	called, said, err := deploying(t, false, true)
	require.Error(t, err)
	assert.Equal(t, "cdk Service", steps(called)[len(called)-1])
	assert.Contains(t, said, "its operator key is with whoever deployed it first")
	assert.Contains(t, said, "deploying commit c0ffee to x, in the place of beef")
	assert.Contains(t, called[len(called)-1], "-c commitBefore=beef")
	called, said, err = deploying(t, false, true, "OPERATOR_KEY=mine")
	require.NoError(t, err, said)
	assert.Equal(t, "make smoke STAGE=x", called[len(called)-1])
}

func TestTheAddressForAlarmsIsPassedOn(t *testing.T) {
	called, said, err := deploying(t, false, true, "OPERATOR_KEY=mine", "ALARM_EMAIL=a@example.com")
	require.NoError(t, err, said)
	assert.Contains(t, called[0], "-alarm-email a@example.com")
	assert.Contains(t, called[1], "-c alarmEmail=a@example.com")
}
