//go:build !race

package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"mime/multipart"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/text/extract/bombtest"
)

var bombRounds = flag.Int("bomb-rounds", 1, "rounds with and without bombs in TestHostileDocuments, at least")

// The target of the ratio of p99 is 1.5, docs/performance.md says what was measured. With other work on the same two
// cores ratios up to 11 were seen, as the p99 of one and the same load varies several times from round to round
// there. A run that waited for a document to be read would wait for seconds, hundreds of times as long as alone. Where
// a round says so, the median of three does, as what else the machine did may have come between the halves of one.
const (
	slowed    = 20.0
	disturbed = 3
)

// What the process may use beside its own memory: so many children read documents at once, each with so many MB.
const (
	childrenAtOnce = 2
	childLimit     = 512
)

// postedAtOnce are bombs of each format that has a parser, the heaviest among them.
var postedAtOnce = []string{
	"attributes.styles.docx", "circles.styles.docx", "text of 200 MB.docx", "deep.docx", "slides.pptx",
	"deep.slide.pptx", "columns.xlsx", "wide rows.xlsx", "a long spine.epub", "elements.chapter.epub", "cells.rtf",
	"an endless part.eml", "a header.eml", "fewer cells.csv", "tables.html", "values.json", "lists.md", "stars.md",
	"a table.pdf", "words.txt",
}

// mostSent is how many bytes of a bomb are sent: what is written to the disk for uploads delays the commits of runs,
// bombs or not, and bombs repeat themselves.
const mostSent = 4 << 20

// codesOfFailures are those that a failed document may have.
var codesOfFailures = []string{
	"unreadable", "empty", "encrypted", "too_large", "unsupported_type", "fetch_failed", "url_forbidden",
	"embedding_unavailable", "deadline", "internal",
}

// Twenty documents that are bombs, sent at once by four organizations: each ingestion ends, the process with its
// children stays within the memory of the proof, and another tenant's runs do not wait for the documents.
func TestHostileDocuments(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make hostile runs it")
	}
	files := map[string][]byte{}
	for _, name := range postedAtOnce {
		files[name] = bombtest.File(t, name)
		if !bytes.HasPrefix(files[name], []byte("PK")) { // else it would be no archive
			files[name] = files[name][:min(len(files[name]), mostSent)]
		}
	}
	require.Len(t, files, 20)
	var ratios []float64
	var most memoryUsed
	outcomes := map[string]int{}
	ratio := 0.0
	for len(ratios) < *bombRounds || ratio >= slowed && len(ratios) < disturbed {
		beside, runs := besideBombs(t, files, &most, outcomes)
		alone := alone(t, runs)
		ratios = append(ratios, float64(beside)/float64(alone))
		slices.Sort(ratios)
		ratio = ratios[len(ratios)/2]
		t.Logf("p99 of %d runs: %s alone, %s beside bombs", runs, alone, beside)
	}
	t.Logf("%d rounds of %d bombs: %v; at most %d MB in the process, %d MB in it and its children together, of which "+
		"there were at most %d; the median of the ratios of p99 is %.2f", len(ratios), len(files), outcomes,
		most.own>>10, most.together>>10, most.children, ratio)
	// A look takes a while: a child that ends meanwhile is counted beside the one that comes after it.
	assert.LessOrEqual(t, most.children, 2*childrenAtOnce)
	assert.LessOrEqual(t, most.together>>10, *hostileLimit+childrenAtOnce*childLimit, "MB")
	assert.Less(t, ratio, slowed)
}

// besideBombs is the p99 of a tenant's runs from the moment when all bombs were accepted until the last ingestion has
// ended, and how many runs there were. The uploads are requests like any other.
func besideBombs(
	t *testing.T, files map[string][]byte, most *memoryUsed, outcomes map[string]int,
) (took time.Duration, runs int64) {
	p, other := neighbours(t)
	defer p.stop()
	senders := make([]*program, 4)
	for i := range senders {
		senders[i], _ = p.organization(10)
	}
	end := p.watch(most)
	defer end()
	wait := send(senders, files)
	before := other.ran.Load()
	took = other.p99(func(ctx context.Context, stop func()) {
		defer stop()
		for _, outcome := range wait(ctx) {
			outcomes[outcome]++
		}
	})
	return took, other.ran.Load() - before
}

// alone is the p99 of as many runs of such a tenant.
func alone(t *testing.T, runs int64) time.Duration {
	p, other := neighbours(t)
	defer p.stop()
	return other.p99(other.messages(runs))
}

// neighbours starts a process of its own, as what one round leaves behind must not slow the next, and a tenant in it.
func neighbours(t *testing.T) (*program, *neighbour) {
	p := confined(built(t), *hostileLimit)
	p.start()
	tenant, agent := p.organization(100)
	n := &neighbour{program: tenant, agent: agent}
	n.p99(n.messages(200)) // the first runs are slower
	return p, n
}

