package reclaim

import (
	"bufio"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// unmapProgram takes the pages of the program's file out of the process's memory. They stay in the system's cache of
// files, and each that is used again is mapped again when it is touched. The start touches most of them, in pieces of
// 64 KB, and serving a small part. What cannot be read or unmapped stays as it is.
func unmapProgram() {
	for _, m := range programMappings() {
		_, _, _ = syscall.Syscall(syscall.SYS_MADVISE, m.from, m.to-m.from, syscall.MADV_DONTNEED)
	}
}

// mapping is a piece of the process's addresses.
type mapping struct{ from, to uintptr }

// programMappings are those of the program's file that are as they are in the file: unmapping their pages loses
// nothing. Others have been written, also some that nobody may write any more: a linker at the start fills in addresses
// and then protects them, and a debugger has its breakpoints in the code.
func programMappings() (found []mapping) {
	program, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return nil
	}
	file, err := os.Open("/proc/self/smaps")
	if err != nil {
		return nil
	}
	defer func() { _ = file.Close() }()
	var m mapping
	ofProgram := false
	for lines := bufio.NewScanner(file); lines.Scan(); {
		line := lines.Text()
		name, value, _ := strings.Cut(line, " ")
		if name == "Anonymous:" { // what differs from the file
			if ofProgram && strings.TrimSpace(value) == "0 kB" {
				found = append(found, m)
			}
			continue
		}
		if strings.HasSuffix(name, ":") {
			continue
		}
		// The first line of a mapping: from-to permissions offset device inode path; proc_pid_maps(5).
		low, high, _ := strings.Cut(name, "-")
		from, errFrom := strconv.ParseUint(low, 16, 64)
		to, errTo := strconv.ParseUint(high, 16, 64)
		m = mapping{uintptr(from), uintptr(to)}
		permissions, _, _ := strings.Cut(value, " ")
		ofProgram = errFrom == nil && errTo == nil && from < to && !strings.Contains(permissions, "w") &&
			strings.HasSuffix(line, " "+program)
	}
	return found
}
