package knowledge

import (
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"strconv"
	"time"

	"agentplatform/events"
	"agentplatform/internal/api/httpapi"
	"agentplatform/internal/core/docstate"
	"agentplatform/internal/core/lifecycle"
	"agentplatform/internal/knowledge/knowledge"
	"agentplatform/internal/org/catalog"
	"agentplatform/internal/org/tenant"
	"agentplatform/internal/platform/host"
	"agentplatform/internal/platform/problem"
	"agentplatform/internal/store/record"
	"agentplatform/internal/text/document"
)

const documentsPath = "/knowledge-bases/{id}/documents"

func (h *handlers) documentRoutes() {
	const one = documentsPath + "/{document_id}"
	r := h.routes()
	httpapi.Route(r, "GET "+documentsPath, "list-documents",
		"List a knowledge base's documents, newest first", h.listDocuments)
	httpapi.Route(r, "GET /documents", "list-all-documents",
		"List the documents of all knowledge bases, by knowledge base, newest first", h.listAllDocuments)
	httpapi.Route(r, "GET "+one, "read-document", "Read a document's description", h.readDocument)
	httpapi.Route(r, "PATCH "+one, "edit-document",
		"Change a document's title, language, metadata or groups", h.editDocument)
	httpapi.Route(r, "DELETE "+one, "delete-document",
		"Delete a document; after the response no search finds it", h.deleteDocument)
	httpapi.Route(r, "POST "+one+"/reprocess", "reprocess-document",
		"Ingest a document again; a url is fetched again", h.reprocess, httpapi.Accepted)
	httpapi.Route(r, "GET "+one+"/chunks", "list-chunks",
		"List a document's chunks, in the order of its text", h.listChunks)
	for _, o := range described(h.Server) {
		h.Describe(o)
	}
	h.Handle("POST", documentsPath, tenant.LevelManage, h.createDocuments)
	h.Handle("PUT", one+"/content", tenant.LevelManage, h.replaceContent)
	h.Handle("GET", one+"/content", tenant.LevelRead, h.content)
	h.Handle("GET", one+"/text", tenant.LevelRead, h.text)
}

// DocumentPath is the path of a document.
type DocumentPath struct {
	httpapi.IDPath
	DocumentID string `path:"document_id"`
}

// Check is [httpapi.IDPath.Check], also for the document.
func (in DocumentPath) Check(what string) error {
	if err := in.IDPath.Check(what); err != nil {
		return err
	}
	if !host.ValidID(in.DocumentID) {
		return problem.Missing("document " + in.DocumentID)
	}
	return nil
}

type sourceView struct {
	Kind string  `json:"kind" enum:"upload,text,url,file"`
	Name *string `json:"name,omitempty"`
	URL  *string `json:"url,omitempty"`
}

type progressView struct {
	Done  int `json:"done" doc:"chunks"`
	Total int `json:"total"`
}

type failureView struct {
	Stage     string `json:"stage" enum:"fetching,extracting,chunking,embedding,indexing"`
	ErrorCode string `json:"error_code" enum:"unreadable,empty,encrypted,too_large,unsupported_type,fetch_failed,url_forbidden,embedding_unavailable,deadline,internal"`
	Error     string `json:"error"`
	At        string `json:"at"`
}

type warningView struct {
	Code    string `json:"code" enum:"unmapped_glyphs,pages_without_text"`
	Message string `json:"message" doc:"the problem, and how a person can fix it"`
	Pages   []int  `json:"pages" doc:"the first 50 pages"`
	Count   int    `json:"count" doc:"the number of all such pages"`
}

// warningMessages has the message of each code.
var warningMessages = map[string]string{
	document.UnmappedGlyphs: "The fonts of these pages do not identify their characters, so text is missing or " +
		"wrong. Save the document again with its fonts embedded, or run text recognition (OCR).",
	document.PagesWithoutText: "These pages have images but no text; they may be scans. Run text " +
		"recognition (OCR) on the document.",
}

