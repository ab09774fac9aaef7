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
