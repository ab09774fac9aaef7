package planted_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/proof/sim/planted"
)

// fixture is a program that prints the results of its functions.
var fixture = map[string]string{
	"go.mod": "module fixture\n\ngo 1.26\n",
	"main.go": `package main

import "fmt"

type list[T any] struct{ all []T }

var none = "none"

// add takes them all.
func (l *list[T]) add(_ string, more ...T) { l.all = append(l.all, more...) }

func twice[T any, N int | int64](x T, n N) (pair []T, err error) {
	pair, err = []T{x}, nil
	for len(pair) < int(n) {
		pair = append(pair, x)
	}
	return
}

func sum(int, string) int { return 1 + 1 }

func even(n int) bool { return n == 0 || !even(n-1) }

func main() {
	l := &list[int]{}
	l.add("", 1, 2)
	pair, err := twice("a", 2)
	fmt.Println(l.all, pair, err, sum(0, ""), even(5), none)
}
`,
}

func change(name, old, new string) planted.Bug {
	return planted.Bug{Name: name, Edits: []planted.Edit{{File: "main.go", Old: old, New: new}}}
}

func written(t *testing.T) (dir string) {
	dir = t.TempDir()
	for name, text := range fixture {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	return dir
}

// One program has every bug, also those that change the same line. Without one it behaves as before.
func TestAProgramHasEachBugBehindASwitch(t *testing.T) {
	dir := written(t)
	two := change("two functions", "	l.add(\"\", 1, 2)\n", "	l.add(\"\", 4)\n")
	two.Edits = append(two.Edits, planted.Edit{File: "main.go", Old: "1 + 1", New: "4"})
	bugs := []planted.Bug{
		change("a method of a generic type", "append(l.all, more...)", "append(more, l.all...)[1:]"),
		change("a generic function", "< int(n)", "<= int(n)"),
		change("the same line", "< int(n)", "< int(n)-1"),
		change("named results", "	pair, err = []T{x}, nil\n", "	pair = []T{x, x, x, x}\n"),
		change("no names", "1 + 1", "1 - 1"),
		change("a recursion", "!even(n-1)", "even(n-1)"),
		two,
	}
	list, err := planted.Together(bugs, dir, t.TempDir())
	require.NoError(t, err)
	binary := filepath.Join(dir, "fixture")
	build := exec.CommandContext(t.Context(), "go", "build", "-overlay", list, "-o", binary, ".")
	build.Dir = dir
	out, err := build.CombinedOutput()
	require.NoError(t, err, string(out))
	for i, want := range []string{
		"[1 2] [a a] <nil> 2 false none", "[2] [a a] <nil> 2 false none", "[1 2] [a a a] <nil> 2 false none",
		"[1 2] [a] <nil> 2 false none", "[1 2] [a a a a] <nil> 2 false none", "[1 2] [a a] <nil> 0 false none",
		"[1 2] [a a] <nil> 2 true none", "[4] [a a] <nil> 4 false none",
	} {
		command := exec.CommandContext(t.Context(), binary)
		command.Env = append(os.Environ(), planted.Variable+"="+strconv.Itoa(i))
		out, err := command.CombinedOutput()
		require.NoError(t, err, string(out))
		assert.Equal(t, want, strings.TrimSpace(string(out)), "bug %d", i)
	}
}

// A bug that no switch in a function could plant is refused, not left out.
func TestBugsOutsideOfFunctionsAreRefused(t *testing.T) {
	dir := written(t)
	for _, b := range []planted.Bug{
		change("a variable", `none = "none"`, `none = "some"`),
		change("a signature", "sum(int, string) int", "sum(int, string) int64"),
		change("a declaration more", "func sum(", "func more() {}\n\nfunc sum("),
		change("a comment", "takes them all", "takes some"),
		change("no Go", "return 1 + 1", "return 1 +"),
		change("nowhere", "no such text", ""),
	} {
		_, err := planted.Together([]planted.Bug{b}, dir, t.TempDir())
		assert.ErrorContains(t, err, b.Name)
	}
}
