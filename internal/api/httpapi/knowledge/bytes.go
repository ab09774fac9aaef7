package knowledge

import (
	"cmp"
	"context"
	"encoding/json"
	"io"
	"mime"
	"net/http"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"agentplatform/internal/api/httpapi"
	"agentplatform/internal/knowledge/knowledge"
	"agentplatform/internal/org/catalog"
	"agentplatform/internal/org/tenant"
	"agentplatform/internal/platform/host"
	"agentplatform/internal/platform/problem"
	"agentplatform/internal/store/record"
)

// Bounds of a form.
const (
	maxFiles = 20
	maxField = 64 << 10 // bytes of a part that is no file
)

// documentBody is a document as JSON: its text, a url, or a file that was uploaded before.
type documentBody struct {
	Title    string                     `json:"title,omitempty" maxLength:"300"`
	Text     *string                    `json:"text,omitempty"`
	URL      *string                    `json:"url,omitempty"`
	FileID   *string                    `json:"file_id,omitempty" doc:"of a file sent by POST /files, with purpose=document where it is larger than 20 MiB"`
	Language string                     `json:"language,omitempty" pattern:"^(auto|[a-z]{2})$" doc:"as ISO 639-1 has it; auto, the default: that of the base, or that the text tells"`
	Metadata map[string]json.RawMessage `json:"metadata,omitempty" shape:"string|number|boolean" doc:"at most 20 members: strings, numbers, booleans"`
	GroupIDs []string                   `json:"group_ids,omitempty" doc:"whose members may read it"`
}

// refusedView is a file of a form that became no document.
type refusedView struct {
	Name  string `json:"name"`
	Error struct {
		Code   string `json:"code"`
		Detail string `json:"detail"`
	} `json:"error"`
}

// documentsView is the answer to several files: for each its document, or why there is none.
type documentsView struct {
	Documents []any `json:"documents"`
}

// described are the operations as the document has them.
func described(s *httpapi.Server) []huma.Operation {
	of := func(kind string, schema *huma.Schema) map[string]*huma.MediaType {
		return map[string]*huma.MediaType{kind: {Schema: schema}}
	}
	text := func() *huma.Schema { return &huma.Schema{Type: "string"} }
	base := &huma.Param{Name: "id", In: "path", Required: true, Schema: text()}
	path := []*huma.Param{base, {Name: "document_id", In: "path", Required: true, Schema: text()}}
	one := httpapi.SchemaOf[documentView](s)
	several := &huma.Schema{Type: "object", Required: []string{"documents"}, Properties: map[string]*huma.Schema{
		"documents": {Type: "array", Items: &huma.Schema{OneOf: []*huma.Schema{one, httpapi.SchemaOf[refusedView](s)}}},
	}}
	sent := of("multipart/form-data", documentFields.Schema())
	sent["application/json"] = &huma.MediaType{Schema: httpapi.SchemaOf[documentBody](s)}
	return []huma.Operation{
		{
			Method: http.MethodPost, Path: documentsPath, OperationID: "create-documents", Tags: []string{"knowledge"},
			Summary:     "Add documents: files, a text, a url, or a file that was uploaded",
			Parameters:  []*huma.Param{base},
			Description: "Needs level `manage`. The same content for the same groups is one document.",
			RequestBody: &huma.RequestBody{Required: true, Content: sent},
			Responses: map[string]*huma.Response{
				"201": {
					Headers: map[string]*huma.Param{
						"ETag": {Schema: text(), Description: "Where the answer is one document"},
					},
					Description: "The document; of several files, for each its document or why there is none",
					Content:     of("application/json", &huma.Schema{OneOf: []*huma.Schema{one, several}}),
				},
				"200": {
					Description: "The document that has the same content", Content: of("application/json", one),
					Headers: map[string]*huma.Param{"ETag": {}},
				},
			},
		},
		{
			Method: http.MethodGet, Path: documentsPath + "/{document_id}/content",
			OperationID: "read-document-content",
			Tags:        []string{"knowledge"}, Summary: "The bytes that came in, as an attachment", Parameters: path,
			Description: "Needs level `read`.",
			Responses: map[string]*huma.Response{
				"200": {Description: "The bytes, with the type of the document", Content: httpapi.AnyBytes()},
				"307": httpapi.Elsewhere(),
			},
		},
		{
			Method: http.MethodGet, Path: documentsPath + "/{document_id}/text", OperationID: "read-document-text",
			Tags: []string{"knowledge"}, Summary: "The text that was extracted", Parameters: path,
			Description: "Needs level `read`.",
			Responses: map[string]*huma.Response{
				"200": {Description: "The text", Content: of("text/plain", text())},
				"307": httpapi.Elsewhere(),
			},
		},
	}
}

