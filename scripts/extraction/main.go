// Command extraction compares the text that the service reads from files with the text that other programs read from
// the same files:
//
//	go run ./scripts/extraction -files DIR
//
// The others are pdftotext for PDFs, and markitdown for the formats that it has a reader for, both from PATH. A file
// FILE.peer next to FILE has the text of one more reader.
//
// Words are compared as two bags. Recall is the share of a peer's words that ours has. Reverse is the share of our
// words that the peer has. Order is the share of the peer's pairs of adjacent words that are adjacent in ours. Each is
// the mean over the files in which the peer finds at least 20 words. The program fails if ours reads no text from such
// a file, or if the recall of a format is below its floor.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"

	"agentplatform/internal/text/extract"
)

const (
	beside   = ".peer" // ending of the file with a peer's text
	fewWords = 20      // of a peer; fewer prove nothing
	worst    = 30      // files that are shown
)

// floors has the least recall by format, against every peer. All other formats have that of "". The .peer text of
// slides or sheets often comes from a PDF, which repeats footers and cuts words.
var floors = map[string]float64{"": 0.9, "odp": 0.85, "fodp": 0.85, "ods": 0.85, "fods": 0.85}

func main() {
	files := flag.String("files", "", "the `folder` of the files")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, *files, os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// run reads all files of a folder with all readers, prints the tables, and returns the problems.
func run(ctx context.Context, folder string, out io.Writer) error {
	all, err := filepath.Glob(filepath.Join(folder, "*.*"))
	all = slices.DeleteFunc(all, func(path string) bool { return strings.HasSuffix(path, beside) })
	if err != nil || len(all) == 0 {
		return errors.Join(err, fmt.Errorf("the folder %q has no files", folder))
	}
	peers, err := readByPeers(ctx, all)
	if err != nil {
		return err
	}
	var pairs []pair
	for _, path := range all {
		ours := readByUs(ctx, path)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		for _, peer := range slices.Sorted(maps.Keys(peers[path])) {
			pairs = append(pairs, compare(path, peer, ours, peers[path][peer]))
		}
		if len(peers[path]) == 0 {
			pairs = append(pairs, compare(path, "none", ours, reading{}))
		}
	}
	err = problems(pairs)
	printTables(out, pairs)
	return err
}

// readByUs reads a file as a document of a knowledge base.
func readByUs(ctx context.Context, path string) reading {
	return timed(func() (string, string, error) {
		text, err := extract.Document(ctx, "", extract.File{
			Name: filepath.Base(path),
			Open: func(context.Context) (io.ReadCloser, error) { return os.Open(path) },
		})
		var notes []string
		for _, w := range text.Warnings {
			notes = append(notes, w.Code)
		}
		var fault extract.Fault
		if errors.As(err, &fault) {
			notes = append(notes, string(fault.Code))
		}
		return text.Title + "\n" + text.Body, strings.Join(notes, " "), err
	})
}

// problems returns the files that only a peer reads, and the formats whose recall is below their floor.
func problems(pairs []pair) (err error) {
	for _, p := range pairs {
		if p.counts() && len(p.ours.words) == 0 {
			err = errors.Join(err, fmt.Errorf("%s: %s reads %d words, ours fails: %s",
				filepath.Base(p.path), p.peer, len(p.theirs.words), p.ours.note))
		}
	}
	for _, s := range sums(pairs) {
		floor, known := floors[s.format]
		if !known {
			floor = floors[""]
		}
		if s.files > 0 && s.recall < floor {
			err = errors.Join(err, fmt.Errorf("%s: recall of what %s reads is %.3f, the floor %.2f",
				s.format, s.peer, s.recall, floor))
		}
	}
	return err
}

// sum has the measures over the files of a format.
type sum struct {
	format, peer                            string
	files, failed, theyFailed, words        int
	recall, reverse, order, seconds, theirs float64
}

func sums(pairs []pair) []sum {
	by := map[string]*sum{}
	for _, p := range pairs {
		s := by[p.format()+" "+p.peer]
		if s == nil {
			s = &sum{format: p.format(), peer: p.peer}
			by[p.format()+" "+p.peer] = s
		}
		if len(p.ours.words) == 0 {
			s.failed++
		}
		if p.theirs.failed {
			s.theyFailed++
		}
		s.seconds += p.ours.seconds
		s.theirs += p.theirs.seconds
		if !p.counts() {
			continue
		}
		s.files++
		s.words += len(p.theirs.words)
		s.recall += p.recall
		s.reverse += p.reverse
		s.order += p.order
	}
	var all []sum
	for _, key := range slices.Sorted(maps.Keys(by)) {
		s := by[key]
		n := float64(max(1, s.files))
		s.recall, s.reverse, s.order = s.recall/n, s.reverse/n, s.order/n
		all = append(all, *s)
	}
	return all
}

func printTables(out io.Writer, pairs []pair) {
	fmt.Fprintln(out, "| format | peer | files compared | words of the peer | recall | reverse | order "+
		"| no text: ours, the peer | seconds: ours, the peer |\n|---|---|---|---|---|---|---|---|---|")
	for _, s := range sums(pairs) {
		fmt.Fprintf(out, "| %s | %s | %d | %d | %.3f | %.3f | %.3f | %d, %d | %.1f, %.1f |\n", s.format, s.peer,
			s.files, s.words, s.recall, s.reverse, s.order, s.failed, s.theyFailed, s.seconds, s.theirs)
	}
	low := slices.DeleteFunc(slices.Clone(pairs), func(p pair) bool { return !p.counts() })
	slices.SortStableFunc(low, func(a, b pair) int { return cmp.Compare(a.recall, b.recall) })
	fmt.Fprintln(out, "\n| file | peer | words: ours, the peer | recall | reverse | order "+
		"| warnings or error of ours | words that ours lacks |\n"+
		"|---|---|---|---|---|---|---|---|")
	for _, p := range low[:min(worst, len(low))] {
		fmt.Fprintf(out, "| %s | %s | %d, %d | %.3f | %.3f | %.3f | %s | %s |\n", filepath.Base(p.path), p.peer,
			len(p.ours.words), len(p.theirs.words), p.recall, p.reverse, p.order, p.ours.note,
			strings.Join(p.lacks, " "))
	}
}
