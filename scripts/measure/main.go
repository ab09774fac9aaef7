// Command measure prints a table of how easy a tree of this project is to read and to work in: sizes of packages and
// functions, long lines, docstrings that say which errors come back, private words that are left, packages without
// tests, and with -time how long the everyday commands take. Several trees give one column each:
//
//	go run ./scripts/measure -tree ../before -tree . -time
//
// It reads sources with go/parser, whatever their build tags, and knows nothing of the packages that it measures, so
// that old commits can be measured as well. It imports the standard library alone and needs no network (with
// -cold-modules the go command does).
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"
)

// trees are the values of a flag that may be given several times.
type trees []string

func (t *trees) String() string { return strings.Join(*t, ",") }

func (t *trees) Set(dir string) error { *t = append(*t, dir); return nil }

func main() {
	var dirs trees
	flag.Var(&dirs, "tree", "`DIR`ectory of a checkout; may be given again for another column (default \".\")")
	list := flag.Bool("list", false, "list the places behind the figures too")
	timed := flag.Bool("time", false, "run make check, make test and make run, and say how long it takes (minutes)")
	cold := flag.Bool("cold-modules", false, "with -time: begin with an empty module cache as well (needs the network)")
	flag.Parse()
	if len(dirs) == 0 {
		dirs = trees{"."}
	}
	if err := run(dirs, *list, *timed, *cold); err != nil {
		fmt.Fprintln(os.Stderr, "measure:", err)
		os.Exit(1)
	}
}

// run measures every tree and prints one table, and behind it the places.
func run(dirs []string, list, timed, cold bool) error {
	var columns [][]row
	var places []string
	for _, dir := range dirs {
		s, err := read(dir)
		if err != nil {
			return err
		}
		rows := s.rows()
		if timed {
			times, err := timings(dir, cold)
			if err != nil {
				return err
			}
			rows = append(rows, times...)
		}
		columns = append(columns, rows)
		for _, place := range s.places {
			places = append(places, filepath.Join(dir, place))
		}
	}
	if err := printTable(dirs, columns); err != nil {
		return err
	}
	if list {
		fmt.Println()
		fmt.Println(strings.Join(places, "\n"))
	}
	return nil
}

// row is one figure of one tree. All trees have the same rows in the same order.
type row struct{ what, value string }

func printTable(dirs []string, columns [][]row) error {
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 1, ' ', 0)
	line := func(cells ...string) { fmt.Fprintf(w, "| %s\t|\n", strings.Join(cells, "\t| ")) }
	line(append([]string{"what"}, dirs...)...)
	fmt.Fprintln(w, "|"+strings.Repeat("---\t|", len(dirs)+1))
	for i := range columns[0] {
		cells := []string{columns[0][i].what}
		for _, c := range columns {
			cells = append(cells, c[i].value)
		}
		line(cells...)
	}
	return w.Flush()
}
