// Package knowledge manages the data that agents and people search: knowledge bases and their documents. It also has
// the search itself.
//
// A document is a life cycle (package docstate) with its bytes; package ingest takes it through its stages. The results
// of a stage are in the blob store, named by the commit that ends the stage. The index is derived from them. The stored
// documents decide what search finds. Candidates of the index are dropped if no document names them, or if the asker
// may not read them.
//
// A rebuild makes everything in a base again, for another embedding model or other chunks. The base names the
// collection in force. Search accepts of each document only the build of that collection. So a document keeps two
// builds for a while, Ready and Next, and the end of a rebuild is one commit, on the base. That commit checks the
// counts of the base's documents: as many must have a Next as are found. Counts change in the same commits as the
// documents, so no document can become ready unnoticed in between. A document that becomes ready checks in its commit
// that the base is unchanged since it was read.
//
// Each document is rebuilt by an ingestion of its own, as for an edit of its title. So retries, failures and crashes
// need no code of their own. The job of the rebuild begins some documents at a time. So new documents get their turns,
// and no commit covers all documents.
//
// Afterwards another job moves Next to Ready and removes the previous collection. Nothing waits for it: readers see
// each document as it is in the collection in force ([catalog.Document.In]). The job also removes the data of a rebuild
// that was replaced, cancelled or has failed.
//
// It must not know HTTP, runs, formats of files or products. It imports catalog, record, tenant, docstate, document,
// the ports embedding, index and blob, words, ranking, egress, problem, host, trace and waiting.
//
// Errors are problems (see package problem). Every function that reads or writes may return a problem of kind
// Unavailable: the store cannot be reached, or its data kept changing. It returns errors of the blob store and of the
// index as they are. A function's comment names its other problems.
package knowledge

import (
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	textlanguage "golang.org/x/text/language"

	"agentplatform/internal/org/catalog"
	"agentplatform/internal/org/tenant"
	"agentplatform/internal/platform/host"
	"agentplatform/internal/platform/problem"
	"agentplatform/internal/store/queue"
	"agentplatform/internal/store/record"
	"agentplatform/internal/text/index"
)

// Knowledge is the use case. It is safe for concurrent use.
type Knowledge struct {
	Store     *record.Store
	Tenants   *tenant.Tenants
	Host      host.Host
	Index     index.Index
	Models    *Models
	Documents int // most documents of a base
	Ingesting int // most documents in ingestion of an organization, and of a user; 0: no limit
	// Poll is the interval at which a document is read for a caller of [Knowledge.Await]; 0: 100 ms.
	Poll time.Duration
	// IndexID names the index. An index that replaces a lost one has another id. Empty: it cannot be lost.
	IndexID string
	// Wake sends the message that wakes an ingester for a document. Without it the sweeper does.
	Wake func(ctx context.Context, m queue.Message)
	// CheckURL returns why a document may not come from an address, nil when it may.
	CheckURL func(url string) error
	// OnSearch is called with each search, its duration and its error; it may be nil.
	OnSearch func(found Found, took time.Duration, err error)
}

// Limits of clients' input, in characters unless stated otherwise.
const (
	MaxBases       = 1000 // of an organization
	MaxBytes       = 50 << 20
	MaxText        = 8 << 20 // bytes of a text in JSON
	perPiece       = catalog.ChunksOfPiece
	maxName        = 200
	maxDescription = 2000
	MaxTitle       = 300
	maxMetadata    = 20 // members
	maxValue       = 256
	maxNarrowing   = 20 // groups of a document
)

// Base reads a knowledge base that the principal may read. It returns a problem of kind NotFound or Forbidden
// (outside_organization, insufficient_permission).
func (k *Knowledge) Base(
	ctx context.Context, p tenant.Principal, id string,
) (record.Entity[catalog.KnowledgeBase], error) {
	e, err := record.Resource[catalog.KnowledgeBase](ctx, k.Store, p.Scope(), id)
	if err == nil {
		err = p.MayOpen("knowledge base", e.Value.GroupIDs)
	}
	return e, err
}

// Document reads a document of a base that the principal may read. It returns a problem of kind NotFound, also when the
// document is in another base, or Forbidden (outside_organization, insufficient_permission).
func (k *Knowledge) Document(
	ctx context.Context, p tenant.Principal, base, id string,
) (record.Entity[catalog.Document], error) {
	b, err := k.Base(ctx, p, base)
	if err != nil {
		return record.Entity[catalog.Document]{}, err
	}
	e, err := record.Resource[catalog.Document](ctx, k.Store, p.Scope(), id)
	if err == nil {
		err = mayOpen(p, b.Value, e.Value)
		e.Value = e.Value.In(b.Value.Collection)
	}
	return e, err
}

// mayOpen returns nil when the principal, who may read the base, may read a document of it.
func mayOpen(p tenant.Principal, b catalog.KnowledgeBase, d catalog.Document) error {
	if d.KnowledgeBase != b.ID {
		return problem.Missing("document " + d.ID)
	}
	return p.MayOpen("document", d.GroupIDs)
}

func (k *Knowledge) wake(ctx context.Context, d catalog.Document) {
	if k.Wake != nil {
		k.Wake(context.WithoutCancel(ctx), queue.OfDocument(d.ID, d.Organization, d.UserID, d.KnowledgeBase))
	}
}

// The names of counts: documents that search finds in a language, documents that a rebuild has made for a collection,
// and documents that it is making.
func ofLanguage(language string) string { return "language/" + language }
func built(collection string) string    { return "built/" + collection }
func building(collection string) string { return "building/" + collection }

