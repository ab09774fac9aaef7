package planted_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/proof/sim/planted"
)

const root = "../../../.."

var (
	plant = flag.Bool("plant", false, "plant the bugs and have the simulation look for them")
	seeds = flag.Int("seeds", 20_000, "after so many a bug has survived")
	only  = flag.String("bug", "", "a pattern: only the bugs whose names match")
	anew  = flag.Bool("anew", false, "look for each bug from the first seed on, and note the seed that finds it")
	share = flag.Int("share", 1, "only one of so many bugs, chosen by -by")
	by    = flag.String("by", "", "what chooses them: a commit, so that each commit has others and always the same")
)

// The text of each bug occurs exactly once in its file, so that none is planted in vain; and all of them fit into one
// program.
func TestTheCatalogueFitsTheSources(t *testing.T) {
	for _, catalogue := range [][]planted.Bug{
		planted.Bugs(), planted.CacheBugs(), planted.NameBugs(), planted.TurnBugs(),
	} {
		names := map[string]bool{}
		for _, b := range catalogue {
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
		assert.GreaterOrEqual(t, len(names), 3)
		_, err := planted.Together(catalogue, root, t.TempDir())
		assert.NoError(t, err)
	}
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

// chosen returns the names that the flags select: those that match the pattern. With -share it is a part of these.
// Their order is that of a hash of the name and the commit.
func chosen(names []string, pattern, commit string, share int) []string {
	match := regexp.MustCompile(pattern)
	names = slices.DeleteFunc(slices.Clone(names), func(n string) bool { return !match.MatchString(n) })
	slices.SortStableFunc(names, func(a, b string) int {
		x, y := sha256.Sum256([]byte(commit+"\n"+a)), sha256.Sum256([]byte(commit+"\n"+b))
		return bytes.Compare(x[:], y[:])
	})
	return names[:(len(names)+share-1)/share]
}

// wanted returns the chosen ones of these names for this run. It logs it if these are not all.
func wanted(t *testing.T, names []string) []string {
	list := chosen(names, *only, *by, *share)
	if *share > 1 {
		t.Logf("%d of %d bugs, chosen by %q: %q", len(list), len(names), *by, list)
	}
	return list
}

// Each commit has a sample of its own, and always the same; together they have every bug.
func TestASampleIsOfItsCommit(t *testing.T) {
	var names []string
	for i := range 23 {
		names = append(names, strconv.Itoa(i))
	}
	one := chosen(names, "", "one", 5)
	assert.Len(t, one, 5)
	assert.Equal(t, one, chosen(names, "", "one", 5))
	assert.NotEqual(t, one, chosen(names, "", "another", 5))
	assert.ElementsMatch(t, names, chosen(names, "", "one", 1))
	assert.Equal(t, []string{"7"}, chosen(names, "^7$", "one", 5))
	met := map[string]bool{}
	for i := range 100 {
		for _, n := range chosen(names, "", strconv.Itoa(i), 5) {
			met[n] = true
		}
	}
	assert.Len(t, met, len(names))
}

// All bugs compile where they are planted, so that `make planted` can look for them.
func TestEveryBugCompiles(t *testing.T) {
	build(t, planted.Bugs(), "./internal/proof/sim")
	build(t, planted.CacheBugs(), "./internal/store/table/disktable")
	build(t, planted.NameBugs(), "./internal/org/toolkit")
	build(t, planted.TurnBugs(), "./internal/store/queue/localqueue")
	build(t, planted.IngestBugs(), "./internal/knowledge/ingest")
	build(t, planted.IndexBugs(), "./internal/text/index/diskindex")
}

// program is the path of a package's tests with all bugs planted.
type program string

// build compiles a package's tests with all bugs planted.
func build(t *testing.T, bugs []planted.Bug, what string) program {
	dir := t.TempDir()
	list, err := planted.Together(bugs, root, dir)
	require.NoError(t, err)
	binary := filepath.Join(dir, "planted.test")
	command := exec.CommandContext(t.Context(), "go", "test", "-c", "-vet=off", "-tags", "pebblegozstd",
		"-ldflags", "-s -w", "-overlay", list, "-o", binary, what)
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
