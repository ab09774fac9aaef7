//go:build !linux

package extract

import (
	"os"
	"time"
)

func program() (string, error) { return os.Executable() }

// limit does nothing: the mapped memory of a process can be limited only on Linux. The parent process limits the time.
func limit(uint64, time.Duration) error { return nil }

// yield does nothing.
func yield() error { return nil }

// isOwn is called for a folder in the user's own part of the file system, where others can make none.
func isOwn(os.FileInfo) bool { return true }