// send has the organizations send all files at once, each to a base of its own. When all are accepted it returns a
// function that waits until every ingestion has ended, and says how each did.
func send(senders []*program, files map[string][]byte) (wait func(context.Context) []string) {
	var all sync.WaitGroup
	bases := make([]string, len(senders))
	for i, sender := range senders {
		bases[i] = fmt.Sprint(sender.make("/knowledge-bases", `{"name":"b"}`)["knowledge_base_id"])
	}
	paths := make([]string, len(postedAtOnce))
	for i, name := range postedAtOnce {
		all.Go(func() {
			to := i % len(senders)
			paths[i] = senders[to].sendDocument("/knowledge-bases/"+bases[to]+"/documents", name, files[name])
		})
	}
	all.Wait()
	return func(ctx context.Context) []string {
		outcomes := make([]string, len(paths))
		for i, path := range paths {
			outcomes[i] = senders[i%len(senders)].outcome(ctx, path)
		}
		return outcomes
	}
}

// sendDocument sends a document and returns its path.
func (p *program) sendDocument(documents, name string, data []byte) string {
	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	part, err := w.CreateFormFile("file", name)
	assert.NoError(p.t, err)
	_, _ = part.Write(data)
	_ = w.Close()
	status, d, err := p.call(p.t.Context(), http.MethodPost, documents, w.FormDataContentType(), &b)
	assert.NoError(p.t, err, name)
	assert.Equal(p.t, http.StatusCreated, status, "%s: %v", name, d)
	return fmt.Sprint(documents, "/", d["document_id"])
}

// outcome waits for the end of an ingestion: ready, or the code of its failure.
func (p *program) outcome(ctx context.Context, document string) string {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Minute)
	defer cancel()
	d := map[string]any{"status": "pending"}
	for d["status"] == "pending" || d["status"] == "processing" {
		var status int
		var err error
		status, d, err = p.call(ctx, http.MethodGet, document+"?wait_ms=5000", "", nil)
		if !assert.NoError(p.t, err, "every ingestion ends") || !assert.Equal(p.t, http.StatusOK, status, "%v", d) {
			return "lost"
		}
	}
	if d["status"] == "ready" {
		return "ready"
	}
	assert.Equal(p.t, "failed", d["status"], d)
	assert.Contains(p.t, codesOfFailures, d["error_code"], d)
	assert.NotEmpty(p.t, d["error"], d)
	return fmt.Sprint(d["error_code"])
}

// neighbour is another tenant: four people who send a message, read the answer, and send the next.
type neighbour struct {
	*program

	agent string
	ran   atomic.Int64
}

// messages goes on until so many more runs have ended.
func (n *neighbour) messages(count int64) func(context.Context, func()) {
	until := n.ran.Load() + count
	return func(ctx context.Context, stop func()) {
		defer stop()
		for n.ran.Load() < until && !n.t.Failed() {
			tick(ctx)
		}
	}
}

// memoryUsed is the most of each that was seen, memory in KB. It counts what is a process's alone (RssAnon): pages of
// the program and of mapped files are shared, and the kernel takes them back. Children are those that /proc lists of
// the process's threads, at every sample; where there is no /proc nothing is counted.
type memoryUsed struct{ own, together, children int }

// watch samples the memory of the process and its children until the returned function is called.
func (p *program) watch(most *memoryUsed) (end func()) {
	ctx, stop := context.WithCancel(p.t.Context())
	var watching sync.WaitGroup
	process := strconv.Itoa(p.command.Process.Pid)
	watching.Go(func() {
		for ; ctx.Err() == nil; tick(ctx) {
			children := childrenOf(process)
			own := anonymous(process)
			together := own
			for _, child := range children {
				together += anonymous(child)
			}
			most.own, most.together = max(most.own, own), max(most.together, together)
			most.children = max(most.children, len(children))
		}
	})
	return func() {
		stop()
		watching.Wait()
	}
}

// childrenOf are the ids of the processes that a process has started.
func childrenOf(process string) []string {
	tasks, _ := filepath.Glob("/proc/" + process + "/task/*/children")
	var all []string
	for _, task := range tasks {
		list, _ := os.ReadFile(task)
		all = append(all, strings.Fields(string(list))...)
	}
	return all
}

// anonymous is the memory in KB that is a process's alone; 0 of one that has ended.
func anonymous(process string) int {
	raw, _ := os.ReadFile("/proc/" + process + "/status")
	_, after, _ := strings.Cut(string(raw), "RssAnon:")
	kb, _ := strconv.Atoi(strings.TrimSpace(strings.SplitN(after, "kB", 2)[0]))
	return kb
}

// p99 is that of the tenant's runs while what goes on, until it says stop.
func (n *neighbour) p99(what func(ctx context.Context, stop func())) time.Duration {
	ctx, stop := context.WithCancel(n.t.Context())
	defer stop()
	var mu sync.Mutex
	var took []time.Duration
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for ctx.Err() == nil {
				began := time.Now()
				status, answer, err := n.post(context.WithoutCancel(ctx), "agent_id", n.agent, "message", "hello")
				if !assert.NoError(n.t, err) || !assert.Equal(n.t, http.StatusOK, status, "%v", answer) {
					return
				}
				mu.Lock()
				took = append(took, time.Since(began))
				mu.Unlock()
				n.ran.Add(1)
				tick(ctx)
			}
		})
	}
	what(n.t.Context(), stop)
	all.Wait()
	slices.Sort(took)
	return took[len(took)*99/100].Round(100 * time.Microsecond)
}