func viewWarnings(warnings []catalog.Warning) []warningView {
	views := make([]warningView, 0, len(warnings))
	for _, w := range warnings {
		views = append(views, warningView{w.Code, warningMessages[w.Code], w.Pages, w.Count})
	}
	return views
}

type documentView struct {
	DocumentID      string                        `json:"document_id"`
	KnowledgeBaseID string                        `json:"knowledge_base_id"`
	OrganizationID  *string                       `json:"organization_id"`
	Title           string                        `json:"title"`
	Source          sourceView                    `json:"source"`
	ContentType     string                        `json:"content_type"`
	Size            int64                         `json:"size" doc:"the original size in bytes"`
	SHA256          *string                       `json:"sha256" doc:"hex digest of the original bytes; null until a url has been fetched"`
	Status          string                        `json:"status" enum:"pending,processing,ready,failed"`
	Stage           *string                       `json:"stage" enum:"fetching,extracting,chunking,embedding,indexing,null" doc:"the present stage, or the failed one; null when the document is ready"`
	Progress        progressView                  `json:"progress"`
	Error           *string                       `json:"error" doc:"the problem, and how a person can fix it"`
	ErrorCode       *string                       `json:"error_code" enum:"unreadable,empty,encrypted,too_large,unsupported_type,fetch_failed,url_forbidden,embedding_unavailable,deadline,internal,null"`
	LastError       httpapi.Nullable[failureView] `json:"last_error" doc:"the reason that a new ingestion failed; search still finds the previous version"`
	Attempts        int                           `json:"attempts" doc:"attempts of the present stage"`
	Metadata        map[string]json.RawMessage    `json:"metadata" shape:"string|number|boolean" doc:"at most 20 members: strings, numbers, booleans"`
	GroupIDs        []string                      `json:"group_ids" doc:"groups whose members may read it, if they may read the knowledge base; empty: all who may"`
	Language        *string                       `json:"language" doc:"the ISO 639-1 language: as set on the document or its base, detected from the text, or the most common in its base; null: not known yet"`
	PageCount       *int                          `json:"page_count"`
	Warnings        []warningView                 `json:"warnings" doc:"missing parts of the text; empty if none are known, or if an earlier program version read the document"`
	ChunkCount      int                           `json:"chunk_count"`
	Version         int                           `json:"version" doc:"the number of times that it became ready"`
	Duplicate       bool                          `json:"duplicate,omitempty" doc:"true: this is an existing document with the same content"`
	CreatedAt       string                        `json:"created_at"`
	UpdatedAt       string                        `json:"updated_at"`
	ReadyAt         *string                       `json:"ready_at"`
}

func viewSource(s catalog.Source) sourceView {
	return sourceView{Kind: s.Kind, Name: httpapi.Optional(s.Name), URL: httpapi.Optional(s.URL)}
}

func viewMetadata(m map[string]json.RawMessage) map[string]json.RawMessage {
	if m == nil {
		return map[string]json.RawMessage{}
	}
	return m
}

func viewDocument(d catalog.Document) documentView {
	s, b := d.Ingestion, d.Ready
	if b.Number == 0 {
		b = d.Work
	}
	v := documentView{
		DocumentID: d.ID, KnowledgeBaseID: d.KnowledgeBase, OrganizationID: httpapi.OptionalOwner(d.Organization),
		Title: d.Title, Source: viewSource(d.Source), ContentType: d.ContentType, Size: d.Size,
		SHA256: httpapi.Optional(d.SHA256), Status: string(s.Status), Progress: progressView{s.Done, s.Total},
		Attempts: s.Attempts, Metadata: viewMetadata(d.Metadata), GroupIDs: append([]string{}, d.GroupIDs...),
		Language: httpapi.Optional(d.Shown()), ChunkCount: d.Ready.Count, Version: s.Version,
		CreatedAt: events.Time(d.CreatedAt), UpdatedAt: events.Time(d.UpdatedAt),
		ReadyAt: httpapi.OptionalTime(s.ReadyAt), PageCount: httpapi.Optional(b.PageCount),
		Warnings: viewWarnings(b.Warnings),
	}
	if s.Status == docstate.Ready {
		v.Progress, v.Attempts = progressView{b.Count, b.Count}, 0
	} else {
		v.Stage = httpapi.Optional(string(s.Stage))
	}
	switch f := s.Failure; {
	case f == nil:
	case s.Status == docstate.Failed:
		v.Error, v.ErrorCode = httpapi.Optional(f.Message), httpapi.Optional(codeOf(*f))
	default:
		v.LastError.Value = &failureView{string(f.Stage), codeOf(*f), f.Message, events.Time(f.At)}
	}
	return v
}

