package sim

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"agentplatform/internal/core/docstate"
	"agentplatform/internal/knowledge/knowledge"
	"agentplatform/internal/org/catalog"
	"agentplatform/internal/org/tenant"
	"agentplatform/internal/platform/problem"
	"agentplatform/internal/store/blob"
	"agentplatform/internal/store/record"
	"agentplatform/internal/store/table"
	"agentplatform/internal/text/index"
)

// documentChecker observes documents: their stored items, the calls of embedding models, and the results of searches.
type documentChecker struct {
	*library

	now      map[string]catalog.Document
	bases    map[string]catalog.KnowledgeBase
	past     map[string]history[catalog.Document]
	basePast map[string]history[catalog.KnowledgeBase]
	words    map[string]string                  // the subject of a text, by its key in the blob store
	handled  map[*actor]string                  // the document that a worker was woken for
	holders  map[string]string                  // the worker that claimed a document last
	indexed  map[index.Version]map[int]struct{} // the chunks that were put
	batches  map[*actor]batch                   // a worker's last batch
	recorded map[string]bool                    // batches of embeddings, by their first text
	tally    map[string]int                     // of events, for the report
}

// batch is the content of an embedding request, and the tokens to charge for it.
type batch struct {
	document, name string
	tokens         int64 // not charged yet
}

// history has the earlier and present values of a thing, in order.
type history[T any] []moment[T]

type moment[T any] struct {
	step  int // of the world, from which on it was so
	there bool
	value T
}

// since returns the moments that lasted to a step, or came later.
func (h history[T]) since(step int) history[T] {
	for i := len(h) - 1; i >= 0; i-- {
		if h[i].step <= step {
			return h[i:]
		}
	}
	return h
}

func newDocumentChecker(l *library) *documentChecker {
	return &documentChecker{
		library: l, now: map[string]catalog.Document{}, bases: map[string]catalog.KnowledgeBase{},
		past: map[string]history[catalog.Document]{}, basePast: map[string]history[catalog.KnowledgeBase]{},
		words: map[string]string{}, handled: map[*actor]string{}, holders: map[string]string{},
		indexed: map[index.Version]map[int]struct{}{}, batches: map[*actor]batch{}, recorded: map[string]bool{},
		tally: map[string]int{},
	}
}

func (c *documentChecker) violated(invariant int, format string, args ...any) {
	c.checker.violated(invariant, format, args...)
}

// committed records a commit's changes of documents and bases, and checks them. charged has the entries of the ledger
// that the commit made.
func (c *documentChecker) committed(ops []table.Op, charged []record.Entry) {
	for _, e := range charged {
		c.charged(e)
	}
	counted := map[string]bool{}
	for _, op := range ops {
		kind, id, _ := strings.Cut(op.Item.Part, "/")
		switch {
		case kind == "document" && op.Item.Sort == "head":
			counted[c.now[id].KnowledgeBase] = true
			c.document(id)
			counted[c.now[id].KnowledgeBase] = true
		case kind == "knowledge_base" && op.Item.Sort == "head":
			c.base(id)
		case kind == "count":
			counted[strings.TrimPrefix(id, "documents/")] = true
		}
	}
	for _, base := range sortedKeys(counted) {
		c.counts(base)
	}
}

func (c *documentChecker) base(id string) {
	e, err := record.Resource[catalog.KnowledgeBase](context.Background(), c.checker.store(), record.System(), id)
	there := err == nil
	if !there {
		delete(c.bases, id)
	} else {
		if before, known := c.bases[id]; known && before.Collection != e.Value.Collection {
			c.switched(before, e.Value)
		}
		c.bases[id] = e.Value
	}
	c.basePast[id] = append(c.basePast[id], moment[catalog.KnowledgeBase]{c.steps, there, e.Value})
}

// switched checks that a collection that comes into force has all documents that were found.
func (c *documentChecker) switched(before, after catalog.KnowledgeBase) {
	c.tally["rebuilt"]++
	for _, id := range sortedKeys(c.now) {
		d := c.now[id].In(before.Collection)
		if d.KnowledgeBase == after.ID && d.Ready.Number > 0 && d.Next.Collection != after.Collection {
			c.violated(27, "base %s has another collection, in which document %s is not", after.ID, id)
		}
	}
}

