package extract

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// TestMain builds the program that reads files without the race detector, as the service is built. With the race
// detector a process maps several times the memory that it uses.
func TestMain(m *testing.M) {
	os.Exit(withReader(m))
}

func withReader(m *testing.M) int {
	dir, err := os.MkdirTemp("", "reader")
	if err == nil {
		defer func() { _ = os.RemoveAll(dir) }()
		var output []byte
		path := filepath.Join(dir, "reader")
		if output, err = exec.Command("go", "build", "-o", path, "./testdata/reader").CombinedOutput(); err == nil {
			reader = func() (string, error) { return path, nil }
			return m.Run()
		}
		err = fmt.Errorf("%w: %s", err, output)
	}
	fmt.Fprintln(os.Stderr, err)
	return 1
}
