package main

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

//go:embed patches/*.patch
var patches embed.FS

// example is the change of an engineer who follows a recipe. Its file has lines of three kinds, and then the change as
// git diff -U1 prints it. The change is made after those of the files before:
//
//	recipe: Add a metric                              the heading in CONTRIBUTING.md
//	test: ./internal/wiring/boot TestParkedIsCounted  a package and a pattern of tests that must pass after it
//	apart: infra/README.md: only for an alarm         a file that the recipe names and the example leaves
//	                                                  alone, and why
type example struct {
	recipe string
	tests  []test
	apart  []string
	patch  string
}

// test is a package with a pattern of tests, as -run takes it.
type test struct{ pkg, pattern string }

// load reads the examples, in the order of their files' names.
func load() ([]example, error) {
	names, err := fs.Glob(patches, "patches/*.patch")
	if err != nil {
		return nil, err
	}
	var all []example
	for _, name := range names {
		text, err := patches.ReadFile(name)
		if err != nil {
			return nil, err
		}
		e, err := parse(string(text))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		all = append(all, e)
	}
	return all, nil
}

// parse reads an example. The error names the line that is wrong.
func parse(text string) (e example, err error) {
	head, patch, _ := strings.Cut(text, "\n\n")
	e.patch = patch
	for line := range strings.SplitSeq(head, "\n") {
		key, value, _ := strings.Cut(line, ": ")
		switch key {
		case "recipe":
			e.recipe = value
		case "test":
			pkg, pattern, _ := strings.Cut(value, " ")
			e.tests = append(e.tests, test{pkg, pattern})
		case "apart":
			file, _, _ := strings.Cut(value, ": ")
			e.apart = append(e.apart, file)
		default:
			return e, fmt.Errorf("no recipe, test or file: %q", line)
		}
	}
	if e.recipe == "" || len(e.tests) == 0 || len(e.files()) == 0 {
		return e, errors.New("it needs recipe, test and a change")
	}
	return e, nil
}

var changedFile = regexp.MustCompile(`(?m)^\+\+\+ b/(.+)$`)

// files returns the files that the example changes or makes.
func (e example) files() []string {
	var all []string
	for _, found := range changedFile.FindAllStringSubmatch(e.patch, -1) {
		all = append(all, found[1])
	}
	return all
}

// apply makes the example's changes below a folder. The error names the changes that do not fit.
func (e example) apply(ctx context.Context, dir string) error {
	git := command(ctx, dir, "git", "apply")
	git.Stdin = strings.NewReader(e.patch)
	git.Env = append(os.Environ(), "GIT_CEILING_DIRECTORIES="+filepath.Dir(dir)) // the folder is in no repository
	if out, err := git.CombinedOutput(); err != nil {
		return fmt.Errorf("git apply: %w: %s", err, out)
	}
	return nil
}
