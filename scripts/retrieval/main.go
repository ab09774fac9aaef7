// Command retrieval measures the quality of the search: nDCG@10 and recall@100 on collections of documents, queries and
// relevant documents. In the same run it measures bm25s, which others wrote.
//
//	go run ./scripts/retrieval -collection DIR -python .cache/peers/retrieval/bin/python
//
// A collection is two files in the folder:
//
//   - NAME.docs.jsonl: a line {"id", "title", "text", "language"} for each document.
//   - NAME.queries.jsonl: a line {"id", "text", "relevant": ids of documents, "answers"} for each query.
//
// Without a language, the first part of the id is the language ("de-12"), or else English. Each collection is measured
// as one base, and in one base with all the others. A collection with several languages is also measured as a base for
// each of them. A collection with one language and without answers is also measured with the first 42 words of each
// document, because most people have short texts.
//
// A query may have answers, as they stand in a document. The table then has how often the quotes of the first six
// passages hold one, as citations quote them. Unlike those of a run, these passages may all be of one document,
// near-duplicates or below the floor. The command fails if hybrid search has less than three quarters of them.
//
// All searches use the service's analysis, chunking and ranking. A document is one chunk, or has chunks of the default
// size and the score of its best chunk. Searches are exact and without an index. The chunks are also searched by the
// laptop's index, and by that of AWS over a stand-in for S3 Vectors. bm25s has the stemmer of each document's language.
// The command fails in these cases. They count in either figure, and in nDCG in each language of a base:
//
//   - Keyword search is below bm25s by more than 0.01.
//   - Hybrid search is below keyword search by more than 0.005.
//   - The index of AWS is below the laptop's by more than 0.01.
//
// The embedding model is the built-in one, or one behind a server with OpenAI's API, with its prefixes and its weight.
// Without -query-prefix and -passage-prefix it has those of its family:
//
//	go run ./scripts/retrieval -collection DIR -endpoint http://127.0.0.1:8000/v1 -model e5-small -weight 1
//
// Hybrid search must then not be below the better of keyword and semantic search by more than 0.005.
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

	"agentplatform/internal/ai/embedding"
	"agentplatform/internal/text/ranking"
)

func main() {
	dir := flag.String("collection", "", "`DIR` with NAME.docs.jsonl and NAME.queries.jsonl")
	python := flag.String("python", "python3", "`PROGRAM` that has the packages of requirements.txt")
	endpoint := flag.String("endpoint", "", "`URL` of a server with an embedding model, with its /v1; by default the "+
		"built-in model is measured")
	name := flag.String("model", "", "`NAME` of the model at the endpoint")
	var o embedding.Options
	flag.Func("query-prefix", "`TEXT` before each query", set(&o.QueryPrefix))
	flag.Func("passage-prefix", "`TEXT` before each passage", set(&o.PassagePrefix))
	weight := flag.Float64("weight", 1, "of a rank by meaning in hybrid searches, 0 to 1")
	flag.Parse()
	if *endpoint != "" {
		o.Weight = weight
		model = behind(*endpoint, *name, o)
	}
	if err := run(*dir, *python); err != nil {
		fmt.Fprintln(os.Stderr, "retrieval:", err)
		os.Exit(1)
	}
}

// set returns a flag function that sets an option.
func set(to **string) func(string) error {
	return func(text string) error {
		*to = &text
		return nil
	}
}

const suffix = ".docs.jsonl"

// run measures every collection of a folder, and all of them in one base.
func run(dir, python string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Hour)
	defer cancel()
	files, err := filepath.Glob(filepath.Join(dir, "*"+suffix))
	if err != nil {
		return err
	}
	if len(files) == 0 {
		return fmt.Errorf("there is no NAME%s in %q: -collection says where one is", suffix, dir)
	}
	var there []collection
	for _, file := range files {
		c, err := read(strings.TrimSuffix(file, suffix))
		if err != nil {
			return err
		}
		there = append(there, c)
	}
	var failures []error
	for _, c := range bases(there) {
		rows, err := measure(ctx, c, python)
		if err != nil {
			return err
		}
		failures = append(failures, show(c, rows))
	}
	return errors.Join(failures...)
}

// bases returns the bases to measure for some collections.
func bases(list []collection) (all []collection) {
	for _, c := range list {
		all = append(all, c)
		languages := c.languages()
		if len(languages) == 1 {
			if !c.answered() {
				all = append(all, c.short())
			}
			continue
		}
		for _, l := range languages {
			all = append(all, c.in(l))
		}
	}
	if len(list) > 1 {
		all = append(all, mixed(list))
	}
	return all
}

// row is a line of the table.
type row struct {
	name string
	figures
	floors []string // the rows that it must not be below
	slack  figures  // how far it may be below them
	found  map[string][]string
	// known is the number of queries with known answers, answered the number of those whose quotes hold one. 0: not
	// measured.
	known, answered int
}

