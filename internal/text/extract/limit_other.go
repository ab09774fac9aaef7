//go:build !linux

package extract

import (
	"os"
	"time"
)

func program() (string, error) { return os.Executable() }

// limit does nothing: only on Linux can the mapped memory of a process be limited. The parent process limits the
// time.
func limit(uint64, time.Duration) error { return nil }

// yield does nothing.
func yield() error { return nil }

// isOwn is asked of a folder in the user's own part of the file system, where others can make none.
func isOwn(os.FileInfo) bool { return true }
