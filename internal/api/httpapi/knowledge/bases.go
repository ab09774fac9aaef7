// Package knowledge is the area of the API for knowledge bases, their documents, and search.
//
// The use case internal/knowledge/knowledge has the rules of knowledge bases and of access to them. It imports the
// framework above it and no other area.
package knowledge

import (
	"cmp"
	"context"

	"agentplatform/events"
	"agentplatform/internal/api/httpapi"
	"agentplatform/internal/knowledge/knowledge"
	"agentplatform/internal/org/catalog"
	"agentplatform/internal/org/tenant"
	"agentplatform/internal/run/files"
	"agentplatform/internal/store/record"
)

// Config has the dependencies of the area.
type Config struct {
	Knowledge *knowledge.Knowledge
	Files     *files.Files
	Store     *record.Store // of the files' bytes
}

// answer is short for signatures.
type answer[T any] = httpapi.Answer[T]

type handlers struct {
	*httpapi.Server
	Config
}

// Routes adds the area's operations to a server.
func Routes(s *httpapi.Server, c Config) {
	h := &handlers{s, c}
	h.baseRoutes()
	h.documentRoutes()
	h.searchRoutes()
}

// routes has the common settings of the area's operations.
func (h *handlers) routes() httpapi.Routes {
	return httpapi.Routes{
		Server: h.Server, Tag: "knowledge", What: "knowledge base", Read: tenant.LevelRead, Write: tenant.LevelManage,
	}
}

func (h *handlers) baseRoutes() {
	r := h.routes()
	httpapi.Route(r, "POST /knowledge-bases", "create-knowledge-base",
		"Create a knowledge base", h.createBase, httpapi.Created, httpapi.Needs("name"))
	httpapi.Route(r, "GET /knowledge-bases", "list-knowledge-bases", "List knowledge bases", h.listBases)
	httpapi.Route(r, "GET /knowledge-bases/{id}", "read-knowledge-base", "Read a knowledge base", h.readBase)
	httpapi.Route(r, "PATCH /knowledge-bases/{id}", "edit-knowledge-base", "Change a knowledge base", h.editBase)
	httpapi.Route(r, "DELETE /knowledge-bases/{id}", "delete-knowledge-base",
		"Delete a knowledge base with its documents", h.deleteBase)
	httpapi.Route(r, "POST /knowledge-bases/{id}/reprocess", "reprocess-documents",
		"Ingest all failed documents again", h.reprocessFailed, httpapi.Accepted)
	httpapi.Route(r, "DELETE /knowledge-bases/{id}/rebuild", "cancel-rebuild",
		"Cancel a running or failed rebuild, and keep the settings in force", h.cancelRebuild)
}

type chunkingBody struct {
	Size    *int `json:"size,omitempty" minimum:"50" maximum:"1000" doc:"words of a chunk; 220 by default"`
	Overlap *int `json:"overlap,omitempty" minimum:"0" maximum:"499" doc:"words that a chunk shares with the previous chunk; less than half of size; 40 by default"`
}

type embeddingModelBody struct {
	Provider   string `json:"provider" required:"true" maxLength:"100"`
	Name       string `json:"name,omitempty" maxLength:"200"`
	Dimensions int    `json:"dimensions,omitempty" minimum:"64" maximum:"4096" doc:"the model's own by default"`
	// Prefixes are those of an answer that is sent back.
	QueryPrefix   *string `json:"query_prefix,omitempty" doc:"read-only. A model sent with the knowledge base's two prefixes keeps them; without them it takes those of the deployment"`
	PassagePrefix *string `json:"passage_prefix,omitempty" doc:"as query_prefix"`
}

type baseBody struct {
	Name        *string                  `json:"name,omitempty" minLength:"1" maxLength:"200"`
	Description httpapi.Nullable[string] `json:"description,omitzero" maxLength:"2000"`
	Embedding   *embeddingModelBody      `json:"embedding_model,omitempty" doc:"by default the first model of the deployment"`
	Chunking    *chunkingBody            `json:"chunking,omitempty"`
	Language    *string                  `json:"language,omitempty" pattern:"^(auto|[a-z]{2})$" doc:"the ISO 639-1 language of its documents; auto, the default: detected from each text"`
	GroupIDs    *[]string                `json:"group_ids,omitempty" doc:"groups whose members may read it; admins always may; empty: the whole organization"`
}

