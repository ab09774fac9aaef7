package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// peer is bm25s, in Python.
type peer struct{ python, script string }

// line is a document or a query as the script reads it.
type line struct {
	ID       string `json:"id"`
	Text     string `json:"text"`
	Language string `json:"language"`
}

// rank returns what it finds, by query.
func (p peer) rank(ctx context.Context, c collection) (map[string][]string, error) {
	folder, err := os.MkdirTemp("", "retrieval")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(folder) }()
	documents, queries := make([]line, 0, len(c.documents)), make([]line, 0, len(c.queries))
	for _, a := range c.documents {
		documents = append(documents, line{a.ID, a.Title + " " + a.Text, a.Language})
	}
	for _, q := range c.queries {
		queries = append(queries, line{q.ID, q.Text, q.Language})
	}
	first, second := filepath.Join(folder, "documents"), filepath.Join(folder, "queries")
	if err := errors.Join(write(first, documents), write(second, queries)); err != nil {
		return nil, err
	}
	return p.run(ctx, first, second)
}

func write(path string, list []line) error {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	for _, l := range list {
		if err := e.Encode(l); err != nil {
			return err
		}
	}
	return os.WriteFile(path, b.Bytes(), 0o600)
}

func (p peer) run(ctx context.Context, documents, queries string) (map[string][]string, error) {
	command := exec.CommandContext(ctx, p.python, p.script, documents, queries)
	command.Stderr = os.Stderr
	out, err := command.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := command.Start(); err != nil {
		return nil, err
	}
	found := map[string][]string{}
	broken := decode(out, func(a struct {
		ID    string   `json:"id"`
		Found []string `json:"found"`
	}) {
		found[a.ID] = a.Found
	})
	if err := command.Wait(); err != nil {
		return nil, fmt.Errorf("%s: %w", p.script, err)
	}
	return found, broken
}