// codeOf is the code of a failure as clients know it.
func codeOf(f docstate.Failure) string {
	if f.Code == docstate.OverBudget {
		return string(docstate.EmbeddingUnavailable)
	}
	return string(f.Code)
}

var answerDocument = httpapi.Shows(viewDocument)

type documentList struct {
	Documents  []documentView `json:"documents"`
	NextCursor *string        `json:"next_cursor"`
}

// DocumentQuery is the query of a list of documents.
type DocumentQuery struct {
	httpapi.Paging
	Status string `query:"status" enum:"pending,processing,ready,failed"`
	Q      string `query:"q" maxLength:"300" doc:"a part of the title; case is ignored"`
}

func (q DocumentQuery) wanted() knowledge.Wanted {
	return knowledge.Wanted{Status: docstate.Status(q.Status), Title: q.Q}
}

func (h *handlers) listDocuments(ctx context.Context, p tenant.Principal, in *struct {
	httpapi.IDPath
	DocumentQuery
}) (*answer[documentList], error) {
	return documentsAnswer(in.DocumentQuery, func(after string) (record.Page[record.Entity[catalog.Document]], error) {
		return h.Knowledge.DocumentsOf(ctx, p, in.ID, in.wanted(), after, in.Limit)
	})
}

func (h *handlers) listAllDocuments(
	ctx context.Context, p tenant.Principal, in *DocumentQuery,
) (*answer[documentList], error) {
	return documentsAnswer(*in, func(after string) (record.Page[record.Entity[catalog.Document]], error) {
		return h.Knowledge.AllDocuments(ctx, p, in.wanted(), after, in.Limit)
	})
}

// documentsAnswer is a page of a list of documents.
func documentsAnswer(
	q DocumentQuery, read func(after string) (record.Page[record.Entity[catalog.Document]], error),
) (*answer[documentList], error) {
	after, err := httpapi.DecodeCursor(q.Cursor)
	if err != nil {
		return nil, err
	}
	page, err := read(after)
	if err != nil {
		return nil, err
	}
	return httpapi.Body(documentList{httpapi.Views(page.Rows, viewDocument), httpapi.EncodeCursor(page.Next)}), nil
}

func (h *handlers) readDocument(ctx context.Context, p tenant.Principal, in *struct {
	DocumentPath
	WaitMS int `query:"wait_ms" minimum:"0" maximum:"20000" doc:"wait at most this long for a change of status or stage"`
}) (*answer[documentView], error) {
	var e record.Entity[catalog.Document]
	if in.WaitMS == 0 {
		return answerDocument(h.Knowledge.Document(ctx, p, in.ID, in.DocumentID))
	}
	err := h.WhileAllowed(ctx, p, lifecycle.Whose{}, func(ctx context.Context) (err error) {
		e, err = h.Knowledge.Await(ctx, p, in.ID, in.DocumentID, time.Duration(in.WaitMS)*time.Millisecond)
		return err
	})
	return answerDocument(e, err)
}

