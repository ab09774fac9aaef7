package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/stretchr/testify/require"
)

// memory is the resident memory of the process, in MB.
func (p *program) memory() int {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.command.Process.Pid))
	require.NoError(p.t, err)
	for line := range strings.Lines(string(raw)) {
		if kb, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			n, err := strconv.Atoi(strings.Fields(kb)[0])
			require.NoError(p.t, err)
			return n >> 10
		}
	}
	p.t.Skip("this system does not tell a process's memory")
	return 0
}

func (p *program) descriptors() int {
	list, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", p.command.Process.Pid))
	require.NoError(p.t, err)
	return len(list)
}

// endless is a body that is generated while it is sent.
type endless struct{ left int64 }

func (e *endless) Read(b []byte) (int, error) {
	if e.left <= 0 {
		return 0, io.EOF
	}
	n := min(int64(len(b)), e.left)
	e.left -= n
	copy(b[:n], bytes.Repeat([]byte("x"), int(n)))
	return int(n), nil
}
