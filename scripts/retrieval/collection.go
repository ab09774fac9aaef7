package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
)

type article struct {
	ID    string `json:"id"`
	Title string `json:"title"`
	Text  string `json:"text"`
}

type question struct {
	ID       string   `json:"id"`
	Text     string   `json:"text"`
	Relevant []string `json:"relevant"`
}

type collection struct {
	documents []article
	queries   []question
}

// read reads the two files of a collection.
func read(name string) (collection, error) {
	var c collection
	err := lines(name+suffix, func(a article) { c.documents = append(c.documents, a) })
	if err != nil {
		return c, err
	}
	err = lines(name+".queries.jsonl", func(q question) {
		if len(q.Relevant) > 0 { // else every answer is as good
			c.queries = append(c.queries, q)
		}
	})
	return c, err
}

// longestLine bounds a line of a file, in bytes.
const longestLine = 64 << 20

// lines reads a file of one JSON value a line.
func lines[T any](file string, tell func(T)) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	if err := decode(f, tell); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	return nil
}

func decode[T any](r io.Reader, tell func(T)) error {
	s := bufio.NewScanner(r)
	s.Buffer(nil, longestLine)
	for s.Scan() {
		var v T
		if err := json.Unmarshal(s.Bytes(), &v); err != nil {
			return err
		}
		tell(v)
	}
	return s.Err()
}

// figures are means over queries.
type figures struct{ ndcg, recall float64 }

const (
	depth = 10  // of nDCG
	reach = 100 // of recall
)

// judge holds what was found, by query, best first, to what is relevant. A gain is 1; the ideal has as many relevant
// documents first as there are.
func (c collection) judge(found map[string][]string) figures {
	var sum figures
	for _, q := range c.queries {
		gain, ideal, hits := 0.0, 0.0, 0
		for i, id := range found[q.ID][:min(reach, len(found[q.ID]))] {
			if !slices.Contains(q.Relevant, id) {
				continue
			}
			hits++
			if i < depth {
				gain += discount(i)
			}
		}
		for i := range min(depth, len(q.Relevant)) {
			ideal += discount(i)
		}
		sum.ndcg += gain / ideal
		sum.recall += float64(hits) / float64(len(q.Relevant))
	}
	n := float64(max(1, len(c.queries)))
	return figures{sum.ndcg / n, sum.recall / n}
}

// discount is what a hit counts at a place, from 0.
func discount(place int) float64 { return 1 / math.Log2(float64(place)+2) }
