package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
)

const script = "scripts/retrieval/peer.py"

// line is a document or a query as the script reads it.
type line struct {
	ID       string `json:"id"`
	Text     string `json:"text"`
	Language string `json:"language"`
}

// rank returns what bm25s finds, by query.
func rank(ctx context.Context, python string, c collection) (found map[string][]string, err error) {
	var in struct {
		Documents []line `json:"documents"`
		Queries   []line `json:"queries"`
	}
	for _, a := range c.documents {
		in.Documents = append(in.Documents, line{a.ID, a.Title + " " + a.Text, a.Language})
	}
	for _, q := range c.queries {
		in.Queries = append(in.Queries, line{q.ID, q.Text, q.Language})
	}
	request, err := json.Marshal(in)
	if err != nil {
		return nil, err
	}
	command := exec.CommandContext(ctx, python, script)
	command.Stdin, command.Stderr = bytes.NewReader(request), os.Stderr
	out, err := command.Output()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", script, err)
	}
	return found, json.Unmarshal(out, &found)
}