func (b baseBody) edit() knowledge.BaseEdit {
	e := knowledge.BaseEdit{Name: b.Name, Description: b.Description.Edit(), GroupIDs: b.GroupIDs,
		Language: b.Language}
	if b.Embedding != nil {
		e.Embedding = &catalog.EmbeddingModel{
			Provider: b.Embedding.Provider, Name: b.Embedding.Name, Dimensions: b.Embedding.Dimensions,
		}
		if query, passage := b.Embedding.QueryPrefix, b.Embedding.PassagePrefix; query != nil && passage != nil {
			read := *e.Embedding
			read.QueryPrefix, read.PassagePrefix = *query, *passage
			e.Read = &read
		}
	}
	if b.Chunking != nil {
		e.Size, e.Overlap = b.Chunking.Size, b.Chunking.Overlap
	}
	return e
}

type statusCounts struct {
	Pending    int64 `json:"pending"`
	Processing int64 `json:"processing"`
	Ready      int64 `json:"ready"`
	Failed     int64 `json:"failed"`
}

type embeddingModelView struct {
	Provider      string `json:"provider"`
	Name          string `json:"name"`
	Dimensions    int    `json:"dimensions"`
	QueryPrefix   string `json:"query_prefix" doc:"added before each query"`
	PassagePrefix string `json:"passage_prefix" doc:"added before each chunk"`
}

type chunkingView catalog.Chunking

type indexView struct {
	State    string       `json:"state" enum:"ready,rebuilding,failed" doc:"rebuilding: all documents are indexed again, after a change of settings or a lost index; failed: a change of settings failed"`
	Error    string       `json:"error,omitempty" doc:"the reason that the rebuild failed, and the next step"`
	Done     int64        `json:"done" doc:"documents"`
	Total    int64        `json:"total" doc:"searchable documents"`
	Settings settingsView `json:"settings" doc:"the settings in force; embedding_model, chunking and language of the knowledge base are the requested ones"`
}

type settingsView struct {
	Embedding embeddingModelView `json:"embedding_model"`
	Chunking  chunkingView       `json:"chunking"`
	Language  string             `json:"language"`
}

type baseView struct {
	KnowledgeBaseID string             `json:"knowledge_base_id"`
	OrganizationID  *string            `json:"organization_id"`
	Name            string             `json:"name"`
	Description     string             `json:"description"`
	Embedding       embeddingModelView `json:"embedding_model"`
	Chunking        chunkingView       `json:"chunking"`
	Language        string             `json:"language" doc:"auto, or the language of documents without their own"`
	GroupIDs        []string           `json:"group_ids"`
	DocumentCount   int64              `json:"document_count"`
	ChunkCount      int64              `json:"chunk_count"`
	Bytes           int64              `json:"bytes"`
	Documents       statusCounts       `json:"documents"`
	Index           indexView          `json:"index"`
	CreatedAt       string             `json:"created_at"`
	UpdatedAt       string             `json:"updated_at"`
}

func (h *handlers) viewBase(ctx context.Context, b catalog.KnowledgeBase) (baseView, error) {
	n, err := h.Knowledge.CountedIn(ctx, b.ID)
	if err != nil {
		return baseView{}, err
	}
	s, err := h.Knowledge.StateOf(ctx, b, n)
	return baseView{
		KnowledgeBaseID: b.ID, OrganizationID: httpapi.OptionalOwner(b.Organization), Name: b.Name,
		Description: b.Description, Embedding: embeddingModelView(b.Embedding), Chunking: chunkingView(b.Chunking),
		Language: cmp.Or(b.Language, knowledge.Auto),
		GroupIDs: append([]string{}, b.GroupIDs...), DocumentCount: n.Documents, ChunkCount: n.Chunks, Bytes: n.Bytes,
		Documents: statusCounts{n.Pending, n.Processing, n.Ready, n.Failed},
		Index: indexView{
			State: s.State, Error: s.Error, Done: s.Done, Total: s.Total,
			Settings: settingsView{
				embeddingModelView(s.Settings.Embedding), chunkingView(s.Settings.Chunking),
				cmp.Or(s.Settings.Language, knowledge.Auto),
			},
		},
		CreatedAt: events.Time(b.CreatedAt), UpdatedAt: events.Time(b.UpdatedAt),
	}, err
}