func (c *documentChecker) document(id string) {
	e, err := record.Resource[catalog.Document](context.Background(), c.checker.store(), record.System(), id)
	if problem.Is(err, "not_found") {
		if _, known := c.now[id]; known {
			c.tally["deleted"]++
			delete(c.now, id)
			c.past[id] = append(c.past[id], moment[catalog.Document]{step: c.steps})
		}
		return
	}
	must(err)
	before, d := c.now[id], e.Value
	c.logf("document %s: %+v, ready %s, next %s, work %s", id, d.Ingestion, d.Ready.Indexed(), d.Next.Indexed(),
		d.Work.Indexed())
	c.now[id] = d
	c.past[id] = append(c.past[id], moment[catalog.Document]{c.steps, true, d})
	c.moved(id, before.Ingestion, d.Ingestion)
	c.replaced(before, d)
	if d.Work.Text != "" && c.words[d.Work.Text] == "" {
		c.words[d.Work.Text] = wordOf(c.textOf(d.Work.Text))
	}
	for _, b := range []catalog.Build{d.Ready, d.Next} {
		if b.Number != before.Ready.Number && b.Number != before.Next.Number {
			c.whole(id, b)
		}
	}
	c.batchRecorded(before, d)
}

// replaced checks that bytes, and the searchable build, stay until something newer replaces them. A text that becomes
// ready must be that of the bytes. Other bytes must have another reservation (Content).
func (c *documentChecker) replaced(before, d catalog.Document) {
	if before.Ready.Number > 0 && d.Ready.Number == 0 {
		c.violated(27, "document %s was found, and is not any more", d.ID)
	}
	if before.Bytes != "" && d.Bytes == "" {
		c.violated(20, "document %s had bytes, and has none any more", d.ID)
	}
	if d.Ready.Text != before.Ready.Text && c.textOf(d.Ready.Text) != c.textOf(d.Bytes) {
		c.violated(27, "document %s is ready with another text than that of its bytes", d.ID)
	}
	if before.SHA256 == "" || d.SHA256 == before.SHA256 {
		return
	}
	c.tally["replaced"]++
	if d.Content != "" && d.Content == before.Content {
		c.violated(28, "document %s has other bytes, and the reservation of those before", d.ID)
	}
}

// textOf reads a text that was extracted or sent.
func (c *documentChecker) textOf(key string) string {
	b, err := blob.GetBytes(context.Background(), c.blobs, key)
	if err != nil {
		c.violated(27, "the text %s is named, and is not there", key)
	}
	return string(b)
}

// moved checks a change of an ingestion. An unfinished ingestion must be due. Only its holder may continue it. Attempts
// are bounded.
func (c *documentChecker) moved(id string, before, s docstate.State) {
	if _, due := c.checker.due[table.Key{Part: "document/" + id, Sort: "head"}]; due != s.Active() {
		c.violated(23, "document %s is %s, and due: %v", id, s.Status, due)
	}
	if unfinished := s.Status == docstate.Pending || s.Status == docstate.Processing; unfinished && !s.Active() {
		c.violated(23, "document %s is %s, and nobody will go on with it", id, s.Status)
	}
	if s.Attempts > docstate.MaxAttempts {
		c.violated(23, "stage %s of document %s is tried for the %dth time", s.Stage, id, s.Attempts)
	}
	if s.Build < before.Build || s.Version < before.Version {
		c.violated(23, "document %s went back from %+v to %+v", id, before, s)
	}
	if s.Build != before.Build { // it was started again
		c.tally["ingestions"]++
		delete(c.holders, id)
		return
	}
	if before.Active() && !s.Active() && s.Failure != nil {
		c.tally["ended: "+string(s.Failure.Code)]++
		if c.rate == 0 && s.Failure.Code != docstate.Empty {
			c.violated(23, "document %s has failed, and nothing else has: %+v", id, s.Failure)
		}
	} else if before.Active() && !s.Active() {
		c.tally["ended: ready"]++
	}
	if !before.Active() && s.Active() {
		c.violated(23, "the ingestion %d of document %s had ended, and goes on", s.Build, id)
	}
	claimed := s.Lease.Claim != before.Lease.Claim && s.Lease.Claim != ""
	switch holder, late := c.holders[id], !before.Lease.Until.After(c.world.now.Add(c.skew)); {
	case claimed && before.Lease.Claim != "" && !late:
		c.violated(24, "document %s is claimed by %s, and %s holds it", id, c.awake.name, holder)
	case claimed:
		c.holders[id] = c.awake.name
	case s.Stage == before.Stage && s.Done == before.Done && s.Attempts == before.Attempts &&
		s.Status == before.Status && s.Lease == before.Lease: // an edit, or the sweeper
	case before.Lease.Claim == "" && s.Failure == nil:
		c.violated(24, "%s goes on with document %s, which nobody holds", c.awake.name, id)
	case before.Lease.Claim != "" && !strings.HasPrefix(c.awake.name, holder) && !late:
		c.violated(24, "%s goes on with document %s, and %s holds it", c.awake.name, id, holder)
	}
	if began := before.Begun; claimed && !began.IsZero() &&
		c.world.now.Sub(began) > ingestDeadline+c.skew+3*lease+time.Minute {
		c.violated(23, "document %s is gone on with %s after it was begun", id, c.world.now.Sub(began))
	}
}

