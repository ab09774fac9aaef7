package extract

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Each thread of a process that reads a document yields, also that of the garbage collector.
func TestReaderOfADocumentYieldsWithAllItsThreads(t *testing.T) {
	if _, err := os.Stat("/proc/self/task"); err != nil {
		t.Skip("threads are listed in /proc")
	}
	child, err := job{Format: plainText, Whole: true}.command(t.Context())
	require.NoError(t, err)
	in, err := child.StdinPipe() // which it reads to the end, and waits for more until it is closed
	require.NoError(t, err)
	require.NoError(t, child.Start())
	defer func() { _ = child.Wait() }()
	defer func() { _ = in.Close() }()
	own := nicenesses(t, os.Getpid())[0]
	var theirs []int
	assert.Eventually(t, func() bool {
		theirs = nicenesses(t, child.Process.Pid)
		for _, nice := range theirs {
			if nice <= own {
				return false
			}
		}
		return len(theirs) > 1
	}, time.Minute, time.Millisecond, "%v, and this process %d", &theirs, own)
}

// nicenesses are those of a process's threads.
func nicenesses(t *testing.T, process int) []int {
	threads, err := filepath.Glob("/proc/" + strconv.Itoa(process) + "/task/*/stat")
	require.NoError(t, err)
	all := make([]int, 0, len(threads))
	for _, thread := range threads {
		stat, _ := os.ReadFile(thread)
		_, after, _ := strings.Cut(string(stat), ") ")
		fields := strings.Fields(after) // from the third on, the state: man 5 proc
		if len(fields) > 16 {
			nice, err := strconv.Atoi(fields[16])
			require.NoError(t, err)
			all = append(all, nice)
		}
	}
	return all
}
