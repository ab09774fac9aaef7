package main

import (
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// confine has root run a command as the user of the image, with the files of the image alone.
func confine(t *testing.T, command *exec.Cmd, m machine) {
	t.Helper()
	if os.Getuid() != 0 {
		return
	}
	user, _, _ := strings.Cut(m.run.User, ":")
	id, err := strconv.ParseUint(user, 10, 32)
	require.NoError(t, err)
	require.NotZero(t, id, "a container must not run as root")
	command.Dir = "/"
	command.SysProcAttr = &syscall.SysProcAttr{
		Chroot:     m.folder,
		Credential: &syscall.Credential{Uid: uint32(id), Gid: uint32(id)},
	}
}
