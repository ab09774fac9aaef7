package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// table is the core table of the stage's first life.
const table = "agents-x-data-Core1"

// checkout is a folder with scripts/deploy.sh and the Makefile. Other programs replace those that they call. AWS is a
// folder, too: it has a file for each core table with an organization.
type checkout struct {
	t           *testing.T
	folder, aws string
}

func newCheckout(t *testing.T, edge, there bool) checkout {
	t.Helper()
	c := checkout{t, t.TempDir(), t.TempDir()}
	facts := fmt.Sprintf(`{"stage":"x","commit":"c0ffee","before":%q,"originPrefixList":"pl-1",`+
		`"zones":["z-1a","z-1b"],"edge":%t}`, map[bool]string{true: "beef"}[there], edge)
	for name, from := range map[string]string{"scripts/deploy.sh": "../deploy.sh", "Makefile": "../../Makefile"} {
		text, err := os.ReadFile(from)
		require.NoError(t, err)
		c.write(name, string(text))
	}
	c.program("bin/go", `
case "$*" in *infra/smoke*) echo "$OPERATOR_KEY" >>"$LOG.smoke"; exit ;; esac
echo "go $*" >>"$LOG"
case "$*" in
*preflight*) [ -z "${REFUSE:-}" ] || exit 1; echo '`+facts+`' ;;
*imagepush*) echo sha256:1 ;;
*firstkey*) [ -z "${NO_KEY:-}" ] || { echo "firstkey: refused" >&2; exit 1; }
  table="$AWS/$ACCOUNT-$AWS_REGION-${*: -1}"
  [ ! -e "$table" ] || exit 0
  echo "key $RANDOM$RANDOM" >"$table"
  echo "{\"key\":\"$(cat "$table")\"}"
  [ -z "${CUT:-}" ] || kill -9 "$PPID" ;;
esac`)
	make, err := exec.LookPath("make")
	require.NoError(t, err)
	c.program("bin/make", `echo "make $*" >>"$LOG"; exec `+make+` "$@"`)
	c.program("cdk", `echo "cdk $*" >>"$LOG"
[ "${REFUSE_STACK:-}" != "${*: -1}" ] || exit 1
args=("$@")
for i in "${!args[@]}"; do [ "${args[$i]}" != --outputs-file ] || out=${args[$i+1]}; done
images="$ACCOUNT.dkr.ecr.$AWS_REGION.amazonaws.com/images"
echo '{"agents-x-data":{"ImageRepository":"'"$images"'"'"${TABLE:+,\"CoreTable\":\"$TABLE\"}"'},
  "agents-x-edge":{"WebAclArn":"acl"},"agents-x-service":{"BaseUrl":"https://x"}}' >"${out:-/dev/null}"`)
	if there {
		require.NoError(t, os.WriteFile(filepath.Join(c.aws, "1-eu-central-1-"+table), nil, 0o600))
	}
	return c
}

func (c checkout) write(name, text string) {
	c.t.Helper()
	path := filepath.Join(c.folder, name)
	require.NoError(c.t, os.MkdirAll(filepath.Dir(path), 0o700))
	require.NoError(c.t, os.WriteFile(path, []byte(text), 0o700)) //nolint:gosec // a program
}

func (c checkout) read(name string) string {
	c.t.Helper()
	text, err := os.ReadFile(filepath.Join(c.folder, name))
	require.NoError(c.t, err)
	return string(text)
}

func (c checkout) program(name, text string) {
	c.t.Helper()
	c.write(name, "#!/usr/bin/env bash\n"+text)
}

// run runs a program of the folder. It returns the calls and the output, the key of the smoke test if there was one,
// and the error.
func (c checkout) run(name string, arguments, environ []string) (called []string, output, key string, err error) {
	c.t.Helper()
	log := filepath.Join(c.t.TempDir(), "log")
	require.NoError(c.t, os.WriteFile(log, nil, 0o600))
	command := exec.CommandContext(c.t.Context(), filepath.Join(c.folder, name), arguments...)
	command.Dir = c.folder
	command.Env = append(append(os.Environ(), "PATH="+c.folder+"/bin:"+os.Getenv("PATH"), "LOG="+log, "AWS="+c.aws,
		"CDK="+c.folder+"/cdk", "OPERATOR_KEY=", "ACCOUNT=1", "AWS_REGION=eu-central-1", "TABLE="+table, "MAKEFLAGS="),
		environ...)
	out, err := command.CombinedOutput()
	noted, readErr := os.ReadFile(log)
	require.NoError(c.t, readErr, string(out))
	smoked, _ := os.ReadFile(log + ".smoke")
	return strings.Split(strings.TrimSpace(string(noted)), "\n"), string(out), strings.TrimSpace(string(smoked)), err
}

