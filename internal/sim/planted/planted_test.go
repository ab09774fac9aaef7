package planted_test

import (
	"context"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/sim/planted"
)

const root = "../../.."

var (
	plant = flag.Bool("plant", false, "plant the bugs and have the simulation look for them")
	seeds = flag.Int("seeds", 20_000, "after so many a bug has survived")
	only  = flag.String("bug", "", "a pattern: only the bugs whose names match")
	anew  = flag.Bool("anew", false, "look for each bug from the first seed on, and note the seed that finds it")
)

// The text of each bug occurs exactly once in its file, so that none is planted in vain; and all of them fit into one
// program.
func TestTheCatalogueFitsTheSources(t *testing.T) {
	names := map[string]bool{}
	for _, b := range planted.Bugs() {
		assert.False(t, names[b.Name], b.Name)
		names[b.Name] = true
		files, err := b.Planted(root)
		if !assert.NoError(t, err) {
			continue
		}
		for name, text := range files {
			before, err := os.ReadFile(filepath.Join(root, name))
			require.NoError(t, err)
			assert.NotEqual(t, string(before), text)
		}
	}
	assert.GreaterOrEqual(t, len(names), 40)
	_, err := planted.Together(planted.Bugs(), root, t.TempDir())
	assert.NoError(t, err)
}

// Each bug that the simulation looks for has its noted seed, and no other has one.
func TestTheNotedSeedsAreOfTheCatalogue(t *testing.T) {
	noted := notedSeeds(t)
	for _, b := range planted.Bugs() {
		if !b.Explored {
			assert.Positive(t, noted[b.Name], "%s: make planted-anew BUG='its name' notes its seed", b.Name)
			delete(noted, b.Name)
		}
	}
	assert.Empty(t, noted, "the simulation looks for no such bugs")
}

// program is the path of a package's tests with all bugs planted.
type program string

// build compiles a package's tests with all bugs planted.
func build(t *testing.T, what string) program {
	dir := t.TempDir()
	list, err := planted.Together(planted.Bugs(), root, dir)
	require.NoError(t, err)
	binary := filepath.Join(dir, "planted.test")
	command := exec.CommandContext(t.Context(), "go", "test", "-c", "-vet=off", "-ldflags", "-s -w", "-overlay", list,
		"-o", binary, what)
	command.Dir = root
	out, err := command.CombinedOutput()
	require.NoError(t, err, string(out))
	return program(binary)
}

// run runs the tests with one of the bugs, for half an hour at most.
func (p program) run(t *testing.T, bug int, arguments ...string) (out []byte, failed bool) {
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Minute)
	defer cancel()
	command := exec.CommandContext(ctx, string(p), arguments...)
	command.Env = append(os.Environ(), planted.Variable+"="+strconv.Itoa(bug))
	out, err := command.CombinedOutput()
	require.NoError(t, ctx.Err())
	return out, err != nil
}
