package main

import (
	"path/filepath"
	"regexp"
	"strings"
	"time"
	"unicode"

	"golang.org/x/text/unicode/norm"
)

// reading is the result of one reader for a file.
type reading struct {
	words   []string
	failed  bool
	note    string // warnings, or why there is no text
	seconds float64
}

// timed runs a reader and measures its time. The reader returns a text, a note and an error.
func timed(read func() (string, string, error)) reading {
	begun := time.Now()
	text, note, err := read()
	r := reading{words: wordsOf(text), note: note, seconds: time.Since(begun).Seconds()}
	if err != nil {
		r.words, r.failed = nil, true
	}
	return r
}

// pair is a file with the readings of ours and of a peer.
type pair struct {
	path, peer             string
	ours, theirs           reading
	recall, reverse, order float64
	lacks                  []string // the first words that only the peer has
}

func (p pair) format() string { return strings.ToLower(strings.TrimPrefix(filepath.Ext(p.path), ".")) }

// counts reports whether the peer found enough to be compared with.
func (p pair) counts() bool { return len(p.theirs.words) >= fewWords }

func compare(path, peer string, ours, theirs reading) pair {
	p := pair{path: path, peer: peer, ours: ours, theirs: theirs}
	p.recall, p.lacks = share(theirs.words, ours.words)
	p.reverse, _ = share(ours.words, theirs.words)
	p.order, _ = share(adjacent(theirs.words), adjacent(ours.words))
	return p
}

// share returns the share of the wanted words that are there, each as often as it is wanted. It also returns the first
// ones that are missing.
func share(wanted, there []string) (float64, []string) {
	left := map[string]int{}
	for _, w := range there {
		left[w]++
	}
	found, lacks := 0, []string(nil)
	for _, w := range wanted {
		switch {
		case left[w] > 0:
			left[w]--
			found++
		case len(lacks) < 8:
			lacks = append(lacks, w)
		}
	}
	return float64(found) / float64(max(1, len(wanted))), lacks
}

func adjacent(words []string) []string {
	var pairs []string
	for i := 1; i < len(words); i++ {
		pairs = append(pairs, words[i-1]+" "+words[i])
	}
	return pairs
}

// marks matches the text that markitdown adds. That is the metadata of a book, pictures, the addresses of links,
// comments, cells without a value, and its own names of columns.
var marks = regexp.MustCompile(`(?m)^\*\*(Title|Authors|Language|Publisher|Date|Description|Identifier):\*\*.*$|` +
	`!\[[^\]]*\]\([^)]*\)|\]\([^)]*\)|<!--.*?-->|\bNaN\b|\bUnnamed: \d+|\\`)

// wordsOf returns the runs of letters and digits of a text, in lower case. Each letter of a script without spaces is a
// word.
func wordsOf(text string) []string {
	var words []string
	open := false
	for _, r := range strings.ToLower(norm.NFKC.String(text)) {
		alone := unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Thai, unicode.Lao,
			unicode.Khmer)
		switch {
		case unicode.IsMark(r) && open:
			words[len(words)-1] += string(r)
		case !unicode.IsLetter(r) && !unicode.IsDigit(r):
			open = false
		case open && !alone:
			words[len(words)-1] += string(r)
		default:
			words, open = append(words, string(r)), !alone
		}
	}
	return words
}