func (h *handlers) answerBase(
	ctx context.Context, e record.Entity[catalog.KnowledgeBase], err error,
) (*answer[baseView], error) {
	if err != nil {
		return nil, err
	}
	v, err := h.viewBase(ctx, e.Value)
	if err != nil {
		return nil, err
	}
	return httpapi.Versioned(e.Version(), v), nil
}

func (h *handlers) createBase(
	ctx context.Context, p tenant.Principal, in *struct{ Body baseBody },
) (*answer[baseView], error) {
	e, err := h.Knowledge.CreateBase(ctx, p, in.Body.edit())
	return h.answerBase(ctx, e, err)
}

type baseList struct {
	KnowledgeBases []baseView `json:"knowledge_bases"`
	NextCursor     *string    `json:"next_cursor"`
}

func (h *handlers) listBases(ctx context.Context, p tenant.Principal, in *httpapi.Paging) (*answer[baseList], error) {
	after, err := httpapi.DecodeCursor(in.Cursor)
	if err != nil {
		return nil, err
	}
	page, err := h.Knowledge.Bases(ctx, p, after, in.Limit)
	if err != nil {
		return nil, err
	}
	list := baseList{KnowledgeBases: []baseView{}, NextCursor: httpapi.EncodeCursor(page.Next)}
	for _, e := range page.Rows {
		v, err := h.viewBase(ctx, e.Value)
		if err != nil {
			return nil, err
		}
		list.KnowledgeBases = append(list.KnowledgeBases, v)
	}
	return httpapi.Body(list), nil
}

func (h *handlers) readBase(ctx context.Context, p tenant.Principal, in *httpapi.IDPath) (*answer[baseView], error) {
	e, err := h.Knowledge.Base(ctx, p, in.ID)
	return h.answerBase(ctx, e, err)
}

func (h *handlers) editBase(ctx context.Context, p tenant.Principal, in *struct {
	httpapi.IDPath
	httpapi.Match
	Body baseBody
}) (*answer[baseView], error) {
	e, err := h.Knowledge.EditBase(ctx, p, in.ID, in.Precondition(), in.Body.edit())
	if err == nil && e.Value.Building() != "" {
		h.Wake(ctx, events.WakeupJob, e.Value.Building(), e.Value.Organization)
	}
	return h.answerBase(ctx, e, err)
}

func (h *handlers) cancelRebuild(ctx context.Context, p tenant.Principal, in *httpapi.IDPath) (*struct{}, error) {
	return nil, h.Knowledge.CancelRebuild(ctx, p, in.ID)
}

func (h *handlers) deleteBase(ctx context.Context, p tenant.Principal, in *httpapi.IDPath) (*struct{}, error) {
	job, err := h.Knowledge.RemoveBase(ctx, p, in.ID)
	return h.Began(ctx, job, p.Organization, err)
}

type reprocessed struct {
	Count int `json:"count" doc:"documents that are ingested again"`
}

func (h *handlers) reprocessFailed(ctx context.Context, p tenant.Principal, in *struct {
	httpapi.IDPath
	Body struct {
		Status string `json:"status" required:"true" enum:"failed" doc:"the documents to ingest again"`
	}
}) (*answer[reprocessed], error) {
	n, err := h.Knowledge.ReprocessFailed(ctx, p, in.ID)
	return httpapi.Body(reprocessed{n}), err
}
