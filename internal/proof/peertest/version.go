//go:build peers

package peertest

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// NPM returns the version of a package that npm has installed.
func NPM(t testing.TB, name string) string {
	t.Helper()
	return version(t, modules(t), name)
}

// FrameworkNPM returns the version of a package that npm has installed for `make peers-all` alone.
func FrameworkNPM(t testing.TB, name string) string {
	t.Helper()
	return version(t, Frameworks(t), name)
}

func version(t testing.TB, folder, name string) string {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(folder, name, "package.json"))
	require.NoError(t, err)
	var about struct{ Version string }
	require.NoError(t, json.Unmarshal(raw, &about))
	require.NotEmpty(t, about.Version)
	return about.Version
}

// PyPI returns the version of a package in one of the environments of Python: venv, clients, llama ….
func PyPI(t testing.TB, environment, name string) string {
	t.Helper()
	found := only(t, filepath.Join(environment, "lib/python3*/site-packages",
		strings.ReplaceAll(name, "-", "_")+"-*.dist-info"))
	_, version, _ := strings.Cut(strings.TrimSuffix(filepath.Base(found), ".dist-info"), "-")
	return version
}
