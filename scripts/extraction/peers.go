package main

import (
	"bytes"
	"context"
	_ "embed" // of script
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

const patient = time.Minute // with one file

//go:embed peer.py
var script string

// markitdown has a reader for these; of others it returns the bytes.
var formats = strings.Fields(".pdf .docx .pptx .xlsx .html .htm .csv .ipynb .epub .md .txt")

// readByPeers returns the readings by file and peer.
func readByPeers(ctx context.Context, paths []string) (map[string]map[string]reading, error) {
	if _, err := exec.LookPath("pdftotext"); err != nil {
		return nil, err
	}
	all, requested := map[string]map[string]reading{}, []string{}
	for _, path := range paths {
		all[path] = map[string]reading{}
		if text, err := os.ReadFile(path + beside); err == nil {
			all[path]["beside"] = timed(func() (string, string, error) { return string(text), "", nil })
		}
		kind := strings.ToLower(filepath.Ext(path))
		if slices.Contains(formats, kind) {
			requested = append(requested, path)
		}
		if kind == ".pdf" {
			all[path]["pdftotext"] = timed(func() (string, string, error) { return pdftotext(ctx, path) })
		}
	}
	found, err := markitdown(ctx, requested)
	for path, r := range found {
		all[path]["markitdown"] = r
	}
	return all, err
}

func pdftotext(ctx context.Context, path string) (string, string, error) {
	limited, cancel := context.WithTimeout(ctx, patient)
	defer cancel()
	out, err := exec.CommandContext(limited, "pdftotext", "-enc", "UTF-8", path, "-").Output()
	return string(out), "", err
}

// markitdown uses one process for all files, because the process takes seconds to start.
func markitdown(ctx context.Context, paths []string) (map[string]reading, error) {
	if len(paths) == 0 {
		return nil, nil
	}
	request, err := json.Marshal(map[string]any{"files": paths, "seconds": patient.Seconds()})
	if err != nil {
		return nil, err
	}
	command := exec.CommandContext(ctx, "python3", "-c", script)
	command.Stdin, command.Stderr = bytes.NewReader(request), os.Stderr
	out, err := command.Output()
	if err != nil {
		return nil, fmt.Errorf("markitdown: %w", err)
	}
	var texts map[string]struct {
		Text    string
		Failed  bool
		Seconds float64
	}
	found := map[string]reading{}
	err = json.Unmarshal(out, &texts)
	for path, t := range texts {
		found[path] = reading{wordsOf(marks.ReplaceAllString(t.Text, " ")), t.Failed, "", t.Seconds}
	}
	return found, err
}