// whole checks that a searchable build is complete.
func (c *documentChecker) whole(id string, b catalog.Build) {
	if b.Number == 0 {
		return
	}
	v := index.Version{Collection: b.Collection, Document: id, Number: b.Number}
	if n := len(c.indexed[v]); n != b.Count {
		c.violated(27, "build %d of document %s is to be found with %d chunks, and the index has %d", b.Number, id,
			b.Count, n)
	}
	for _, key := range blobsOf(b) {
		if _, err := c.blobs.Get(context.Background(), key); err != nil {
			c.violated(27, "build %d of document %s is to be found without %s", b.Number, id, key)
		}
	}
}

// blobsOf returns the keys of a build in the blob store.
func blobsOf(b catalog.Build) []string {
	if b.Number == 0 {
		return nil
	}
	keys := []string{b.Text, b.Structure}
	for n := 0; n*catalog.ChunksOfPiece < b.Count; n++ {
		keys = append(keys, fmt.Sprintf("%s%06d", b.Chunks, n), fmt.Sprintf("%s%06d", b.Vectors, n))
	}
	return keys
}

// put records the chunks in the index.
func (c *documentChecker) put(v index.Version, chunks []index.Chunk) {
	if c.indexed[v] == nil {
		c.indexed[v] = map[int]struct{}{}
	}
	for _, chunk := range chunks {
		c.indexed[v][chunk.Index] = struct{}{}
	}
}

// checkEmbedding checks a request to an embedding model. The holder of a document may not request a batch that is
// recorded.
func (c *documentChecker) checkEmbedding(texts []string) {
	id := c.handled[c.awake]
	d, there := c.now[id]
	first := texts[0][strings.LastIndex(texts[0], "\n")+1:] // behind the title, which may be changed meanwhile
	b := batch{document: id, name: fmt.Sprintf("%s of build %d, for %s", first, d.Work.Number, d.Work.Vectors)}
	c.batches[c.awake] = b
	if there && c.holders[id] == c.awake.name && d.Ingestion.Lease.Claim != "" && c.recorded[b.name] {
		c.violated(25, "document %s has the embeddings of %s, and a model is asked for them again", id, b.name)
	}
}

// answered records the cost of a response, in tokens.
func (c *documentChecker) answered(tokens int64) {
	b := c.batches[c.awake]
	b.tokens = tokens
	c.batches[c.awake] = b
}

// charged checks that an entry of the ledger is for the last answer of a model, and records that it was charged.
func (c *documentChecker) charged(e record.Entry) {
	if e.Kind != record.OfIngestion {
		return
	}
	b := c.batches[c.awake]
	if b.document != e.DocumentID || b.tokens != e.InputTokens {
		c.violated(26, "document %s is charged %d tokens, and %d were to be charged for %s", e.DocumentID,
			e.InputTokens, b.tokens, b.document)
	}
	b.tokens = 0
	c.batches[c.awake] = b
}

// batchRecorded records that a document has the embeddings of a batch, which must have been charged.
func (c *documentChecker) batchRecorded(before, d catalog.Document) {
	was, is := before.Ingestion, d.Ingestion
	if was.Stage != docstate.Embedding || was.Build != is.Build || c.handled[c.awake] != d.ID ||
		is.Stage == was.Stage && is.Done <= was.Done || is.Stage != was.Stage && is.Stage != docstate.Indexing {
		return
	}
	b := c.batches[c.awake]
	c.recorded[b.name] = true
	c.tally["batches"]++
	if b.tokens != 0 {
		c.violated(26, "document %s has the embeddings of %s, and %d tokens were not charged", d.ID, b.name, b.tokens)
	}
}

