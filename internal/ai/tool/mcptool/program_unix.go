//go:build unix

package mcptool

import (
	"os"
	"syscall"
)

// ownGroup has a program begin a process group of its own.
func ownGroup() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// signalGroup sends a signal to a program and all that it has started in its group.
func signalGroup(p *os.Process, s syscall.Signal) { _ = syscall.Kill(-p.Pid, s) }
