package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const sentence = "the quick brown fox jumps over the lazy dog and then sleeps until noon below an old tree near " +
	"our house"

// withPeers puts programs on PATH that find this text in every file.
func withPeers(t *testing.T, text string) string {
	t.Helper()
	bin, folder := t.TempDir(), t.TempDir()
	for name, script := range map[string]string{
		"pdftotext": "echo '" + text + "'",
		"python3":   `sed 's/.*"files":\["\([^"]*\)".*/{"\1": {"text": "` + text + `", "seconds": 1}}/'`,
	} {
		program := filepath.Join(bin, name)
		require.NoError(t, os.WriteFile(program, []byte("#!/bin/sh\n"+script+"\n"), 0o700)) //nolint:gosec // it is run
	}
	t.Setenv("PATH", bin+string(os.PathListSeparator)+os.Getenv("PATH"))
	return folder
}

func TestWhatAgreesPasses(t *testing.T) {
	folder := withPeers(t, sentence)
	require.NoError(t, os.WriteFile(filepath.Join(folder, "a.txt"), []byte(sentence), 0o600))
	var out strings.Builder
	require.NoError(t, run(t.Context(), folder, &out))
	assert.Contains(t, out.String(), "| txt | markitdown | 1 | 21 | 1.000 | 1.000 | 1.000 | 0, 0 |")
}

func TestWordsThatOursLacksFail(t *testing.T) {
	folder := withPeers(t, sentence)
	lost := strings.Replace(sentence, "quick brown fox", "", 1)
	require.NoError(t, os.WriteFile(filepath.Join(folder, "a.txt"), []byte(lost), 0o600))
	var out strings.Builder
	require.ErrorContains(t, run(t.Context(), folder, &out), "txt: recall of what markitdown reads is 0.857")
	assert.Contains(t, out.String(), "| quick brown fox |")
}

func TestAFileThatOnlyAPeerReadsFails(t *testing.T) {
	folder := withPeers(t, sentence)
	require.NoError(t, os.WriteFile(filepath.Join(folder, "a.pdf"), []byte("no PDF"), 0o600))
	err := run(t.Context(), folder, &strings.Builder{})
	for _, peer := range []string{"pdftotext", "markitdown"} {
		require.ErrorContains(t, err, fmt.Sprintf("a.pdf: %s reads 21 words, ours fails: unreadable", peer))
	}
}

func TestATextBesideAFileIsAPeer(t *testing.T) {
	folder := withPeers(t, sentence)
	require.NoError(t, os.WriteFile(filepath.Join(folder, "a.srt"), []byte("other words"), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(folder, "a.srt"+beside), []byte(sentence), 0o600))
	require.ErrorContains(t, run(t.Context(), folder, &strings.Builder{}), "srt: recall of what beside reads is 0.000")
}

func TestEveryPeerIsNeeded(t *testing.T) {
	folder := withPeers(t, sentence)
	require.NoError(t, os.WriteFile(filepath.Join(folder, "a.txt"), []byte(sentence), 0o600))
	t.Setenv("PATH", t.TempDir())
	require.ErrorContains(t, run(t.Context(), folder, &strings.Builder{}), "pdftotext")
	require.ErrorContains(t, run(t.Context(), t.TempDir(), &strings.Builder{}), "has no files")
}

func TestOrderIsThatOfAdjacentWords(t *testing.T) {
	ours, theirs := reading{words: wordsOf("c d a b")}, reading{words: wordsOf("a b c d")}
	p := compare("x.pdf", "pdftotext", ours, theirs)
	assert.InDelta(t, 1, p.recall, 0)
	assert.InDelta(t, 2./3, p.order, 1e-9, "a b and c d")
}

func TestWordsAreTheSameHoweverTheyAreWritten(t *testing.T) {
	assert.Equal(t, strings.Fields("office naïve 日 本 ok 12"), wordsOf("Oﬃce, naïve 日本 ok-12"))
}