// counts checks that the counts of a base are those of its documents.
func (c *documentChecker) counts(base string) {
	if b, there := c.bases[base]; !there || c.closed[b.Organization] {
		return
	}
	want := map[string]int64{}
	for _, d := range c.now {
		if d.KnowledgeBase == base {
			want["documents"]++
			want["bytes"] += d.Size
			want["chunks"] += int64(d.Ready.Count)
			want[string(d.Ingestion.Status)]++
		}
	}
	n, err := c.checker.store().Counts(context.Background(), catalog.DocumentsOf(base))
	must(err)
	for _, what := range []string{"documents", "bytes", "chunks", "pending", "processing", "ready", "failed"} {
		if n[what] != want[what] {
			c.violated(28, "base %s has %d %s, and counts %d", base, want[what], what, n[what])
		}
	}
	c.ingesting(c.bases[base].Organization)
}

// ingesting checks the counts of an organization's documents in ingestion.
func (c *documentChecker) ingesting(organization string) {
	want := map[string]int64{}
	for _, d := range c.now {
		if d.Organization == organization {
			for what, n := range d.InIngestion() {
				want[what] += n
			}
		}
	}
	n, err := c.checker.store().Counts(context.Background(), catalog.IngestingOf(organization))
	must(err)
	if !maps.Equal(n, want) {
		c.violated(28, "organization %s has %v in ingestion, and counts %v", organization, want, n)
	}
}

// accepted checks that a document in a client's response exists, or has existed.
func (c *documentChecker) accepted(id string) {
	if len(c.past[id]) == 0 {
		c.violated(23, "document %s was accepted, and is not there", id)
	}
}

// took checks that a document had the bytes that a client gave it, at some time since a step.
func (c *documentChecker) took(step int, id, text string) {
	sum := sha256.Sum256([]byte(text))
	if !slices.ContainsFunc(c.past[id].since(step), func(m moment[catalog.Document]) bool {
		return m.there && m.value.SHA256 == hex.EncodeToString(sum[:])
	}) {
		c.violated(24, "document %s has taken other bytes, and never had them", id)
	}
}

// removed checks that a deleted thing does not exist any more. A client has received the response to its deletion.
func (c *documentChecker) removed(id string) {
	_, document := c.now[id]
	_, base := c.bases[id]
	if document || base {
		c.violated(24, "%s was deleted, and is there", id)
	}
}

// wordOf returns a word by which a search finds a document. For a document that cannot be found it returns a word that
// no document has.
func (c *documentChecker) wordOf(id string) string {
	d := c.now[id]
	if word := c.words[d.In(c.bases[d.KnowledgeBase].Collection).Ready.Text]; word != "" {
		return word
	}
	return "nowhere"
}

// groups returns the restrictions of a base and of a document since a step. certain is false if they have changed.
func (c *documentChecker) groups(base, document string, step int) (groups [][]string, certain bool) {
	list := func(of []string) bool {
		groups = append(groups, of)
		return true
	}
	if h := c.basePast[base].since(step); base != "" {
		if len(h) != 1 || !h[0].there {
			return nil, false
		}
		list(h[0].value.GroupIDs)
	}
	if document == "" {
		return groups, true
	}
	h := c.past[document].since(step)
	for _, m := range h {
		if !m.there || !slices.Equal(m.value.GroupIDs, h[0].value.GroupIDs) {
			return nil, false
		}
	}
	return groups, len(h) > 0 && list(h[0].value.GroupIDs)
}

// searched is a search and its answer.
type searched struct {
	step  int       // at which it began
	began time.Time // the earliest time of the rights that may apply
	text  text      // of the asker's key
	found knowledge.Found
}

// found checks that each hit is of a document that the user might read, with its content at some time during the
// search.
func (c *documentChecker) found(asker *client, s searched) {
	c.tally["searches"]++
	c.tally["hits"] += len(s.found.Hits)
	for _, h := range s.found.Hits {
		id := h.Document.ID
		past := slices.DeleteFunc(slices.Clone(c.past[id].since(s.step)), func(m moment[catalog.Document]) bool {
			return !m.there
		})
		base := slices.DeleteFunc(slices.Clone(c.basePast[h.Document.KnowledgeBase].since(s.step)),
			func(m moment[catalog.KnowledgeBase]) bool { return !m.there })
		if len(past) == 0 || len(base) == 0 {
			c.violated(24, "document %s was found, and had been deleted", id)
			continue
		}
		ready, may := false, false
		for _, b := range base {
			for _, m := range past {
				r := m.value.In(b.value.Collection).Ready
				ready = ready || r.Number == h.Document.Ready.Number && r.Collection == b.value.Collection
				may = may || c.mayRead(asker, s, b.value, m.value)
			}
		}
		switch word := c.words[h.Document.Ready.Text]; {
		case !ready:
			c.violated(24, "build %d of document %s was found, and is not ready", h.Document.Ready.Number, id)
		case !may:
			c.violated(22, "user %s has found document %s, which it may not read", asker.who.User, id)
		case !strings.Contains(h.Chunk.Text, word+" is here"):
			c.violated(24, "document %s is about %s, and was found with %q", id, word, h.Chunk.Text)
		}
	}
}

