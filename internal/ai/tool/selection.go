package tool

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Selection chooses tools of a toolkit: all, or those that Include matches, without those that Exclude matches.
//
// An entry is one of these, where * stands for any characters:
//   - a name of a tool, its server's or the toolkit's, or the id of an operation
//   - "tag:" and a tag
//   - "path:" and a path
type Selection struct {
	Include []string `json:"include,omitempty"`
	Exclude []string `json:"exclude,omitempty"`
}

// Candidate is what a selection is held against.
type Candidate struct {
	Names []string
	Path  string
	Tags  []string
}

// Limits of a selection.
const (
	maxEntries = 100
	maxEntry   = 300 // bytes
)

// IsAll reports whether nothing is left out.
func (s Selection) IsAll() bool { return len(s.Include)+len(s.Exclude) == 0 }

// lists are the two lists with the names of their fields.
func (s Selection) lists() map[string][]string {
	return map[string][]string{"include": s.Include, "exclude": s.Exclude}
}

// Check returns an [Error] with the field of an entry that has a wrong form.
func (s Selection) Check() error {
	for field, list := range s.lists() {
		if len(list) > maxEntries {
			return &Error{Field: field, Message: fmt.Sprintf("must have at most %d entries", maxEntries)}
		}
		for i, entry := range list {
			_, pattern := parted(entry)
			if strings.TrimSpace(pattern) != pattern || pattern == "" || len(entry) > maxEntry {
				return &Error{Field: fmt.Sprintf("%s[%d]", field, i), Message: fmt.Sprintf(
					"must be the id of an operation, tag:TAG or path:PATH of at most %d bytes, where * stands for any "+
						"characters", maxEntry)}
			}
		}
	}
	return nil
}

// parted divides an entry into its kind ("tag", "path" or "") and its pattern.
func parted(entry string) (at, pattern string) {
	for _, at := range []string{"tag", "path"} {
		if pattern, ok := strings.CutPrefix(entry, at+":"); ok {
			return at, pattern
		}
	}
	return "", entry
}

// Choose returns the indexes of the chosen candidates. An entry of requested that matches none of them is an [Error]
// with its field: a misspelt exclusion would let tools in. The tools of a stored entry may no longer exist.
func (s Selection) Choose(all []Candidate, requested *Selection) (chosen []int, err error) {
	if requested == nil {
		requested = &Selection{}
	}
	in, out := make([]bool, len(all)), make([]bool, len(all))
	for field, hits := range map[string][]bool{"include": in, "exclude": out} {
		for i, entry := range s.lists()[field] {
			if !mark(hits, all, entry) && slices.Contains(requested.lists()[field], entry) {
				return nil, &Error{Field: fmt.Sprintf("%s[%d]", field, i),
					Message: fmt.Sprintf("%q matches nothing: %s", entry, known(all, entry))}
			}
		}
	}
	for i := range all {
		if (in[i] || len(s.Include) == 0) && !out[i] {
			chosen = append(chosen, i)
		}
	}
	if len(chosen) == 0 && len(all) > 0 {
		if len(s.Include) > 0 && !slices.Contains(in, true) {
			return nil, &Error{Field: "include", Message: "no longer matches anything"}
		}
		return nil, &Error{Field: "exclude", Message: "leaves nothing"}
	}
	return chosen, nil
}

// mark notes which candidates an entry matches, and reports whether there are any.
func mark(hits []bool, all []Candidate, entry string) (some bool) {
	at, pattern := parted(entry)
	parts := strings.Split(pattern, "*")
	fits := func(text string) bool { return matches(parts, text) }
	for i, c := range all {
		var hit bool
		switch at {
		case "tag":
			hit = slices.ContainsFunc(c.Tags, fits)
		case "path":
			hit = fits(c.Path)
		default:
			hit = slices.ContainsFunc(c.Names, fits)
		}
		hits[i], some = hits[i] || hit, some || hit
	}
	return some
}

// matches reports whether a text consists of the parts of a pattern, with anything between them.
func matches(parts []string, text string) bool {
	last := len(parts) - 1
	if last == 0 {
		return text == parts[0]
	}
	text, ok := strings.CutPrefix(text, parts[0])
	for _, part := range parts[1:last] {
		_, after, found := strings.Cut(text, part)
		text, ok = after, ok && found
	}
	return ok && strings.HasSuffix(text, parts[last])
}

const shown = 8

// known lists the texts that an entry of its kind could match.
func known(all []Candidate, entry string) string {
	counts := map[string]int{}
	at, _ := parted(entry)
	for _, c := range all {
		switch at {
		case "tag":
			for _, tag := range c.Tags {
				counts[tag]++
			}
		case "path":
			counts[beginning(c.Path)]++
		default:
			counts[c.Names[0]]++
		}
	}
	names := frequent(counts)
	if len(names) == 0 {
		return "there are no tags"
	}
	more := ""
	if len(names) > shown {
		names, more = names[:shown], ", …"
	}
	return "there are " + strings.Join(names, ", ") + more
}

// beginning is a pattern of the paths that begin with the same two segments.
func beginning(path string) string {
	segments := strings.SplitN(path, "/", 4)
	return strings.Join(segments[:min(len(segments), 3)], "/") + "*"
}

// frequent are names, those with the highest count first.
func frequent(counts map[string]int) []string {
	names := slices.Sorted(maps.Keys(counts))
	slices.SortStableFunc(names, func(a, b string) int { return counts[b] - counts[a] })
	for i, name := range names {
		names[i] = Clip(name, 100)
	}
	return names
}

// Parts are some entries that choose at most limit candidates each, by tags or else by the beginnings of paths.
func Parts(all []Candidate, limit int) string {
	tags, paths := map[string]int{}, map[string]int{}
	for _, c := range all {
		for _, tag := range c.Tags {
			tags["tag:"+tag]++
		}
		paths["path:"+beginning(c.Path)]++
	}
	for _, counts := range []map[string]int{tags, paths} {
		maps.DeleteFunc(counts, func(_ string, n int) bool { return n > limit })
		if names := frequent(counts); len(names) > 0 {
			return `"` + strings.Join(names[:min(len(names), 5)], `", "`) + `"`
		}
	}
	return "the ids of operations"
}
