package main

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
)

// Page is the file with the recipes: its headings of the third level below the heading Recipes.
const Page = "CONTRIBUTING.md"

// procedures has the headings that change no Go code, so there is nothing to apply.
var procedures = []string{
	"Change the admin panel",
	"Find out why a run timed out or failed",
	"Run one seed of the simulation with its log",
	"Read a failing history of the linearizability test",
}

// generated has the files that make golden writes, so no example does.
var generated = []string{"internal/core/lifecycle/STATES.md", "docs/settings.md", "docs/versioning.md"}

// fault is an error in a recipe.
type fault struct{ recipe, what string }

func (f fault) String() string {
	return fmt.Sprintf("the recipe %q of %s does not work any more: %s", f.recipe, Page, f.what)
}

// section is a recipe of the page.
type section struct{ heading, text string }

var duration = regexp.MustCompile(` \([^()]*\)$`)

// sections returns the recipes of the page.
func sections(page string) []section {
	_, page, _ = strings.Cut(page, "\n## Recipes\n")
	page, _, _ = strings.Cut(page, "\n## ")
	var all []section
	for i, one := range strings.Split(page, "\n### ") {
		if i == 0 {
			continue
		}
		heading, text, _ := strings.Cut(one, "\n")
		all = append(all, section{duration.ReplaceAllString(heading, ""), text})
	}
	return all
}

var (
	inCode = regexp.MustCompile("`([^`\n]+)`")
	linked = regexp.MustCompile(`\]\(([^)#\s]+)`)
	aFile  = regexp.MustCompile(`^[\w./-]+\.(go|md|js|json|txt)$`)
)

// names returns the files and folders that a recipe names in code or in links.
func (s section) names() (files, folders []string) {
	for _, found := range slices.Concat(inCode.FindAllStringSubmatch(s.text, -1),
		linked.FindAllStringSubmatch(s.text, -1)) {
		name := found[1]
		switch {
		case aFile.MatchString(name):
			files = append(files, name)
		case strings.Contains(name, "/") && !strings.ContainsAny(name, " ${"):
			folders = append(folders, strings.TrimPrefix(name, "./"))
		}
	}
	return files, folders
}

// compare returns the differences between the page and the examples. exists reports whether a path is in the tree.
func compare(page string, examples []example, exists func(string) bool) (faults []fault) {
	found := sections(page)
	for _, s := range found {
		i := slices.IndexFunc(examples, func(e example) bool { return e.recipe == s.heading })
		switch {
		case i >= 0:
			faults = append(faults, examples[i].against(s, exists)...)
		case !slices.Contains(procedures, s.heading):
			faults = append(faults, fault{s.heading, "it has no example in scripts/recipes/patches"})
		}
	}
	var known []string
	for _, e := range examples {
		known = append(known, e.recipe)
	}
	for _, name := range slices.Concat(known, procedures) {
		if !slices.ContainsFunc(found, func(s section) bool { return s.heading == name }) {
			faults = append(faults, fault{name, "the page has no such heading"})
		}
	}
	return faults
}

// against returns the differences between the files that a recipe names and those that its example changes.
func (e example) against(s section, exists func(string) bool) (faults []fault) {
	files, folders := s.names()
	changed := e.files()
	for _, name := range files {
		is := func(file string) bool { return file == name || path.Base(file) == name }
		switch {
		case slices.ContainsFunc(slices.Concat(changed, e.apart, generated), is):
		case strings.Contains(name, "/") && !exists(name):
			faults = append(faults, fault{s.heading, "it names " + name + ", which does not exist"})
		default:
			faults = append(faults, fault{s.heading, "it names " + name + ", which its example does not change"})
		}
	}
	for _, folder := range folders {
		if strings.HasPrefix(folder, "internal/") && !exists(folder) {
			faults = append(faults, fault{s.heading, "it names " + folder + ", which does not exist"})
		}
	}
	for _, file := range changed {
		named := func(name string) bool { return file == name || path.Base(file) == name }
		in := func(folder string) bool { return strings.HasPrefix(file, folder+"/") }
		if !slices.ContainsFunc(files, named) && !slices.ContainsFunc(folders, in) {
			faults = append(faults, fault{s.heading, "it does not name " + file + ", which its example changes"})
		}
	}
	return faults
}
