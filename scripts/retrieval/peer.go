package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
)

// peer is bm25s, in Python.
type peer struct{ python, script string }

// rank returns what it finds, by query.
func (p peer) rank(ctx context.Context, name string) (map[string][]string, error) {
	command := exec.CommandContext(ctx, p.python, p.script, name+suffix, name+".queries.jsonl")
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
