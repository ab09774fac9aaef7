package main

import (
	"embed"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

//go:embed patches/*.txt
var patches embed.FS

// example is the change that an engineer makes who follows a recipe. Its file has lines of three kinds:
//
//	recipe: Add a metric                           the heading in CONTRIBUTING.md
//	test: ./internal/wiring/boot TestParkedIsCounted      a package and a pattern of tests that must pass after it
//	apart: infra/README.md: only for an alarm      a file that the recipe names and the example leaves alone, and why
//	== internal/wiring/boot/meter.go                      a file to change
//	-- after                                       quotes lines: after, before, or the text to replace: instead of
//	-- put                                         the text to put there
//	-- new file                                    or the text of a new file
type example struct {
	recipe string
	tests  []test
	apart  []string
	edits  []edit
}

// test is a package with a pattern of tests, as -run takes it.
type test struct{ pkg, pattern string }

// edit changes a file at the one place that has the quoted text.
type edit struct{ file, how, quoted, text string }

// The ways of an edit.
const (
	after   = "after"
	before  = "before"
	replace = "instead of"
	create  = "new file"
)

// load reads the examples, in the order of their files' names.
func load() ([]example, error) {
	names, err := fs.Glob(patches, "patches/*.txt")
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
	var file string
	var into *string
	for n, line := range strings.SplitAfter(text, "\n") {
		word := strings.TrimSuffix(line, "\n")
		key, value, _ := strings.Cut(word, ": ")
		how, isHow := strings.CutPrefix(word, "-- ")
		switch {
		case strings.HasPrefix(word, "== "):
			file, into = word[3:], nil
		case isHow && how == "put" && len(e.edits) > 0:
			into = &e.edits[len(e.edits)-1].text
		case isHow && file != "" && slices.Contains([]string{after, before, replace, create}, how):
			e.edits = append(e.edits, edit{file: file, how: how})
			last := &e.edits[len(e.edits)-1]
			if into = &last.quoted; how == create {
				into = &last.text
			}
		case into != nil:
			*into += line
		case key == "recipe":
			e.recipe = value
		case key == "test":
			pkg, pattern, _ := strings.Cut(value, " ")
			e.tests = append(e.tests, test{pkg, pattern})
		case key == "apart":
			file, _, _ := strings.Cut(value, ": ")
			e.apart = append(e.apart, file)
		case word != "":
			return e, fmt.Errorf("line %d: %q", n+1, word)
		}
	}
	if e.recipe == "" || len(e.tests) == 0 || len(e.edits) == 0 {
		return e, fmt.Errorf("it needs recipe, test and an edit")
	}
	return e, nil
}

// files are the files that the example changes or makes, each once.
func (e example) files() []string {
	var all []string
	for _, one := range e.edits {
		if !slices.Contains(all, one.file) {
			all = append(all, one.file)
		}
	}
	return all
}

// apply makes the example's changes below a folder. The error says which text is missing, or is there twice.
func (e example) apply(dir string) error {
	for _, one := range e.edits {
		path := filepath.Join(dir, one.file)
		if one.how == create {
			if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
				return err
			}
			if err := os.WriteFile(path, []byte(one.text), 0o600); err != nil {
				return err
			}
			continue
		}
		found, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		changed, err := one.in(string(found))
		if err != nil {
			return err
		}
		if err := os.WriteFile(path, []byte(changed), 0o600); err != nil {
			return err
		}
	}
	return nil
}

// in is a file's text after the edit. The quoted text must be there once; unless it is replaced, as whole lines.
func (o edit) in(text string) (string, error) {
	quoted, put := "\n"+o.quoted, o.text
	if text = "\n" + text; o.how == replace {
		quoted, put = strings.TrimSuffix(o.quoted, "\n"), strings.TrimSuffix(put, "\n")
	}
	if at := strings.Index(text, quoted); at < 0 {
		return "", fmt.Errorf("%s does not have the text %q", o.file, o.quoted)
	} else if at != strings.LastIndex(text, quoted) {
		return "", fmt.Errorf("%s has the text %q more than once", o.file, o.quoted)
	}
	head, tail, _ := strings.Cut(text, quoted)
	switch o.how {
	case after:
		text = head + quoted + put + tail
	case before:
		text = head + "\n" + put + quoted[1:] + tail
	default:
		text = head + put + tail
	}
	return text[1:], nil
}