// mayRead reports whether the user may have had the right to an earlier state of a document.
func (c *documentChecker) mayRead(asker *client, s searched, b catalog.KnowledgeBase, d catalog.Document) bool {
	if d.Organization != asker.who.Organization {
		return false
	}
	if c.powers == nil {
		return true
	}
	n := need{level: tenant.LevelRead, groups: [][]string{b.GroupIDs, d.GroupIDs}}
	allowed, certain := c.powers.certain(d.Organization, s.text, n, s.began)
	return allowed || !certain
}

// missed checks that a search found a document by its word, if it existed and was readable all the time. It returns
// true if hits of other documents with the word fill the page.
func (c *documentChecker) missed(asker *client, s searched, id, word string) bool {
	past := c.past[id].since(s.step)
	if len(past) == 0 || !past[0].there || word == "nowhere" || c.left[asker.who.User] {
		return false
	}
	d := past[0].value
	base := c.basePast[d.KnowledgeBase].since(s.step)
	for _, b := range base {
		for _, m := range past {
			is := m.value.In(b.value.Collection).Ready
			if !b.there || !m.there || c.words[is.Text] != word || is.Collection != b.value.Collection {
				return false
			}
			n := need{level: tenant.LevelRead, groups: [][]string{b.value.GroupIDs, m.value.GroupIDs}}
			if c.powers == nil {
				continue
			}
			if may, certain := c.powers.certain(d.Organization, s.text, n, s.began); !certain || !may {
				return false
			}
		}
	}
	c.tally["searches that had to find"]++
	others := 0 // hits of other documents about the word
	for _, h := range s.found.Hits {
		if h.Document.ID == id {
			return false
		}
		if c.words[h.Document.Ready.Text] == word {
			others++
		}
	}
	if others < mostHits {
		c.violated(24, "document %s is there, and was not found by %q", id, word)
		return false
	}
	c.tally["searches full of others"]++
	return true
}

// final checks the state after everything has settled. Nothing is in progress. Index and blob store have everything
// that the documents name, and nothing else.
func (c *documentChecker) final() {
	want, blobs := map[index.Version]bool{}, map[string]bool{}
	for _, id := range sortedKeys(c.now) {
		d := c.now[id]
		b, there := c.bases[d.KnowledgeBase]
		if d.Ingestion.Active() || d.Work.Number != 0 || d.Next.Number != 0 {
			c.violated(23, "document %s is not at rest: %+v", id, d)
		}
		if !there {
			c.violated(28, "document %s is of base %s, which is not there", id, d.KnowledgeBase)
		}
		if d.Ready.Number > 0 {
			want[index.Version{Collection: b.Collection, Document: id, Number: d.Ready.Number}] = true
		}
		if d.Ready.Number > 0 && d.Ingestion.Failure == nil && c.textOf(d.Ready.Text) != c.textOf(d.Bytes) {
			c.violated(27, "document %s has other bytes than search finds of it, and none of them has failed", id)
		}
		for _, key := range append(blobsOf(d.Ready), d.Bytes) {
			blobs[key] = key != ""
		}
	}
	for _, id := range sortedKeys(c.bases) {
		if c.bases[id].Building() != "" {
			c.violated(23, "the rebuild of base %s does not end", id)
		}
		c.counts(id)
	}
	has := map[index.Version]bool{}
	for _, v := range c.index.Versions() {
		has[v] = true
		if !want[v] {
			c.violated(27, "the index has %+v, which no document names", v)
		}
	}
	if !maps.Equal(want, has) {
		c.violated(27, "the index has %v, and documents name %v", has, want)
	}
	for _, key := range c.blobs.Keys() {
		delete(blobs, key)
	}
	for _, key := range sortedKeys(blobs) {
		if blobs[key] {
			c.violated(20, "a document names %s, which is not there", key)
		}
	}
}

// owns reports whether a document names a value of the blob store.
func (c *documentChecker) owns(key string) bool {
	d, there := c.now[strings.Split(key, "/")[1]]
	return there && (key == d.Bytes || slices.Contains(blobsOf(d.Ready), key))
}
