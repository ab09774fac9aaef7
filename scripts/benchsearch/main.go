// Command benchsearch measures the laptop's index: 100,000 chunks of 512 dimensions, with words and vectors that are
// distributed like those of texts and are the same each time.
//
// A child process builds the index and is killed (kill -9) while it writes; another opens it and asks. So opening and
// memory are those of a process that did nothing else. It prints a table and says which aims were met.
package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"agentplatform/internal/index"
	"agentplatform/internal/index/diskindex"
)

var (
	chunks  = flag.Int("chunks", 100_000, "how many chunks the index has")
	single  = flag.Int("documents", 10_000, "how many documents of one chunk each are put")
	seconds = flag.Duration("for", 8*time.Second, "how long each load lasts")
	part    = flag.String("part", "", "what a child does (for the program itself)")
	dir     = flag.String("dir", "", "the folder of a child")
	profile = flag.String("profile", "", "write a CPU profile of the queries to this file")
)

func main() {
	flag.Parse()
	log.SetFlags(0)
	parts := map[string]func() error{"": run, "build": build, "ask": ask}
	if err := parts[*part](); err != nil {
		log.Fatal(err)
	}
}

func run() error {
	folder, err := os.MkdirTemp("", "benchsearch")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(folder) }()
	if err := killed(folder); err != nil {
		return err
	}
	size, err := folderSize(folder)
	if err != nil {
		return err
	}
	row("disk", size/1e6, "MB", 0)
	asking := child(folder, "ask")
	asking.Stdout = os.Stdout
	if err := asking.Run(); err != nil {
		return err
	}
	return recall(folder)
}

func child(folder, part string) *exec.Cmd {
	c := exec.Command(os.Args[0], "-part", part, "-dir", folder, "-chunks", strconv.Itoa(*chunks),
		"-documents", strconv.Itoa(*single), "-for", seconds.String(), "-profile", *profile)
	c.Stderr = os.Stderr
	return c
}

// killed has a child build the index, and kills it while it goes on writing.
func killed(folder string) error {
	c := child(folder, "build")
	out, err := c.StdoutPipe()
	if err != nil {
		return err
	}
	if err := c.Start(); err != nil {
		return err
	}
	writes := false
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if writes = lines.Text() == stillWriting; writes {
			break
		}
		fmt.Println(lines.Text())
	}
	err = c.Process.Kill()
	_ = c.Wait() // it was killed
	if !writes {
		return errors.New("the child ended before it was killed")
	}
	return err
}

const stillWriting = "writes until it is killed"

// build is the first child.
func build() error {
	x, err := diskindex.Open(*dir, diskindex.Options{})
	if err != nil {
		return err
	}
	c := newCorpus()
	start := time.Now()
	if err := putAll(x, c, collection, *chunks/each, each); err != nil {
		return err
	}
	row("building", time.Since(start).Seconds(), "s", 0)
	start = time.Now()
	if err := putAll(x, c, "small", *single, 1); err != nil {
		return err
	}
	row("documents of one chunk, 4 writers", float64(*single)/time.Since(start).Seconds(), "/s", -200)
	for i := 0; ; i++ {
		v := index.Version{Collection: collection, Document: "more", Number: i}
		if err := x.Put(context.Background(), v, dimensions, c.document(0, 10)); err != nil {
			return err
		}
		if err := x.Remove(context.Background(), v); err != nil {
			return err
		}
		if i == 3 {
			fmt.Println(stillWriting)
		}
	}
}

// putAll puts documents, by four writers.
func putAll(x index.Index, c *corpus, collection string, documents, chunks int) error {
	var next atomic.Int64
	var group sync.WaitGroup
	failed := make([]error, 4)
	for writer := range failed {
		group.Go(func() {
			for i := int(next.Add(1)) - 1; i < documents && failed[writer] == nil; i = int(next.Add(1)) - 1 {
				v := index.Version{Collection: collection, Document: strconv.Itoa(i), Number: 1}
				failed[writer] = x.Put(context.Background(), v, dimensions, c.document(i, chunks))
			}
		})
	}
	group.Wait()
	return errors.Join(failed...)
}

// recall compares the best by vector with those of an exact scan.
func recall(folder string) error {
	const k, queries = 10, 100
	x, err := diskindex.Open(folder, diskindex.Options{})
	if err != nil {
		return err
	}
	c, r := newCorpus(), rand.New(rand.NewPCG(9, 9))
	asked := make([]index.Query, queries)
	exact := make([][]scored, queries)
	for i := range asked {
		asked[i] = c.query(r, *chunks, false)
		asked[i].Terms, asked[i].Limit = nil, k
	}
	for n := range *chunks {
		v := c.vector(n)
		for i, q := range asked {
			exact[i] = keep(exact[i], scored{n, dot(v, q.Vector)}, k)
		}
	}
	for _, limit := range []int{k, 5 * k} {
		found := 0
		for i, q := range asked {
			q.Limit = limit
			result, err := x.Query(context.Background(), q)
			if err != nil {
				return err
			}
			found += common(exact[i], result.Candidates)
		}
		row(fmt.Sprintf("recall@10 of vectors, %d candidates", limit), float64(found)/(k*queries), "", -0.98)
	}
	return x.Close()
}

// common is how many of the exact ones are candidates.
func common(exact []scored, candidates []index.Candidate) int {
	n := 0
	for _, c := range candidates {
		document, err := strconv.Atoi(c.Document)
		if err == nil && slices.ContainsFunc(exact, func(s scored) bool { return s.number == document*each+c.Index }) {
			n++
		}
	}
	return n
}

type scored struct {
	number int
	score  float32
}

// keep adds to the k best.
func keep(best []scored, s scored, k int) []scored {
	i := len(best)
	for i > 0 && best[i-1].score < s.score {
		i--
	}
	if i == k {
		return best
	}
	best = slices.Insert(best, i, s)
	return best[:min(k, len(best))]
}

func folderSize(folder string) (float64, error) {
	sum := int64(0)
	err := filepath.Walk(folder, func(_ string, info os.FileInfo, err error) error {
		if err == nil && !info.IsDir() {
			sum += info.Size()
		}
		return err
	})
	return float64(sum), err
}

// row prints a figure. The aim is at most that; a negative one: at least; 0: there is none.
func row(what string, value float64, unit string, aim float64) {
	line := fmt.Sprintf("%-45s %10.3f %-5s", what, value, unit)
	switch {
	case aim > 0 && value <= aim:
		line += fmt.Sprintf("met (at most %g)", aim)
	case aim > 0:
		line += fmt.Sprintf("NOT met (at most %g)", aim)
	case aim < 0 && value >= -aim:
		line += fmt.Sprintf("met (at least %g)", -aim)
	case aim < 0:
		line += fmt.Sprintf("NOT met (at least %g)", -aim)
	}
	fmt.Println(strings.TrimRight(line, " "))
}

// cpu is the time that this process has had of the processors.
func cpu() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
