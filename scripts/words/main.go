// Command words counts what makes the tree hard to read: the private words of words.txt in names that Go code declares,
// in its comments, in the documentation and in the panel; long sentences and paragraphs of the documentation; exported
// names without a comment. It fails unless the counts are those of budget.txt, which only falls:
//
//	go run ./scripts/words                # check
//	go run ./scripts/words -write         # lower the budget to the counts
//	go run ./scripts/words -list comments # print every place of a group
//	go run ./scripts/words -figures       # print the length of every page, and all counts
//
// -write never raises a count. It adds a group that budget.txt lacks. The program needs no package of the tree, so that
// it runs on a tree that does not build.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
)

// groups are counted apart, each as it is named here in messages.
var (
	groups = []string{"names", "comments", "docs", "panel", "sentences", "paragraphs", "undocumented"}
	named  = map[string]string{
		"names": "private words in names", "comments": "private words in comments", "docs": "private words in docs",
		"panel":     "private words in panel",
		"sentences": "long sentences in docs", "paragraphs": "long paragraphs in docs",
		"undocumented": "exported names without a comment",
	}
)

const budgetFile = "scripts/words/budget.txt"

func main() {
	write := flag.Bool("write", false, "lower the budget to the counts")
	list := flag.String("list", "", "print every place of this `group`")
	figures := flag.Bool("figures", false, "print the length of every page, and all counts")
	flag.Parse()
	if *figures {
		t, err := read(".")
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		t.figures(os.Stdout)
		return
	}
	if err := run(".", *write, *list); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(dir string, write bool, list string) error {
	t, err := read(dir)
	if err != nil {
		return err
	}
	finds := t.finds
	if list != "" {
		for _, f := range finds[list] {
			fmt.Println(f)
		}
		return nil
	}
	file := filepath.Join(dir, budgetFile)
	text, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	budget := map[string]int{}
	for line := range strings.Lines(string(text)) {
		var group string
		var n int
		if _, err := fmt.Sscanf(line, "%s %d", &group, &n); err != nil {
			return fmt.Errorf("%s: %q: want a group and a number", budgetFile, line)
		}
		budget[group] = n
	}
	if write {
		if err := os.WriteFile(file, []byte(lower(budget, finds)), 0o644); err != nil { //nolint:gosec // a source file
			return err
		}
	}
	return errors.Join(check(budget, finds, func() map[string]bool { return changedLines(dir) }), t.tooLong())
}

// lower sets each group of the budget to its count, unless that is above the budget, and returns the budget's text.
func lower(budget map[string]int, finds map[string][]find) (text string) {
	for _, group := range groups {
		n := len(finds[group])
		if most, is := budget[group]; is {
			n = min(n, most)
		}
		budget[group] = n
		text += fmt.Sprintln(group, n)
	}
	return text
}

// check fails where a count is not the budget. If it is above, the message lists the places on changed lines.
func check(budget map[string]int, finds map[string][]find, changed func() map[string]bool) error {
	var errs []error
	for _, group := range groups {
		switch n, most := len(finds[group]), budget[group]; {
		case n < most:
			errs = append(errs, fmt.Errorf("%d %s, but %s has %d: run go run ./scripts/words -write",
				n, named[group], budgetFile, most))
		case n > most:
			errs = append(errs, fmt.Errorf("%d %s, %d more than %s allows",
				n, named[group], n-most, budgetFile))
			lines := changed()
			for _, f := range finds[group] {
				if lines[f.file] || lines[fmt.Sprint(f.file, ":", f.line)] {
					errs = append(errs, errors.New(f.String()))
				}
			}
			errs = append(errs, fmt.Errorf("all places: go run ./scripts/words -list %s", group))
		}
	}
	return errors.Join(errs...)
}

var hunk = regexp.MustCompile(`^@@ -\S+ \+(\d+)(?:,(\d+))? @@`)

// changedLines has, as file:line, the lines that differ from the commit at which this branch left main, and the files
// that git does not track. It is empty where git or main is missing.
func changedLines(dir string) map[string]bool {
	git := func(arguments ...string) []string {
		out, _ := exec.Command("git", append([]string{"-C", dir}, arguments...)...).Output()
		return strings.Split(strings.TrimSpace(string(out)), "\n")
	}
	lines := map[string]bool{}
	for _, name := range git("ls-files", "--others", "--exclude-standard") {
		lines[name] = true
	}
	file := ""
	for _, line := range git("diff", "-U0", "--relative", "--no-ext-diff", git("merge-base", "HEAD", "main")[0]) {
		if name, is := strings.CutPrefix(line, "+++ b/"); is {
			file = name
		} else if m := hunk.FindStringSubmatch(line); m != nil {
			first, n := 0, 1
			_, _ = fmt.Sscan(m[1], &first)
			_, _ = fmt.Sscan(m[2], &n)
			for i := range n {
				lines[fmt.Sprint(file, ":", first+i)] = true
			}
		}
	}
	return lines
}