// deploys runs a deploy, which must succeed, and returns the key that the smoke test got.
func (c checkout) deploys(environ ...string) string {
	c.t.Helper()
	_, output, key, err := c.run("scripts/deploy.sh", []string{"x"}, environ)
	require.NoError(c.t, err, output)
	return key
}

// deploying runs scripts/deploy.sh once, and returns the calls, the output and the error.
func deploying(t *testing.T, edge, there bool, environ ...string) (called []string, output string, err error) {
	t.Helper()
	called, output, _, err = newCheckout(t, edge, there).run("scripts/deploy.sh", []string{"x"}, environ)
	return called, output, err
}

// steps returns the calls without the arguments that all have.
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
	called, output, err := deploying(t, true, false)
	require.NoError(t, err, output)
	assert.Equal(t, []string{"go run ./scripts/preflight", "cdk Data", "cdk Edge", "go run ./scripts/imagepush",
		"go run ./scripts/firstkey", "cdk Service", "make smoke STAGE=x"}, steps(called))
	service := called[5]
	for _, known := range []string{"stage=x", "commit=c0ffee", "originPrefixList=pl-1", "zones=z-1a,z-1b", "webAcl=acl",
		"image=sha256:1"} {
		assert.Contains(t, service, "-c "+known)
	}
	assert.Contains(t, output, "deploying commit c0ffee to x")
	assert.NotContains(t, service, "commitBefore", "of a first deploy")
}

func TestAStageWithoutAnEdgeHasNoSuchStep(t *testing.T) {
	called, output, err := deploying(t, false, false)
	require.NoError(t, err, output)
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
	called, output, err := deploying(t, false, true)
	require.Error(t, err)
	assert.Equal(t, "cdk Service", steps(called)[len(called)-1])
	assert.Contains(t, output, "its operator key is with whoever deployed it first")
	assert.Contains(t, output, "deploying commit c0ffee to x, in the place of beef")
	assert.Contains(t, called[len(called)-1], "-c commitBefore=beef")
	called, output, err = deploying(t, false, true, "OPERATOR_KEY=mine")
	require.NoError(t, err, output)
	assert.Equal(t, "make smoke STAGE=x", called[len(called)-1])
}

func TestTheAddressForAlarmsIsPassedOn(t *testing.T) {
	called, output, err := deploying(t, false, true, "OPERATOR_KEY=mine", "ALARM_EMAIL=a@example.com")
	require.NoError(t, err, output)
	assert.Contains(t, called[0], "-alarm-email a@example.com")
	assert.Contains(t, called[1], "-c alarmEmail=a@example.com")
}

