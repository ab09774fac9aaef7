package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestTheNoticesNameWhatTheProgramsContain(t *testing.T) {
	text, err := collect(t.Context(), "../..", []string{"linux/amd64"})
	require.NoError(t, err)
	for _, name := range []string{
		"\nGo\n", "\ngithub.com/cockroachdb/pebble/v2 v", "\nPDFium", "The PDFium Authors", "\nSwagger UI", "preact",
		"\ngithub.com/kr/pretty v", "Copyright 2009 The Go Authors",
	} {
		assert.Contains(t, text, name)
	}
	assert.NotContains(t, text, "\ngithub.com/stretchr/testify ", "no program contains it")
	const words = "TERMS AND CONDITIONS FOR USE, REPRODUCTION, AND DISTRIBUTION"
	assert.Less(t, strings.Count(text, words), 30, "modules with the same text share it")
}

func TestOnlyNoticesAreRead(t *testing.T) {
	folder := t.TempDir()
	for name, text := range map[string]string{
		"License": "a", "LICENSE-3rdparty.csv": "b", "NOTICE.txt": "c", "COPYING": "a",
		"license.go": "d", "README": "e",
	} {
		require.NoError(t, os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600))
	}
	require.NoError(t, os.Mkdir(filepath.Join(folder, "licenses"), 0o700))
	texts, err := read([]string{folder})
	require.NoError(t, err)
	assert.ElementsMatch(t, []string{"a", "b", "c"}, texts)
}

func TestAModuleWithoutALicenseFails(t *testing.T) {
	root, modules := t.TempDir(), t.TempDir()
	write := func(folder, name, text string) {
		path := filepath.Join(folder, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	}
	write(modules, "go.mod", "module example.com/bare\n")
	write(modules, "bare.go", "package bare\n")
	write(root, "go.mod", "module ours\n\ngo 1.26.0\n\nrequire example.com/bare v1.0.0\n\n"+
		"replace example.com/bare => "+modules+"\n")
	write(root, "functions/f/main.go", "package main\n\nimport _ \"example.com/bare\"\n\nfunc main() {}\n")
	write(root, "internal/api/panel/static/vendor/LICENSES.txt", "the panel's")
	_, err := collect(t.Context(), root, []string{"linux/amd64"})
	require.ErrorContains(t, err, "example.com/bare v1.0.0 has no license")
	write(modules, "LICENSE", "do what you like")
	text, err := collect(t.Context(), root, []string{"linux/amd64"})
	require.NoError(t, err)
	assert.Contains(t, text, "example.com/bare v1.0.0\n"+strings.Repeat("-", 80)+"\n\ndo what you like\n")
}
