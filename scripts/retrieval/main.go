// Command retrieval measures how good the search is: nDCG@10 and recall@100 on collections of documents, queries and
// what is relevant to them, beside bm25s, which others wrote, in the same run.
//
//	go run ./scripts/retrieval -collection DIR -python .cache/peers/retrieval/bin/python
//
// A collection is two files in the folder: NAME.docs.jsonl, a line {"id", "title", "text"} for each document, and
// NAME.queries.jsonl, a line {"id", "text", "relevant": ids of documents} for each query.
//
// Everything is searched by our analysis, chunking and ranking: each document as one chunk, and in chunks of the
// default size, where a document is worth what its best chunk is; without an index, exactly, and the chunks also by the
// laptop's index and by that of AWS, over a server that stands in for S3 Vectors. The command fails if keyword search
// is below bm25s, or hybrid search below keyword search, in either figure, or the index of AWS by more than 0.01 below
// the laptop's.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"agentplatform/internal/index"
	"agentplatform/internal/ranking"
)

func main() {
	dir := flag.String("collection", "", "`DIR` with NAME.docs.jsonl and NAME.queries.jsonl")
	python := flag.String("python", "python3", "`PROGRAM` that has the packages of requirements.txt")
	script := flag.String("peer", "scripts/retrieval/peer.py", "`FILE` that ranks by bm25s")
	flag.Parse()
	if err := run(*dir, peer{*python, *script}); err != nil {
		fmt.Fprintln(os.Stderr, "retrieval:", err)
		os.Exit(1)
	}
}

const suffix = ".docs.jsonl"

// run measures every collection of a folder.
func run(dir string, p peer) error {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Minute)
	defer cancel()
	files, err := filepath.Glob(filepath.Join(dir, "*"+suffix))
	if err != nil {
		return err
	}
	if len(files) == 0 {
		return fmt.Errorf("there is no NAME%s in %q: -collection says where one is", suffix, dir)
	}
	var failures []error
	for _, file := range files {
		name := strings.TrimSuffix(file, suffix)
		c, err := read(name)
		if err != nil {
			return err
		}
		rows, err := measure(ctx, c, p, name)
		if err != nil {
			return err
		}
		failures = append(failures, show(filepath.Base(name), c, rows))
	}
	return errors.Join(failures...)
}

// row is a line of the table.
type row struct {
	name string
	figures
	floor string  // the row that it must not be below; empty: none
	slack figures // by which it may be below all the same
}

const (
	whole   = "whole documents"
	chunked = "chunks of 220 and 40"

	byLaptop = "laptop's index"
	byCloud  = "S3 Vectors' index"
	// apart is how far the index of AWS may be below the laptop's.
	apart = 0.01
)

// measure makes the table of a collection.
func measure(ctx context.Context, c collection, p peer, name string) ([]row, error) {
	found, err := p.rank(ctx, name)
	if err != nil {
		return nil, err
	}
	rows := []row{{name: "bm25s", figures: c.judge(found)}}
	for _, division := range []string{whole, chunked} {
		s, err := newSearch(ctx, c, division == chunked)
		if err != nil {
			return nil, err
		}
		keyword := "keyword, " + division
		for _, mode := range s.modes() {
			found, err := s.all(ctx, c.queries, mode, nil)
			if err != nil {
				return nil, err
			}
			r := row{name: string(mode) + ", " + division, figures: c.judge(found)}
			switch mode {
			case ranking.Keyword:
				r.floor = "bm25s"
			case ranking.Hybrid:
				r.floor = keyword
			}
			rows = append(rows, r)
		}
		if division == chunked {
			more, err := s.indexed(ctx, c)
			if err != nil {
				return nil, err
			}
			rows = append(rows, more...)
		}
	}
	return rows, nil
}

// indexed measures the laptop's index, and that of AWS beside it.
func (s *search) indexed(ctx context.Context, c collection) ([]row, error) {
	var rows []row
	for _, name := range []string{byLaptop, byCloud} {
		made := laptop
		if name == byCloud {
			made = func() (index.Index, func(), error) { return cloud(ctx) }
		}
		x, done, err := made()
		if err != nil {
			return nil, err
		}
		defer done()
		if err := s.fill(ctx, x); err != nil {
			return nil, err
		}
		for _, mode := range s.modes() {
			found, err := s.all(ctx, c.queries, mode, x)
			if err != nil {
				return nil, err
			}
			r := row{name: string(mode) + ", " + name, figures: c.judge(found)}
			switch {
			case name == byCloud:
				r.floor, r.slack = string(mode)+", "+byLaptop, figures{apart, apart}
			case mode == ranking.Hybrid:
				r.floor = string(ranking.Keyword) + ", " + byLaptop
			}
			rows = append(rows, r)
		}
	}
	return rows, nil
}

// below says whether a row is below its floor.
func (r row) below(floor row) bool {
	return r.ndcg < floor.ndcg-r.slack.ndcg || r.recall < floor.recall-r.slack.recall
}

// show prints the table; the error names the rows that are below their floor.
func show(name string, c collection, rows []row) error {
	fmt.Printf("%s: %d documents, %d queries\n", name, len(c.documents), len(c.queries))
	fmt.Printf("  %-34s %8s %11s\n", "", "nDCG@10", "recall@100")
	var failures []error
	for _, r := range rows {
		fmt.Printf("  %-34s %8.4f %11.4f\n", r.name, r.ndcg, r.recall)
		at := slices.IndexFunc(rows, func(f row) bool { return f.name == r.floor })
		if at >= 0 && r.below(rows[at]) {
			failures = append(failures, fmt.Errorf("%s: %s is below %s", name, r.name, r.floor))
		}
	}
	return errors.Join(failures...)
}
