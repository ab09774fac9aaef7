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

// The target of the ratio of p99 is 1.5; docs/performance.md has the measured values. With other work on the same two
// cores, ratios up to 11 were seen: there the p99 of the same load varies several times between rounds. A run that
// waited for a document to be read would wait for seconds, hundreds of times as long as alone. After a round over the
// bound, the median of three rounds counts, because other work of the machine may have come between the halves of one.
const (
	slowed    = 20.0
	disturbed = 3
)

// The bounds besides the process's own memory: the number of children that read documents in parallel, and the MB of
// each.
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

// mostSent is the number of bytes of a bomb that are sent. Any upload that is written to the disk delays the commits of
// runs, and bombs repeat their content.
const mostSent = 4 << 20

// codesOfFailures are the possible codes of a failed document.
var codesOfFailures = []string{
	"unreadable", "empty", "encrypted", "too_large", "unsupported_type", "fetch_failed", "url_forbidden",
	"embedding_unavailable", "deadline", "internal",
}

// Four organizations send twenty bombs at the same time. Each ingestion ends, and the process with its children stays
// within the memory of the proof. Another tenant's runs do not wait for the documents.
func TestHostileDocuments(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make hostile runs it")
	}
	files := map[string][]byte{}
	for _, name := range postedAtOnce {
		files[name] = bombtest.File(t, name)
		if !bytes.HasPrefix(files[name], []byte("PK")) { // a part of an archive is not an archive
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
	// A sample takes some time: a child that ends during it is counted together with the next one.
	assert.LessOrEqual(t, most.children, 2*childrenAtOnce)
	assert.LessOrEqual(t, most.together>>10, *hostileLimit+childrenAtOnce*childLimit, "MB")
	assert.Less(t, ratio, slowed)
}

// besideBombs is the p99 of a tenant's runs from the moment when all bombs were accepted until the last ingestion has
// ended, and the number of these runs. The uploads are ordinary requests.
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

// alone is the p99 of this number of runs of such a tenant.
func alone(t *testing.T, runs int64) time.Duration {
	p, other := neighbours(t)
	defer p.stop()
	return other.p99(other.messages(runs))
}

// neighbours starts a separate process with a tenant, as the remains of one round must not slow the next.
func neighbours(t *testing.T) (*program, *neighbour) {
	p := confined(built(t), *hostileLimit)
	p.start()
	tenant, agent := p.organization(100)
	n := &neighbour{program: tenant, agent: agent}
	n.p99(n.messages(200)) // the first runs are slower
	return p, n
}

// send makes the organizations send all files at the same time, each to its own base. When all are accepted, it returns
// a function that waits until every ingestion has ended and returns the result of each.
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

// neighbour is another tenant: four users who send a message, read the answer, and send the next.
type neighbour struct {
	*program

	agent string
	ran   atomic.Int64
}

// messages continues until count more runs have ended.
func (n *neighbour) messages(count int64) func(context.Context, func()) {
	until := n.ran.Load() + count
	return func(ctx context.Context, stop func()) {
		defer stop()
		for n.ran.Load() < until && !n.t.Failed() {
			tick(ctx)
		}
	}
}

// memoryUsed is the peak of each value, memory in KB. It counts the private memory of a process (RssAnon): pages of the
// program and of mapped files are shared, and the kernel can free them. Children are those that /proc lists of the
// process's threads, at every sample. Without /proc nothing is counted.
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

// anonymous is the private memory of a process in KB; 0 if it has ended.
func anonymous(process string) int {
	raw, _ := os.ReadFile("/proc/" + process + "/status")
	_, after, _ := strings.Cut(string(raw), "RssAnon:")
	kb, _ := strconv.Atoi(strings.TrimSpace(strings.SplitN(after, "kB", 2)[0]))
	return kb
}

// p99 is that of the tenant's runs while what runs, until what calls stop.
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
