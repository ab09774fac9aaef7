package reclaim

import (
	"os"
	"reflect"
	"regexp"
	"strconv"
	"syscall"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var written = 1

// resident is how much of files the process has in memory, in KB.
func resident(t *testing.T) int {
	t.Helper()
	status, err := os.ReadFile("/proc/self/status")
	require.NoError(t, err)
	found := regexp.MustCompile(`RssFile:\s+(\d+) kB`).FindSubmatch(status)
	require.NotNil(t, found)
	kb, err := strconv.Atoi(string(found[1]))
	require.NoError(t, err)
	return kb
}

func isFound(address uintptr) bool {
	for _, m := range programMappings() {
		if m.from <= address && address < m.to {
			return true
		}
	}
	return false
}

func TestTheProgramIsUnmappedAndGoesOn(t *testing.T) {
	assert.True(t, isFound(reflect.ValueOf(isFound).Pointer()), "its code")
	assert.False(t, isFound(uintptr(unsafe.Pointer(&written))), "what it has written") //nolint:gosec // an address
	memory, err := os.Open("/proc/self/mem")
	require.NoError(t, err)
	defer func() { _ = memory.Close() }()
	for _, m := range programMappings() {
		if _, err := memory.ReadAt(make([]byte, m.to-m.from), int64(m.from)); err != nil { // maps all of it
			t.Skip("this system does not let a process read its memory as a file:", err)
		}
	}
	before := resident(t)
	unmapProgram()
	assert.Less(t, resident(t), before)
}

// A linker at the start of a program that was built with C, or to be loaded anywhere, does so.
func TestWhatWasWrittenAndThenProtectedIsKept(t *testing.T) {
	program, err := os.Open("/proc/self/exe")
	require.NoError(t, err)
	defer func() { _ = program.Close() }()
	const size = 64 << 10
	pages, err := syscall.Mmap(int(program.Fd()), 0, size, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_PRIVATE)
	require.NoError(t, err)
	defer func() { assert.NoError(t, syscall.Munmap(pages)) }()
	address := uintptr(unsafe.Pointer(&pages[0])) //nolint:gosec // an address
	require.NoError(t, syscall.Mprotect(pages, syscall.PROT_READ))
	require.True(t, isFound(address), "as it is in the file")

	require.NoError(t, syscall.Mprotect(pages, syscall.PROT_READ|syscall.PROT_WRITE))
	pages[5000] = 42
	require.NoError(t, syscall.Mprotect(pages, syscall.PROT_READ))
	assert.False(t, isFound(address))
	unmapProgram()
	assert.EqualValues(t, 42, pages[5000])
}
