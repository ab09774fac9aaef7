package catalog

import (
	"cmp"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"time"

	"agentplatform/internal/core/docstate"
)

// KnowledgeBase is a collection of documents that are searched together. Embedding, Chunking and Language are the
// settings that clients want. The present index was made with those of InForce.
type KnowledgeBase struct {
	ID           string         `json:"knowledge_base_id"`
	Organization string         `json:"organization_id"`
	Name         string         `json:"name"`
	Description  string         `json:"description"`
	Embedding    EmbeddingModel `json:"embedding_model"`
	Chunking     Chunking       `json:"chunking"`
	Language     string         `json:"language,omitzero"` // of its documents, as ISO 639-1; empty: it is detected
	GroupIDs     []string       `json:"group_ids"`         // whose members may read; none: the whole organization
	// Collection is the part of the index with the chunks that search finds.
	Collection string   `json:"collection"`
	Rebuild    *Rebuild `json:"rebuild,omitzero"` // nil: the wanted settings are in force
	// Index names the index that has all chunks of the base; any other index lacks some.
	Index     string    `json:"index,omitzero"`
	CreatedAt time.Time `json:"created_at"`
	UpdatedAt time.Time `json:"updated_at"`
}

// Settings are the settings with which the chunks of a collection are made.
type Settings struct {
	Embedding EmbeddingModel `json:"embedding_model"`
	Chunking  Chunking       `json:"chunking"`
	Language  string         `json:"language,omitzero"`
}

// Rebuild makes everything in a knowledge base again with the wanted settings, in another collection. A failed rebuild
// keeps the settings in force.
type Rebuild struct {
	Collection string    `json:"collection"` // also the id of the job
	InForce    Settings  `json:"in_force"`   // of the collection that search finds
	BegunAt    time.Time `json:"begun_at"`
	Error      string    `json:"error,omitzero"` // why it has failed, for a person; empty: it is under way
}

// Wanted are the settings that clients have requested.
func (b KnowledgeBase) Wanted() Settings { return Settings{b.Embedding, b.Chunking, b.Language} }

// InForce are the settings of the collection that search finds.
func (b KnowledgeBase) InForce() Settings {
	if b.Rebuild != nil {
		return b.Rebuild.InForce
	}
	return b.Wanted()
}

// Building is the collection of the rebuild under way; empty: there is none.
func (b KnowledgeBase) Building() string {
	if b.Rebuild == nil || b.Rebuild.Error != "" {
		return ""
	}
	return b.Rebuild.Collection
}

// SettingsOf are those of one of the base's collections; ok is false for any other.
func (b KnowledgeBase) SettingsOf(collection string) (s Settings, ok bool) {
	switch collection {
	case "":
		return s, false
	case b.Collection:
		return b.InForce(), true
	case b.Building():
		return b.Wanted(), true
	}
	return s, false
}

// Collections are those of which the index may have chunks.
func (b KnowledgeBase) Collections() []string {
	if b.Rebuild == nil {
		return []string{b.Collection}
	}
	return []string{b.Collection, b.Rebuild.Collection}
}

// Placed implements [record.Resourceful].
func (b KnowledgeBase) Placed() (string, string, string) {
	return "knowledge_base", b.ID, b.Organization
}

// EmbeddingModel names an embedding model, with the prefixes of the texts that are embedded. A base keeps the prefixes
// that the deployment had for the model when the model was named: its vectors were made with them.
type EmbeddingModel struct {
	Provider      string `json:"provider"`
	Name          string `json:"name"`
	Dimensions    int    `json:"dimensions"`
	QueryPrefix   string `json:"query_prefix,omitempty"`
	PassagePrefix string `json:"passage_prefix,omitempty"`
}

// FullName is how the model is named in the ledger and in prices.
func (m EmbeddingModel) FullName() string { return m.Provider + "/" + m.Name }

// Chunking sets how documents are cut, in words of text.
type Chunking struct {
	Size    int `json:"size"`
	Overlap int `json:"overlap"`
}

// The kinds of source that a document may have.
const (
	FromUpload = "upload"
	FromText   = "text"
	FromURL    = "url"
	FromFile   = "file"
)

// Source is the origin of a document.
type Source struct {
	Kind string `json:"kind"`
	Name string `json:"name,omitzero"`
	URL  string `json:"url,omitzero"`
	// The validators of the URL's server, for conditional requests.
	ETag     string `json:"etag,omitzero"`
	Modified string `json:"modified,omitzero"`
}

// Document is a document of a knowledge base. Its bytes, and the results of ingestion, are in the blob store.
type Document struct {
	ID            string                     `json:"document_id"`
	Organization  string                     `json:"organization_id"`
	KnowledgeBase string                     `json:"knowledge_base_id"`
	UserID        string                     `json:"user_id"`
	Title         string                     `json:"title"`
	Titled        bool                       `json:"titled,omitzero"` // a client gave the title
	Source        Source                     `json:"source"`
	ContentType   string                     `json:"content_type"`
	Size          int64                      `json:"size"`
	SHA256        string                     `json:"sha256"` // of the bytes, hex; empty: they have not been fetched yet
	Metadata      map[string]json.RawMessage `json:"metadata,omitzero"`
	Language      string                     `json:"language,omitzero"` // empty: that of the base, or of the text
	GroupIDs      []string                   `json:"group_ids"`         // narrows the base's
	Ingestion     docstate.State             `json:"ingestion"`
	Bytes         string                     `json:"bytes,omitzero"` // the blob key of what came in
	Work          Build                      `json:"work,omitzero"`  // what the present ingestion has made
	Ready         Build                      `json:"ready,omitzero"` // what search finds; none: nothing yet
	// Next is the build to search once the knowledge base has the build's collection: a rebuild has made it of Ready.
	Next Build `json:"next,omitzero"`
	// Content is the id of the reservation of the bytes, empty when another document has it.
	Content   string    `json:"content,omitzero"`
	CreatedAt time.Time `json:"created_at"`
	UpdatedAt time.Time `json:"updated_at"`
}

