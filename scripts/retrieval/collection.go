package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

type article struct {
	ID       string `json:"id"`
	Title    string `json:"title"`
	Text     string `json:"text"`
	Language string `json:"language"` // ISO 639-1; not given: the id begins with it, like "de-12", else it is English
}

type question struct {
	ID       string   `json:"id"`
	Text     string   `json:"text"`
	Language string   `json:"language"` // that of the first document that is relevant
	Relevant []string `json:"relevant"`
	Answers  []string `json:"answers"` // as they stand in a document; none: not known
}

type collection struct {
	name      string
	documents []article
	queries   []question
}

// read reads the two files of a collection.
func read(name string) (collection, error) {
	c, languages := collection{name: filepath.Base(name)}, map[string]string{}
	err := lines(name+suffix, func(a article) {
		if a.Language == "" {
			a.Language = languageOf(a.ID)
		}
		languages[a.ID] = a.Language
		c.documents = append(c.documents, a)
	})
	if err != nil {
		return c, err
	}
	err = lines(name+".queries.jsonl", func(q question) {
		if len(q.Relevant) > 0 { // else every answer is as good
			q.Language = languages[q.Relevant[0]]
			c.queries = append(c.queries, q)
		}
	})
	return c, err
}

// languageOf returns the language at the beginning of an id.
func languageOf(id string) string {
	if len(id) > 3 && id[2] == '-' && 'a' <= id[0] && id[0] <= 'z' && 'a' <= id[1] && id[1] <= 'z' {
		return id[:2]
	}
	return "en"
}

// languages returns the languages of the queries, in order.
func (c collection) languages() []string {
	var list []string
	for _, q := range c.queries {
		list = append(list, q.Language)
	}
	return slices.Compact(slices.Sorted(slices.Values(list)))
}

// in returns the part of the collection in a language.
func (c collection) in(language string) collection {
	part := collection{name: c.name + ", " + language + " alone"}
	for _, a := range c.documents {
		if a.Language == language {
			part.documents = append(part.documents, a)
		}
	}
	part.queries = c.queriesIn(language).queries
	return part
}

// queriesIn returns the queries in a language, with all documents.
func (c collection) queriesIn(language string) collection {
	c.queries = slices.DeleteFunc(slices.Clone(c.queries), func(q question) bool { return q.Language != language })
	return c
}

// mixed joins collections into one.
func mixed(list []collection) collection {
	var all collection
	var names []string
	for i, c := range list {
		of := func(id string) string { return fmt.Sprint(i, "/", id) }
		names = append(names, c.name)
		for _, a := range c.documents {
			a.ID = of(a.ID)
			all.documents = append(all.documents, a)
		}
		for _, q := range c.queries {
			q.ID, q.Relevant = of(q.ID), slices.Clone(q.Relevant)
			for j, id := range q.Relevant {
				q.Relevant[j] = of(id)
			}
			all.queries = append(all.queries, q)
		}
	}
	all.name = strings.Join(names, " + ")
	return all
}

// answered reports whether a query has answers.
func (c collection) answered() bool {
	return slices.ContainsFunc(c.queries, func(q question) bool { return len(q.Answers) > 0 })
}

// short cuts each document to its first words, to the length of abstracts and notes.
func (c collection) short() collection {
	c.name, c.documents = fmt.Sprintf("%s, the first %d words", c.name, shortWords), slices.Clone(c.documents)
	for i, a := range c.documents {
		words := strings.Fields(a.Text)
		c.documents[i].Title, c.documents[i].Text = "", strings.Join(words[:min(shortWords, len(words))], " ")
	}
	return c
}

const shortWords = 42

// lines reads a file of JSON values.
func lines[T any](file string, visit func(T)) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	for values := json.NewDecoder(f); ; {
		var v T
		if err := values.Decode(&v); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		visit(v)
	}
}

// figures are means over queries.
type figures struct{ ndcg, recall float64 }

const (
	depth = 10  // of nDCG
	reach = 100 // of recall
)

// score returns the figures of the found documents, by query and best first, against the relevant ones. A gain is 1.
// The ideal order has all relevant documents first.
func (c collection) score(found map[string][]string) figures {
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

// discount returns the weight of a hit at a place, from 0.
func discount(position int) float64 { return 1 / math.Log2(float64(position)+2) }
