//go:build integration

package local

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// Lambda ends a function that uses more memory than it has, and nothing does so here. So the peak of each process is
// recorded when its world ends. After all tests it is compared with the templates. Pages of the program are counted. A
// child that reads a file is not.

// peaks has the most memory that a process of a function had, in KB, by the function's logical name.
var peaks = struct {
	sync.Mutex

	most map[string]int
}{most: map[string]int{}}

// notePeaks records the peaks of the world's functions.
func (w world) notePeaks() {
	pids := map[string][]int{"ChatFunction": w.chat.pids()}
	for output := range w.outputs {
		if name, is := strings.CutSuffix(output, "FunctionName"); is {
			pids[name+"Function"] = append(pids[name+"Function"], w.processes(output)...)
		}
	}
	peaks.Lock()
	defer peaks.Unlock()
	for name, list := range pids {
		peaks.most[name] = max(peaks.most[name], 0) // it is one of them
		for _, pid := range list {
			peaks.most[name] = max(peaks.most[name], peak(pid))
		}
	}
}

// processes returns the process ids of one of a world's functions, by the output that names it.
func (d *deployment) processes(output string) (list []int) {
	files, _ := filepath.Glob("/proc/[0-9]*/environ") // the pattern is right
	for _, file := range files {
		environ, err := os.ReadFile(file)
		if err != nil || !strings.Contains(string(environ), "AWS_LAMBDA_FUNCTION_NAME="+d.outputs[output]+"\x00") {
			continue
		}
		if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file))); err == nil {
			list = append(list, pid)
		}
	}
	return list
}

// peak returns the most memory that a process has had, in KB; 0 if it has ended.
func peak(pid int) int {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(status), "VmHWM:")
	kb := 0
	_, _ = fmt.Sscan(rest, &kb)
	return kb
}

// memoryFile is the file in the assembly to which a run writes the peak of each function.
var memoryFile = filepath.Join(assembly, "memory.txt")

// within writes the peak of each function, and returns a status: 0 if no function had more memory than its template
// has. After a whole run each function must have a figure.
func within(whole bool) (status int) {
	raw, err := os.ReadFile(filepath.Join(assembly, "Service.template.json"))
	var template struct {
		Resources map[string]struct {
			Type       string
			Properties struct{ MemorySize int }
		}
	}
	if err = cmp.Or(err, json.Unmarshal(raw, &template)); err != nil {
		fmt.Println("memory:", err)
		return 1
	}
	peaks.Lock()
	defer peaks.Unlock()
	var figures strings.Builder
	for _, name := range slices.Sorted(maps.Keys(peaks.most)) {
		for id, r := range template.Resources {
			if r.Type != "AWS::Lambda::Function" || !strings.HasPrefix(id, name) {
				continue
			}
			fmt.Fprintf(&figures, "%s: %d MB at most, of %d\n", name, peaks.most[name]>>10, r.Properties.MemorySize)
			if peaks.most[name]>>10 > r.Properties.MemorySize {
				fmt.Printf("--- FAIL: %s had more memory than it has\n", name)
				status = 1
			}
		}
	}
	for name, most := range peaks.most {
		if whole && most == 0 {
			fmt.Printf("--- FAIL: no process of %s was there at the end of any world\n", name)
			status = 1
		}
	}
	if err := os.WriteFile(memoryFile, []byte(figures.String()), 0o600); err != nil {
		fmt.Println("memory:", err)
		return 1
	}
	return status
}