func (h *handlers) createDocuments(w http.ResponseWriter, r *http.Request, c *httpapi.Call) error {
	base := r.PathValue("id")
	if !host.ValidID(base) {
		return problem.Missing("knowledge base " + base)
	}
	if err := h.BoundBody(w, r); err != nil {
		return err
	}
	if kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type")); kind != "multipart/form-data" {
		return h.createOne(w, r, c, base)
	}
	return h.createFiles(w, r, c.Principal, base)
}

// createOne adds the document that a body of JSON is.
func (h *handlers) createOne(w http.ResponseWriter, r *http.Request, c *httpapi.Call, base string) error {
	p := c.Principal
	raw, err := h.Hold(w, r, c)
	if err != nil {
		return err
	}
	var body documentBody
	if err := httpapi.Decode("body", raw, &body); err != nil {
		return err
	}
	n := knowledge.NewDocument{
		Title: body.Title, Language: body.Language, Metadata: body.Metadata, GroupIDs: body.GroupIDs,
	}
	var bytes io.Reader
	absent := slices.DeleteFunc([]*string{body.Text, body.URL, body.FileID}, func(s *string) bool { return s != nil })
	switch {
	case len(absent) != 2:
		return problem.InvalidField("body", "must have one of text, url and file_id")
	case body.Text != nil:
		if len(*body.Text) > knowledge.MaxText {
			return problem.InvalidField("body.text", "must have at most %d MiB", knowledge.MaxText>>20)
		}
		n.Source, n.ContentType = catalog.Source{Kind: catalog.FromText}, "text/plain; charset=utf-8"
		bytes = strings.NewReader(*body.Text)
	case body.URL != nil:
		n.Source, n.ContentType = catalog.Source{Kind: catalog.FromURL, URL: *body.URL}, "application/octet-stream"
	default:
		content, err := h.file(r.Context(), p, *body.FileID, &n)
		if err != nil {
			return err
		}
		defer func() { _ = content.Close() }()
		bytes = content
	}
	b, err := h.Knowledge.Check(r.Context(), p, base, "body.", n)
	if err != nil {
		return err
	}
	var received *knowledge.Received
	if bytes != nil {
		if received, err = h.Knowledge.Receive(r.Context(), b, bytes); err != nil {
			return err
		}
		defer h.Knowledge.Discard(r.Context(), received)
	}
	e, duplicate, err := h.Knowledge.Add(r.Context(), p, b, n, received)
	if err != nil {
		return err
	}
	return writeOne(w, e, duplicate)
}

func writeOne(w http.ResponseWriter, e record.Entity[catalog.Document], duplicate bool) error {
	v, status := viewDocument(e.Value), http.StatusCreated
	tag, err := httpapi.TagOf(e.Version(), v)
	if err != nil {
		return err
	}
	if v.Duplicate = duplicate; duplicate {
		status = http.StatusOK
	}
	w.Header().Set("ETag", tag)
	return httpapi.WriteJSON(w, status, v)
}

// file opens a file that was uploaded before, for a document.
func (h *handlers) file(
	ctx context.Context, p tenant.Principal, id string, n *knowledge.NewDocument,
) (io.ReadCloser, error) {
	f, err := h.Files.File(ctx, p.Scope(), id)
	if err == nil {
		err = h.Tenants.MayReadFile(ctx, p, f)
	}
	if err == nil && !f.Uploaded {
		err = problem.New(problem.Invalid, "invalid_request", "file %s has not been uploaded yet", id)
	}
	if refused, is := problem.As(err); is && refused.Kind != problem.Unavailable {
		refused.Fields = []problem.Field{{Location: "body.file_id", Message: refused.Message}}
	}
	if err != nil {
		return nil, err
	}
	n.Source, n.ContentType = catalog.Source{Kind: catalog.FromFile, Name: f.Name}, f.ContentType
	return h.Store.OpenFile(ctx, p.Scope(), id)
}

// createFiles adds the documents that a form has. What is said of them may come after a file, so the documents are made
// when the form has ended.
func (h *handlers) createFiles(w http.ResponseWriter, r *http.Request, p tenant.Principal, base string) error {
	b, err := h.Knowledge.Base(r.Context(), p, base)
	if err != nil {
		return err
	}
	u := &upload{handlers: h, base: b.Value}
	defer func() {
		for _, f := range u.files {
			h.Knowledge.Discard(r.Context(), f.received)
		}
	}()
	if err := httpapi.ReadForm(r, documentFields, maxField, &u.said, func(part *httpapi.Part) error {
		return part.TakeFile(func(name, contentType string, content io.Reader) error {
			return u.file(r.Context(), name, contentType, content)
		})
	}); err != nil {
		return err
	}
	return u.answer(w, r, p)
}

