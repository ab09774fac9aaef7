//go:build !unix

package mcptool

import (
	"os"
	"syscall"
)

// ownGroup has no meaning here.
func ownGroup() *syscall.SysProcAttr { return nil }

// signalGroup ends a program by any signal.
func signalGroup(p *os.Process, _ syscall.Signal) { _ = p.Kill() }
