package extract

import (
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"
)

// program is the path of this program, even if its file has been replaced since it started.
func program() (string, error) { return "/proc/self/exe", nil }

// limit limits this process to the memory that is mapped now plus more bytes, and to so much CPU time. Beyond that the
// kernel refuses memory or ends the process.
func limit(more uint64, work time.Duration) error {
	sizes, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return err
	}
	var mapped uint64 // pages
	if _, err := fmt.Sscan(string(sizes), &mapped); err != nil {
		return err
	}
	return errors.Join(lower(syscall.RLIMIT_AS, mapped*uint64(os.Getpagesize())+more),
		lower(syscall.RLIMIT_CPU, uint64(work/time.Second)))
}

// nicer is added to the niceness of a child that reads a document. The parent process answers requests: on a busy CPU
// the child gets a third of the parent's time.
const nicer = 5

// yield gives this process less of a busy CPU than processes that answer requests. In Linux each thread has a niceness
// of its own. One call sets it for all of a process group, and their children inherit it.
func yield() error {
	is, err := syscall.Getpriority(syscall.PRIO_PROCESS, 0)
	niceness := min(20-is+nicer, 19) // the system call returns 20 less it; 19 is the kernel's greatest
	return errors.Join(err, syscall.Setpgid(0, 0), syscall.Setpriority(syscall.PRIO_PGRP, 0, niceness))
}

// lower sets a resource limit of the process; a lower hard limit stays as it is.
func lower(resource int, to uint64) error {
	var now syscall.Rlimit
	if err := syscall.Getrlimit(resource, &now); err != nil {
		return err
	}
	to = min(to, now.Max)
	return syscall.Setrlimit(resource, &syscall.Rlimit{Cur: to, Max: to})
}

// isOwn reports whether this user owns a file.
func isOwn(info os.FileInfo) bool {
	is, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(is.Uid) == os.Geteuid()
}
