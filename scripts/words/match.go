package main

import (
	_ "embed"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode"
)

//go:embed words.txt
var wordList string

// form is a word or a phrase of the list.
type form struct {
	words   []string
	opening bool   // counts at the beginning of a sentence alone
	kind    string // names, text, all or ok
	instead string
}

// forms are those of a list, by their first word. Of those with the same first word the longest is first.
type forms map[string][]form

// parseList reads a list in the format of words.txt.
func parseList(text string) (forms, error) {
	all := forms{}
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		kind, rest, _ := strings.Cut(line, ":")
		if !slices.Contains([]string{"names", "text", "all", "ok"}, kind) {
			return nil, fmt.Errorf("no kind in %q", line)
		}
		list, instead, _ := strings.Cut(rest, "=")
		for _, word := range strings.Fields(list) {
			f := form{kind: kind, instead: strings.TrimSpace(instead)}
			word, f.opening = strings.CutPrefix(word, "^")
			f.words = strings.Split(word, "-")
			all[f.words[0]] = append(all[f.words[0]], f)
		}
	}
	for _, list := range all {
		slices.SortStableFunc(list, func(a, b form) int { return len(b.words) - len(a.words) })
	}
	return all, nil
}

var (
	letters = regexp.MustCompile(`[A-Za-z]+`)
	joining = regexp.MustCompile(`^(\s*|-)$`) // between two words of a phrase
	opening = regexp.MustCompile(`[.!?]["'*)]*\s+$|\n\s*\n\W*$|\n\s*([-*•]|\d+\.)\s+\W*$`)
	camel   = regexp.MustCompile(`[A-Z]+[a-z0-9]*|[a-z0-9]+`)
)

// match calls found with each form in a text, whose first line has the number line. kind is names or text.
func (all forms) match(text string, line int, kind string, found func(line int, word, instead string)) {
	words := letters.FindAllStringIndex(text, -1)
	counted, end := 0, 0
	for i := 0; i < len(words); {
		start := words[i][0]
		line += strings.Count(text[counted:start], "\n")
		opens := unicode.IsUpper(rune(text[start])) && (i == 0 || opening.MatchString(text[end:start]))
		f := all.at(text, words[i:], kind, opens)
		if f.kind != "" && f.kind != "ok" {
			found(line, strings.Join(f.words, " "), f.instead)
		}
		i += max(1, len(f.words))
		counted, end = start, words[i-1][1]
	}
}

// at returns the form with which the words begin, if there is one.
func (all forms) at(text string, words [][]int, kind string, opens bool) form {
	word := func(i int) string { return strings.ToLower(text[words[i][0]:words[i][1]]) }
	for _, f := range all[word(0)] {
		if f.kind != kind && f.kind != "all" && f.kind != "ok" || f.opening && !opens {
			continue
		}
		n := 1
		for n < min(len(f.words), len(words)) && word(n) == f.words[n] &&
			joining.MatchString(text[words[n-1][1]:words[n][0]]) {
			n++
		}
		if n == len(f.words) {
			return f
		}
	}
	return form{}
}
