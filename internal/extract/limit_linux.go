package extract

import (
	"fmt"
	"os"
	"syscall"
)

// limitMemory ends the process when it maps more memory than it has now and this many bytes.
func limitMemory(more uint64) error {
	sizes, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return err
	}
	var mapped uint64 // pages
	if _, err := fmt.Sscan(string(sizes), &mapped); err != nil {
		return err
	}
	limit := mapped*uint64(os.Getpagesize()) + more
	return syscall.Setrlimit(syscall.RLIMIT_AS, &syscall.Rlimit{Cur: limit, Max: limit})
}
