package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// copyOf is a copy of the tree, for changes.
type copyOf struct{ root, dir string }

const tags = "pebblegozstd"

// fresh makes the copy again, of all files that git has or would add. It uses an index of its own.
func (c copyOf) fresh(ctx context.Context) (err error) {
	index := c.dir + ".index"
	err = errors.Join(os.RemoveAll(c.dir), os.RemoveAll(index+".lock"), os.MkdirAll(c.dir, 0o750))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.Remove(index)) }()
	for _, args := range [][]string{{"add", "--all"}, {"checkout-index", "--all", "--prefix=" + c.dir + "/"}} {
		git := command(ctx, c.root, "git", args...)
		git.Env = append(os.Environ(), "GIT_INDEX_FILE="+index)
		if out, err := git.CombinedOutput(); err != nil {
			return fmt.Errorf("git %s: %w: %s", args[0], err, out)
		}
	}
	return nil
}

// check follows the recipes in the copy. The compiler's errors name the files, and so the examples.
func (c copyOf) check(ctx context.Context, examples []example) (faults []fault, err error) {
	for _, e := range examples {
		if err := e.apply(ctx, c.dir); err != nil {
			faults = append(faults, fault{e.recipe, err.Error()})
		}
	}
	if len(faults) > 0 {
		return faults, nil
	}
	if out, err := command(ctx, c.dir, "make", "golden").CombinedOutput(); err != nil {
		return []fault{{"all together", "make golden: " + last(out)}}, ctx.Err()
	}
	programs := map[string]string{} // compiled tests, by their package
	for _, e := range examples {
		for _, t := range e.tests {
			if programs[t.pkg] != "" {
				continue
			}
			program, out := c.compile(ctx, t.pkg)
			if program == "" {
				return []fault{{"all together", out}}, ctx.Err()
			}
			programs[t.pkg] = program
		}
	}
	for _, e := range examples {
		for _, t := range e.tests {
			if wrong := c.test(ctx, programs[t.pkg], t); wrong != "" {
				faults = append(faults, fault{e.recipe, wrong})
			}
		}
		fmt.Printf("tried: %q\n", e.recipe)
	}
	return faults, ctx.Err()
}

// compile returns the compiled tests of a package, or the compiler's errors.
func (c copyOf) compile(ctx context.Context, pkg string) (program, out string) {
	program = filepath.Join(c.dir, ".cache", strings.ReplaceAll(strings.TrimPrefix(pkg, "./"), "/", "-")+".test")
	output, err := command(ctx, c.dir,
		"go", "test", "-vet=off", "-tags", tags, "-c", "-o", program, pkg).CombinedOutput()
	if err != nil {
		return "", last(output)
	}
	return program, ""
}

var passed = regexp.MustCompile(`(?m)^\s*--- PASS: (\S+)`)

// test runs tests. It returns the failure, or an error text if no test has the pattern's name. It is empty if all is
// well.
func (c copyOf) test(ctx context.Context, program string, t test) string {
	dir := filepath.Join(c.dir, t.pkg)
	out, err := command(ctx, dir, program, "-test.v", "-test.timeout", "5m", "-test.run", t.pattern).CombinedOutput()
	if err != nil {
		return fmt.Sprintf("go test %s -run '%s': %s", t.pkg, t.pattern, last(out))
	}
	deepest := strings.Count(t.pattern, "/") // of the subtest that is meant; a story's name has slashes, too
	for _, name := range passed.FindAllStringSubmatch(string(out), -1) {
		if strings.Count(name[1], "/") >= deepest {
			return ""
		}
	}
	return fmt.Sprintf("go test %s -run '%s' finds no test", t.pkg, t.pattern)
}

// last returns the end of a program's output, which has the reason.
func last(out []byte) string {
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	return strings.Join(lines[max(0, len(lines)-30):], "\n")
}