const (
	whole   = "whole documents"
	chunked = "chunks of 220 and 40"

	byLaptop = "laptop's index"
	byCloud  = "S3 Vectors' index"
	// apart is how far the index of AWS may be below the laptop's.
	apart = 0.01
)

// How far keyword search may be below bm25s, and hybrid search below keyword search.
var (
	belowPeer    = figures{0.01, 0.01}
	belowKeyword = figures{0.005, 0.005}
)

// measure makes the table of a collection.
func measure(ctx context.Context, c collection, python string) ([]row, error) {
	found, err := rank(ctx, python, c)
	if err != nil {
		return nil, err
	}
	rows := []row{{name: "bm25s", figures: c.score(found), found: found}}
	for _, division := range []string{whole, chunked} {
		s, err := newSearch(ctx, c, division == chunked)
		if err != nil {
			return nil, err
		}
		for _, at := range s.targets(division) {
			more, err := s.measure(ctx, c, at)
			if err != nil {
				return nil, err
			}
			rows = append(rows, more...)
		}
	}
	return rows, nil
}

// measure makes the rows of a target.
func (s *search) measure(ctx context.Context, c collection, at target) ([]row, error) {
	x, done, err := at.open(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	if err := s.fill(ctx, x); err != nil {
		return nil, err
	}
	var rows []row
	for _, mode := range []ranking.Mode{ranking.Keyword, ranking.Semantic, ranking.Hybrid} {
		found, err := s.all(ctx, c.queries, mode, x, at.candidates)
		if err != nil {
			return nil, err
		}
		r := row{name: string(mode) + ", " + at.name, figures: c.score(found), found: found}
		if at.name == byLaptop {
			if r.known, r.answered, err = s.answered(ctx, c, mode, x, at.candidates); err != nil {
				return nil, err
			}
		}
		switch {
		case at.name == byCloud:
			r.floors, r.slack = []string{string(mode) + ", " + byLaptop}, figures{apart, apart}
		case mode == ranking.Hybrid:
			r.floors, r.slack = []string{string(ranking.Keyword) + ", " + at.name}, belowKeyword
			if model.real() {
				r.floors = append(r.floors, string(ranking.Semantic)+", "+at.name)
			}
		case mode == ranking.Keyword && at.name != byLaptop:
			r.floors, r.slack = []string{"bm25s"}, belowPeer
		}
		rows = append(rows, r)
	}
	return rows, nil
}

// below reports whether a row is below its floor.
func (r row) below(floor row) bool {
	return r.ndcg < floor.ndcg-r.slack.ndcg || r.recall < floor.recall-r.slack.recall
}

// show prints the table, and one of the languages if there are several. The error names the rows that are below their
// floor.
func show(c collection, rows []row) error {
	fmt.Printf("%s: %d documents, %d queries\n", c.name, len(c.documents), len(c.queries))
	fmt.Printf("  %-34s %8s %11s\n", "", "nDCG@10", "recall@100")
	for _, r := range rows {
		fmt.Printf("  %-34s %8.4f %11.4f\n", r.name, r.ndcg, r.recall)
		if r.known > 0 {
			fmt.Printf("    the first %d quotes hold the answer to %d of %d\n", passages, r.answered, r.known)
		}
	}
	failures := []error{short(c.name, rows)}
	languages := c.languages()
	if len(languages) < 2 {
		return errors.Join(failures...)
	}
	fmt.Printf("  nDCG@10 by the language of the query\n  %-34s", "")
	parts := map[string][]row{}
	for _, l := range languages {
		fmt.Printf(" %8s", l)
		for _, r := range rows {
			r.figures = c.queriesIn(l).score(r.found)
			r.slack.recall = 1 // one of a few queries is more than the slack
			parts[l] = append(parts[l], r)
		}
		failures = append(failures, short(c.name+", queries in "+l, parts[l]))
	}
	fmt.Println()
	for i, r := range rows {
		fmt.Printf("  %-34s", r.name)
		for _, l := range languages {
			fmt.Printf(" %8.4f", parts[l][i].ndcg)
		}
		fmt.Println()
	}
	return errors.Join(failures...)
}

// short names the rows that are below their floor.
func short(name string, rows []row) error {
	var failures []error
	for _, r := range rows {
		for _, floor := range rows {
			if slices.Contains(r.floors, floor.name) && r.below(floor) {
				failures = append(failures, fmt.Errorf("%s: %s is below %s", name, r.name, floor.name))
			}
		}
		if strings.HasPrefix(r.name, string(ranking.Hybrid)) && 4*r.answered < 3*r.known {
			failures = append(failures, fmt.Errorf("%s: the quotes of %s hold too few answers", name, r.name))
		}
	}
	return errors.Join(failures...)
}