// Placed implements [record.Resourceful].
func (d Document) Placed() (string, string, string) { return "document", d.ID, d.Organization }

// Within implements [record.Inner].
func (d Document) Within() string { return d.KnowledgeBase }

// In is the document as it is when its knowledge base has a collection in force. After the end of a rebuild, Next
// counts as Ready, whether or not that is stored yet.
func (d Document) In(collection string) Document {
	if d.Next.Number > 0 && d.Next.Collection == collection {
		d.Ready, d.Next = d.Next, Build{}
		d.Ready.Anew = false
	}
	return d
}

// Shown is the language that clients see: that of the document, or of its text. It is empty until it is known.
func (d Document) Shown() string {
	b := d.Ready
	if b.Number == 0 {
		b = d.Work
	}
	return cmp.Or(d.Language, b.Analysed())
}

// DueAt implements [record.Active].
func (d Document) DueAt() time.Time {
	if d.Ingestion.CheckAt.After(d.Ingestion.Due) && d.Ingestion.Active() {
		return d.Ingestion.CheckAt
	}
	return d.Ingestion.Due
}

// InIngestion are the document's counts under [IngestingOf], nil if its ingestion is not under way.
func (d Document) InIngestion() map[string]int64 {
	if d.Ingestion.Active() && d.Ingestion.Counted {
		return map[string]int64{"": 1, d.UserID: 1}
	}
	return nil
}

// Build is the result of one ingestion of a document. Each value has a blob, or a prefix for several.
type Build struct {
	Number     int    `json:"number,omitzero"` // of the ingestion; 0: there is none
	Collection string `json:"collection,omitzero"`
	Dimensions int    `json:"dimensions,omitzero"`
	Text       string `json:"text,omitzero"`      // what was extracted, UTF-8; without a Structure, with it
	TextSize   int64  `json:"text_size,omitzero"` // in bytes
	Structure  string `json:"structure,omitzero"` // headings, pages; empty: of an earlier version
	Chunks     string `json:"chunks,omitzero"`    // in pieces of [ChunksOfPiece]
	Vectors    string `json:"vectors,omitzero"`   // of as many chunks
	Count      int    `json:"count,omitzero"`     // of chunks
	Language   string `json:"language,omitzero"`  // detected in the text; empty: unknown
	Unsure     bool   `json:"unsure,omitzero"`    // Language is uncertain
	// Words is the language in which the words were indexed; empty: of an earlier version, or not indexed yet.
	Words     string `json:"words,omitzero"`
	PageCount int    `json:"page_count,omitzero"`
	// Warnings are those of the extraction; an earlier version stored none.
	Warnings []Warning `json:"warnings,omitzero"`
	Anew     bool      `json:"anew,omitzero"` // a rebuild makes it, of what is ready
}

// Warning names the pages whose text is incomplete.
type Warning struct {
	Code  string `json:"code"`
	Pages []int  `json:"pages"` // the first of them
	Count int    `json:"count"` // of all such pages
}

// ChunksOfPiece is how many chunks, and how many vectors, a blob has.
const ChunksOfPiece = 64

// Content reserves bytes for a document of a knowledge base. So the same bytes are not ingested twice. It is written
// and deleted with its document.
type Content struct {
	ID           string `json:"content_id"`
	Organization string `json:"organization_id"`
	Document     string `json:"document_id"`
}

// Placed implements [record.Resourceful].
func (c Content) Placed() (string, string, string) { return "content", c.ID, c.Organization }

// Blobs are the keys of a build's blobs in the blob store.
func (b Build) Blobs() []string {
	keys := []string{b.Text, b.Structure, b.Chunks, b.Vectors}
	return slices.DeleteFunc(keys, func(key string) bool { return key == "" })
}

// Extracted is the extracted part of a build, for another build that need not extract.
func (b Build) Extracted() Build {
	return Build{
		Text: b.Text, TextSize: b.TextSize, Structure: b.Structure, Language: b.Language, Unsure: b.Unsure,
		PageCount: b.PageCount, Warnings: b.Warnings,
	}
}

// Analysed is the language of the words that the index has of the build. Before the index has them, it is the detected
// language of the text; empty: unknown.
func (b Build) Analysed() string { return cmp.Or(b.Words, b.Language) }

// Indexed is the position of a build in the index, as text without spaces: <collection>@<number>; empty when it has
// none.
func (b Build) Indexed() string {
	if b.Collection == "" {
		return ""
	}
	return b.Collection + "@" + strconv.Itoa(b.Number)
}

// ParseIndexed reads a result of [Build.Indexed]; ok is false for anything else.
func ParseIndexed(text string) (collection string, number int, ok bool) {
	collection, n, ok := strings.Cut(text, "@")
	number, err := strconv.Atoi(n)
	return collection, number, ok && err == nil
}

// BasesOf is the name under which an organization's knowledge bases are counted.
func BasesOf(organization string) string { return "knowledge-bases/" + organization }

// DocumentsOf is the name under which the documents of a knowledge base are counted.
func DocumentsOf(base string) string { return "documents/" + base }

// IngestingOf is the name of the counts of an organization's documents in ingestion. The empty member counts all, and
// each user's id those of the user.
func IngestingOf(organization string) string { return "ingesting/" + organization }
