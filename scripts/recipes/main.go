// Command recipes applies the recipes of CONTRIBUTING.md to a copy of the tree, so that they stay true. For each recipe
// there is an example of its change, in patches. The copy is made in .cache/recipes; the tree stays as it is.
//
// It first compares the page with the examples: each recipe has one, and names the files that the example changes. Then
// it applies all examples to one copy, runs make golden there, and runs the tests that each example states. It exits
// with 1 and one line for each fault.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"time"
)

// longest bounds a run, which takes about a minute on two idle cores.
const longest = 20 * time.Minute

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	ctx, cancel := context.WithTimeout(ctx, longest)
	faults, err := run(ctx)
	cancel()
	stop()
	for _, f := range faults {
		fmt.Println(f)
	}
	if err != nil {
		fmt.Println("recipes:", err)
	}
	if err != nil || len(faults) > 0 {
		os.Exit(1)
	}
}

// run returns the faults of the recipes. An error is one of the files or of git. The faults are then unknown.
func run(ctx context.Context) (faults []fault, err error) {
	root, err := filepath.Abs(".")
	if err != nil {
		return nil, err
	}
	examples, err := load()
	if err != nil {
		return nil, err
	}
	page, err := os.ReadFile(Page)
	if err != nil {
		return nil, err
	}
	tree := copyOf{root: root, dir: filepath.Join(root, ".cache", "recipes")}
	if faults := compare(string(page), examples, existsIn(root)); len(faults) > 0 {
		return faults, nil
	}
	defer func() { err = errors.Join(err, os.RemoveAll(tree.dir)) }() // other checks look for tests below the root
	if err := tree.fresh(ctx); err != nil {
		return nil, err
	}
	return tree.check(ctx, examples)
}

// existsIn returns a function that reports whether a path exists below a folder.
func existsIn(root string) func(string) bool {
	return func(path string) bool {
		_, err := os.Stat(filepath.Join(root, path))
		return err == nil
	}
}

// command returns a program to run in a folder.
func command(ctx context.Context, dir, name string, args ...string) *exec.Cmd {
	c := exec.CommandContext(ctx, name, args...)
	c.Dir = dir
	return c
}