// A stage has a key for each of its lives, which end with their core tables, and for each account and Region.
func TestEachLifeOfAStageIsEnteredByItsOwnKey(t *testing.T) {
	t.Parallel()
	c := newCheckout(t, false, false)
	first := c.deploys()
	require.NotEmpty(t, first)
	assert.Equal(t, first, c.deploys(), "in the same life")
	for what, environ := range map[string]string{
		"destroyed, and deployed": "TABLE=agents-x-data-Core2", "another account": "ACCOUNT=2",
		"another Region": "AWS_REGION=eu-west-1",
	} {
		other := c.deploys(environ)
		assert.NotEmpty(t, other, what)
		assert.NotEqual(t, first, other, what)
		assert.Equal(t, other, c.deploys(environ), "%s, once more", what)
		_, output, key, err := c.run("bin/make", []string{"smoke", "STAGE=x"}, nil)
		require.NoError(t, err, output)
		assert.Equal(t, other, key, "of the last deploy")
		assert.Equal(t, first, c.deploys(), "back from: %s", what)
	}
	require.NoError(t, os.Remove(filepath.Join(c.aws, "1-eu-central-1-"+table))) // the table is there, and empty
	again := c.deploys()
	assert.NotEmpty(t, again)
	assert.NotEqual(t, first, again, "of the same table")
	require.NoError(t, os.WriteFile(filepath.Join(c.aws, "1-eu-central-1-core3"), nil, 0o600))
	_, output, key, err := c.run("scripts/deploy.sh", []string{"x"}, []string{"TABLE=core3"})
	require.Error(t, err)
	assert.Contains(t, output, "its operator key is with whoever deployed it first", "no other life's will do")
	assert.Empty(t, key)
	_, output, key, err = c.run("bin/make", []string{"smoke", "STAGE=x"}, nil)
	require.NoError(t, err, output) // of the shell; the test itself fails without a key
	assert.Empty(t, key, "nor for a smoke test later")

	files, err := filepath.Glob(filepath.Join(c.folder, ".cache", "*.key*"))
	require.NoError(t, err)
	assert.Len(t, files, 5, "four lives, and the key of the table before it was emptied")
	for _, file := range files {
		info, err := os.Stat(file)
		require.NoError(t, err)
		assert.Equal(t, os.FileMode(0o600), info.Mode().Perm(), file)
	}
}

const keyFile = ".cache/operator-1-eu-central-1-" + table + ".key"

// A key of a deploy that ended half-way is not valid. The next deploy repairs it if it can.
func TestAKeyIsWholeOrNotThere(t *testing.T) {
	t.Parallel()
	for what, cut := range map[string]struct{ environ, want string }{
		"no first key":          {"NO_KEY=1", "deploy again"},
		"killed with a key":     {"CUT=1", ""},
		"no core table":         {"TABLE=", "no output CoreTable"},
		"no service":            {"REFUSE_STACK=Service", ""},
		"no data":               {"REFUSE_STACK=Data", ""},
		"refused by its checks": {"REFUSE=1", ""},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			c := newCheckout(t, false, false)
			called, output, key, err := c.run("scripts/deploy.sh", []string{"x"}, []string{cut.environ})
			require.Error(t, err, output)
			assert.Contains(t, output, cut.want)
			assert.Empty(t, key)
			assert.NotContains(t, steps(called), "make smoke STAGE=x")
			if what != "no service" {
				assert.NotContains(t, steps(called), "cdk Service")
			}
			given := c.deploys()
			assert.NotEmpty(t, given)
			assert.Equal(t, given+"\n", c.read(keyFile))
			assert.NoFileExists(t, filepath.Join(c.folder, keyFile+".made"))
		})
	}
	t.Run("emptied", func(t *testing.T) { // nothing prints the key a second time
		t.Parallel()
		c := newCheckout(t, false, false)
		c.deploys()
		c.write(keyFile, "")
		_, output, _, err := c.run("scripts/deploy.sh", []string{"x"}, nil)
		require.Error(t, err)
		assert.Contains(t, output, "-again -table "+table+" >"+keyFile+".made")
		assert.Equal(t, "mine", c.deploys("OPERATOR_KEY=mine"))
		c.write(keyFile+".made", `{"key":"another"}`) // as that command does
		assert.Equal(t, "another", c.deploys())
	})
	t.Run("printed in half", func(t *testing.T) {
		t.Parallel()
		c := newCheckout(t, false, true)
		c.write(keyFile, "mine\n")
		c.write(keyFile+".made", `{"key":"ha`)
		assert.Equal(t, "mine", c.deploys(), "it is not overwritten")
	})
}

// A stage that is destroyed leaves keys here, and more in the account.
func TestDestroyReportsWhatItLeaves(t *testing.T) {
	t.Parallel()
	c := newCheckout(t, false, false)
	c.write(keyFile, "mine\n")
	called, output, _, err := c.run("bin/make", []string{"destroy", "STAGE=x", "CDK=./cdk"}, nil)
	require.NoError(t, err, output)
	assert.Equal(t, []string{"cdk Service", "cdk --all"}, steps(called[1:]))
	for _, left := range []string{"infra/README.md", "make preflight STAGE=x", keyFile} {
		assert.Contains(t, output, left)
	}
	assert.Equal(t, "mine\n", c.read(keyFile))
}