// documentFields declares the form.
var documentFields = httpapi.Fields[knowledge.NewDocument]{
	{Name: "file", Required: true, List: true},
	{
		Name: "title", Most: maxField, Repeats: true,
		Read: func(n *knowledge.NewDocument, text string) error { n.Title = text; return nil },
	},
	{
		Name: "language", Most: maxField, Repeats: true,
		Read: func(n *knowledge.NewDocument, text string) error { n.Language = text; return nil },
	},
	{
		Name: "metadata", Most: maxField, Repeats: true,
		Read: func(n *knowledge.NewDocument, text string) error {
			if err := httpapi.CheckJSON("metadata", []byte(text)); err != nil {
				return err
			}
			return httpapi.Decode("metadata", []byte(text), &n.Metadata)
		},
	},
	{
		Name: "group_ids", Most: maxField, List: true,
		Read: func(n *knowledge.NewDocument, text string) error {
			for id := range strings.SplitSeq(text, ",") {
				if id = strings.TrimSpace(id); id != "" {
					n.GroupIDs = append(n.GroupIDs, id)
				}
			}
			return nil
		},
	},
}

// upload is a form with documents as it comes.
type upload struct {
	*handlers

	base  catalog.KnowledgeBase
	said  knowledge.NewDocument // of each of them
	files []sent
}

// sent is a file of the form, or why it cannot be a document.
type sent struct {
	name, contentType string
	received          *knowledge.Received
	refusal           *problem.Error
}

// file stores the bytes of a file. What is wrong with one file is said beside the others.
func (u *upload) file(ctx context.Context, name, contentType string, content io.Reader) error {
	if len(u.files) == maxFiles {
		return problem.InvalidField("file", "must be at most %d files", maxFiles)
	}
	if !record.IsMediaType(contentType) {
		contentType = "application/octet-stream"
	}
	f := sent{name: record.FileName(name), contentType: contentType}
	var err error
	f.received, err = u.Knowledge.Receive(ctx, u.base, content)
	if refused, is := problem.As(err); is && refused.Kind == problem.TooLarge {
		f.refusal = refused
		_, err = io.Copy(io.Discard, content) // to the next part
	}
	u.files = append(u.files, f)
	return err
}

// answer adds the documents, and answers.
func (u *upload) answer(w http.ResponseWriter, r *http.Request, p tenant.Principal) error {
	switch {
	case len(u.files) == 0:
		return problem.InvalidField("file", "is required")
	case len(u.files) == 1 && u.files[0].refusal != nil:
		return u.files[0].refusal
	}
	documents, made := []any{}, 0
	for _, f := range u.files {
		if f.refusal != nil {
			documents = append(documents, f.refused())
			continue
		}
		n := u.said
		n.Source, n.ContentType = catalog.Source{Kind: catalog.FromUpload, Name: f.name}, f.contentType
		b, err := u.Knowledge.Check(r.Context(), p, u.base.ID, "", n)
		if err != nil && made == 0 {
			return err
		}
		var e record.Entity[catalog.Document]
		var duplicate bool
		if err == nil {
			e, duplicate, err = u.Knowledge.Add(r.Context(), p, b, n, f.received)
		}
		if refused, is := problem.As(err); is && made > 0 { // what was added before stays
			f.refusal = refused
			documents = append(documents, f.refused())
			continue
		}
		if err != nil {
			return err
		}
		if len(u.files) == 1 {
			return writeOne(w, e, duplicate)
		}
		v := viewDocument(e.Value)
		v.Duplicate = duplicate
		documents, made = append(documents, v), made+1
	}
	if made == 0 {
		return problem.InvalidField("file", "none of the files is a document: %s", u.files[0].refusal.Message).
			With("documents", documents)
	}
	return httpapi.WriteJSON(w, http.StatusCreated, documentsView{documents})
}

func (f sent) refused() refusedView {
	v := refusedView{Name: f.name}
	v.Error.Code, v.Error.Detail = f.refusal.Code, f.refusal.Message
	return v
}

func documentPath(r *http.Request) (DocumentPath, error) {
	in := DocumentPath{httpapi.IDPath{ID: r.PathValue("id")}, r.PathValue("document_id")}
	return in, in.Check("knowledge base")
}

func (h *handlers) content(w http.ResponseWriter, r *http.Request, c *httpapi.Call) error {
	in, err := documentPath(r)
	if err != nil {
		return err
	}
	d, content, err := h.Knowledge.Content(r.Context(), c.Principal, in.ID, in.DocumentID, attached)
	if err != nil {
		return err
	}
	return httpapi.Content{
		URL: content.URL, Bytes: content.Bytes, Size: d.Size, Type: d.ContentType, Disposition: attached(d),
	}.Send(w, r)
}

// attached is the Content-Disposition of a document's bytes.
func attached(d catalog.Document) string {
	return mime.FormatMediaType("attachment", map[string]string{"filename": cmp.Or(d.Source.Name, "document")})
}

func (h *handlers) text(w http.ResponseWriter, r *http.Request, c *httpapi.Call) error {
	in, err := documentPath(r)
	if err != nil {
		return err
	}
	content, size, err := h.Knowledge.Text(r.Context(), c.Principal, in.ID, in.DocumentID)
	if err != nil {
		return err
	}
	return httpapi.Content{URL: content.URL, Bytes: content.Bytes, Size: size, Type: knowledge.TextType}.Send(w, r)
}