// foundIn is how many documents search finds, by the counts of their base. Each has a language, perhaps an unknown one.
func foundIn(n map[string]int64) (sum int64) {
	for what, by := range n {
		if strings.HasPrefix(what, ofLanguage("")) {
			sum += by
		}
	}
	return sum
}

// Majority is the language of most documents that search finds in a base, of those whose language is known; empty:
// there is none yet.
func (k *Knowledge) Majority(ctx context.Context, base string) (string, error) {
	n, err := k.Store.Counts(ctx, catalog.DocumentsOf(base))
	most, majority := int64(0), ""
	for what, by := range n {
		language, is := strings.CutPrefix(what, ofLanguage(""))
		if is && language != "" && (by > most || by == most && by > 0 && language < majority) {
			most, majority = by, language
		}
	}
	return majority, err
}

// tally is what a document counts as.
func tally(d catalog.Document) map[string]int64 {
	n := map[string]int64{
		"documents": 1, string(d.Ingestion.Status): 1, "bytes": d.Size, "chunks": int64(d.Ready.Count),
	}
	if d.Ready.Number > 0 {
		n[ofLanguage(d.Ready.Analysed())] = 1
	}
	if d.Next.Number > 0 {
		n[built(d.Next.Collection)] = 1
	}
	if d.Ingestion.Active() && d.Work.Anew {
		n[building(d.Work.Collection)] = 1
	}
	return n
}

// Count adds the difference between two states of a document to the counts of its base. It does the same for the counts
// of documents in ingestion. nil stands for no document.
func Count(ctx context.Context, tx *record.Tx, before, after *catalog.Document) {
	d := cmp.Or(before, after)
	count := func(name string, of func(catalog.Document) map[string]int64) {
		add := map[string]int64{}
		if before != nil {
			for what, n := range of(*before) {
				add[what] -= n
			}
		}
		if after != nil {
			for what, n := range of(*after) {
				add[what] += n
			}
		}
		maps.DeleteFunc(add, func(_ string, n int64) bool { return n == 0 })
		if len(add) > 0 {
			tx.Count(ctx, d.Organization, name, d.ID, add)
		}
	}
	count(catalog.DocumentsOf(d.KnowledgeBase), tally)
	count(catalog.IngestingOf(d.Organization), catalog.Document.InIngestion)
}

// retryAtIngesting is the Retry-After where too many documents are in ingestion.
const retryAtIngesting = 10 * time.Second

// mayIngest refuses another ingestion of a document while too many are under way. Concurrent callers may all be
// admitted. An organization at its limit refuses only users who have a part in it, so that one user cannot stop all
// others. It returns a problem of kind Limited (share_exceeded).
func (k *Knowledge) mayIngest(ctx context.Context, d catalog.Document) error {
	if k.Ingesting == 0 || len(d.InIngestion()) > 0 { // it is one of them
		return nil
	}
	n, err := k.Store.Counts(ctx, catalog.IngestingOf(d.Organization))
	most := int64(k.Ingesting)
	scope, used := "organization", n[""]
	if n[d.UserID] >= most {
		scope, used = "user", n[d.UserID]
	}
	if err != nil || used < most || n[d.UserID] < max(1, most/100) {
		return err
	}
	p := problem.Exceeded("documents_in_ingestion", scope, most, used, "")
	p.RetryAfter = retryAtIngesting
	return p
}

func checkLength(field, text string, least, most int) error {
	if n := utf8.RuneCountInString(text); n < least || n > most {
		return problem.InvalidField(field, "must have %d to %d characters", least, most)
	}
	return nil
}

// Auto stands for the language that is detected from the text.
const Auto = "auto"

// spoken is a language as it is stored: empty for Auto. It returns a problem of kind Invalid for a text that is not a
// language.
func spoken(field, language string) (string, error) {
	if language == Auto {
		return "", nil
	}
	if code, err := textlanguage.ParseBase(language); err != nil || len(language) != 2 || code.String() != language {
		return "", problem.InvalidField(field, "must be auto or a code of ISO 639-1, like en")
	}
	return language, nil
}

var metadataName = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,64}$`)

// checkMetadata returns a problem of kind Invalid that names the member. It refuses invalid names, too many members,
// strings that are too long, and values that are neither string, number nor boolean.
func checkMetadata(field string, metadata map[string]json.RawMessage) error {
	if len(metadata) > maxMetadata {
		return problem.InvalidField(field, "must have at most %d members", maxMetadata)
	}
	for name, v := range metadata {
		if !metadataName.MatchString(name) {
			return problem.InvalidField(field, "names have 1 to 64 characters of A-Z, a-z, 0-9, _ . -")
		}
		var value any
		if err := json.Unmarshal(v, &value); err != nil {
			return problem.InvalidField(field+"."+name, "must be a string, a number or a boolean")
		}
		switch value := value.(type) {
		case bool, float64:
		case string:
			if utf8.RuneCountInString(value) > maxValue {
				return problem.InvalidField(field+"."+name, "must have at most %d characters", maxValue)
			}
		default:
			return problem.InvalidField(field+"."+name, "must be a string, a number or a boolean")
		}
	}
	return nil
}

// sorted returns ids in order, each once.
func sorted(ids []string) []string {
	return slices.Compact(slices.AppendSeq([]string{}, slices.Values(slices.Sorted(slices.Values(ids)))))
}

func (k *Knowledge) now() time.Time { return k.Host.Now() }
