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

// rank returns the documents that bm25s finds, by query.
func rank(ctx context.Context, python string, c collection) (found map[string][]string, err error) {
	request, err := json.Marshal(map[string]any{"documents": c.documents, "queries": c.queries})
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
