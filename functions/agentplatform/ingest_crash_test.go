package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// ingestedAtOnce is the number of documents that are sent, and mostly under way, before each kill.
const ingestedAtOnce = 200

// The real process is killed in the middle of many ingestions, several times. Each accepted document becomes ready,
// each of its chunks is found once, and the counts of its base agree.
func TestKillNineWhileIngesting(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make test runs it")
	}
	p := built(t)
	p.start()
	l := &library{program: p, accepted: map[string]string{}}
	l.base = p.make("/knowledge-bases", `{"name":"b","chunking":{"size":50,"overlap":5}}`)["knowledge_base_id"].(string)
	for round := range *rounds {
		var wg sync.WaitGroup
		sent := make(chan int, ingestedAtOnce)
		for n := range ingestedAtOnce {
			sent <- n
		}
		close(sent)
		for range 8 {
			wg.Go(func() {
				for n := range sent {
					l.add(fmt.Sprintf("r%dn%d", round, n))
				}
			})
		}
		// The random moment of the kill is the point of this test.
		<-time.After(time.Duration(50+rand.IntN(700)) * time.Millisecond)
		p.kill()
		wg.Wait()
		p.start()
		t.Logf("round %d: %d documents accepted so far, %v", round, len(l.accepted), l.counts())
	}
	l.settle()
	p.stop()
}

// library is the clients' knowledge of a base.
type library struct {
	*program
	base string

	mu       sync.Mutex
	accepted map[string]string // a word that only this document has -> its id
}

// add sends a document of several chunks. If the answer is lost, the client does not know of the document.
func (l *library) add(word string) {
	text := strings.Repeat("The lantern is lit at dusk and put out at dawn by the keeper, "+word+" says. ", 40)
	status, v, err := l.call(context.WithoutCancel(l.t.Context()), "POST", "/knowledge-bases/"+l.base+"/documents",
		"application/json", strings.NewReader(fmt.Sprintf(`{"title":%q,"text":%q}`, word, text)))
	if err != nil {
		return // the process was killed
	}
	assert.Contains(l.t, []int{200, 201}, status, v)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.accepted[word], _ = v["document_id"].(string)
}

func (l *library) counts() map[string]any {
	_, v, err := l.call(l.t.Context(), "GET", "/knowledge-bases/"+l.base, "", nil)
	require.NoError(l.t, err)
	return v["documents"].(map[string]any)
}

// settle waits until every ingestion has ended and checks the search results.
func (l *library) settle() {
	require.NotEmpty(l.t, l.accepted)
	ctx, cancel := context.WithTimeout(l.t.Context(), 5*time.Minute)
	defer cancel()
	for n := l.counts(); n["pending"] != 0.0 || n["processing"] != 0.0; n = l.counts() {
		require.NoError(l.t, ctx.Err(), "an ingestion always ends: %v", n)
		tick(ctx)
	}
	documents, chunks := map[string]int{}, 0.0
	for cursor := ""; ; {
		_, v, err := l.call(ctx, "GET", "/knowledge-bases/"+l.base+"/documents?limit=100"+cursor, "", nil)
		require.NoError(l.t, err)
		for _, d := range v["documents"].([]any) {
			d := d.(map[string]any)
			assert.Equal(l.t, "ready", d["status"], d)
			documents[d["document_id"].(string)]++
			chunks += d["chunk_count"].(float64)
			l.foundOnce(ctx, d["document_id"].(string), int(d["chunk_count"].(float64)))
		}
		if v["next_cursor"] == nil {
			break
		}
		cursor = "&cursor=" + v["next_cursor"].(string)
	}
	for word, id := range l.accepted {
		assert.Equal(l.t, 1, documents[id], "document %s was accepted, and is there once", word)
	}
	_, base, err := l.call(ctx, "GET", "/knowledge-bases/"+l.base, "", nil)
	require.NoError(l.t, err)
	assert.InDelta(l.t, len(documents), base["document_count"], 0)
	assert.InDelta(l.t, chunks, base["chunk_count"], 0)
}

// foundOnce checks that a search finds each chunk of a document once.
func (l *library) foundOnce(ctx context.Context, id string, chunks int) {
	body := fmt.Sprintf(`{"query":"lantern","mode":"keyword","limit":50,"filter":{"document_ids":[%q]}}`, id)
	status, v, err := l.call(ctx, "POST", "/search", "application/json", strings.NewReader(body))
	require.NoError(l.t, err)
	require.Equal(l.t, 200, status, v)
	found := map[float64]int{}
	for _, hit := range v["hits"].([]any) {
		found[hit.(map[string]any)["chunk"].(map[string]any)["index"].(float64)]++
	}
	assert.Len(l.t, found, chunks, id)
	for index, times := range found {
		assert.Equal(l.t, 1, times, "chunk %v of document %s", index, id)
	}
}
