package extract

import (
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"
)

// program is this one, also when another one has been put in its place since it began.
func program() (string, error) { return "/proc/self/exe", nil }

// limit ends the process when it maps more memory than it has now and this many bytes, or has worked for so long.
func limit(more uint64, work time.Duration) error {
	sizes, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return err
	}
	var mapped uint64 // pages
	if _, err := fmt.Sscan(string(sizes), &mapped); err != nil {
		return err
	}
	return errors.Join(
		lower(syscall.RLIMIT_AS, mapped*uint64(os.Getpagesize())+more),
		lower(syscall.RLIMIT_CPU, uint64(work/time.Second)),
	)
}

// lower sets a limit of the process, or leaves the one that it began with where that is lower.
func lower(resource int, to uint64) error {
	var now syscall.Rlimit
	if err := syscall.Getrlimit(resource, &now); err != nil {
		return err
	}
	to = min(to, now.Max)
	return syscall.Setrlimit(resource, &syscall.Rlimit{Cur: to, Max: to})
}
