//go:build unix

package pdftext

import "syscall"

// reserve maps memory outside of the heap. Go's heap would take up to 128 MiB more of a process's addresses for it, and
// its garbage collector would run more often.
func reserve(bytes int) (sandbox, error) {
	return syscall.Mmap(-1, 0, bytes, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_PRIVATE|syscall.MAP_ANON)
}

func (s sandbox) release() error { return syscall.Munmap(s) }