func (h *handlers) editDocument(ctx context.Context, p tenant.Principal, in *struct {
	DocumentPath
	httpapi.Match
	Body struct {
		Title    *string                                      `json:"title,omitempty" minLength:"1" maxLength:"300"`
		Language *string                                      `json:"language,omitempty" pattern:"^(auto|[a-z]{2})$" doc:"an ISO 639-1 code; auto: the language of the base, or detected from the text. Sending the shown language changes nothing"`
		Metadata httpapi.Nullable[map[string]json.RawMessage] `json:"metadata,omitzero" shape:"string|number|boolean|null" doc:"merged with the present metadata: null removes a member"`
		GroupIDs *[]string                                    `json:"group_ids,omitempty"`
	}
}) (*answer[documentView], error) {
	edit := knowledge.DocumentEdit{Title: in.Body.Title, Language: in.Body.Language, GroupIDs: in.Body.GroupIDs}
	if patch := in.Body.Metadata; patch.Present {
		edit.Metadata = func(m map[string]json.RawMessage) (map[string]json.RawMessage, error) {
			return merged(m, patch.Value), nil
		}
	}
	return answerDocument(h.Knowledge.EditDocument(ctx, p, in.ID, in.DocumentID, in.Precondition(), edit))
}

// merged is metadata with a merge patch applied; a patch of nil removes all.
func merged(m map[string]json.RawMessage, patch *map[string]json.RawMessage) map[string]json.RawMessage {
	if patch == nil {
		return nil
	}
	m = maps.Clone(viewMetadata(m))
	maps.Copy(m, *patch)
	maps.DeleteFunc(m, func(_ string, v json.RawMessage) bool { return string(v) == "null" })
	return m
}

func (h *handlers) deleteDocument(ctx context.Context, p tenant.Principal, in *DocumentPath) (*struct{}, error) {
	job, err := h.Knowledge.RemoveDocument(ctx, p, in.ID, in.DocumentID)
	return h.Began(ctx, job, p.Organization, err)
}

func (h *handlers) reprocess(ctx context.Context, p tenant.Principal, in *DocumentPath) (*answer[documentView], error) {
	return answerDocument(h.Knowledge.Reprocess(ctx, p, in.ID, in.DocumentID))
}

type chunkView struct {
	Index    int     `json:"index"`
	Context  string  `json:"context" doc:"the headings and table headers above the text, one per line"`
	Text     string  `json:"text"`
	Start    int     `json:"start" doc:"position in the extracted text, in characters"`
	End      int     `json:"end"`
	PageFrom *int    `json:"page_from"`
	PageTo   *int    `json:"page_to"`
	Heading  *string `json:"heading"`
}

func viewChunk(c document.Chunk) chunkView {
	return chunkView{
		Index: c.Index, Context: c.Above(), Text: c.Text, Start: c.Start, End: c.End,
		PageFrom: httpapi.Optional(c.PageFrom), PageTo: httpapi.Optional(c.PageTo),
		Heading: httpapi.Optional(c.Heading),
	}
}

type chunkList struct {
	Chunks     []chunkView `json:"chunks"`
	NextCursor *string     `json:"next_cursor"`
}

func (h *handlers) listChunks(ctx context.Context, p tenant.Principal, in *struct {
	DocumentPath
	httpapi.Paging
}) (*answer[chunkList], error) {
	position, err := httpapi.DecodeCursor(in.Cursor)
	if err != nil {
		return nil, err
	}
	from, err := strconv.Atoi(cmp.Or(position, "0"))
	if err != nil || from < 0 {
		return nil, problem.InvalidField("query.cursor", "must be the cursor of a previous page")
	}
	chunks, more, err := h.Knowledge.Chunks(ctx, p, in.ID, in.DocumentID, from, in.Limit)
	if err != nil {
		return nil, err
	}
	list := chunkList{Chunks: httpapi.Each(chunks, viewChunk)}
	if more {
		list.NextCursor = httpapi.EncodeCursor(strconv.Itoa(from + len(chunks)))
	}
	return httpapi.Body(list), nil
}
