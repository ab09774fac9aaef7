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
	maxField = 64 << 10 // bytes of a part that is not a file
)

// ContentBody is the content of a document as JSON: its text, a url, or a file that was uploaded before. It is
// exported: the OpenAPI document would lack the members of an embedded type that is not.
type ContentBody struct {
	Text   *string `json:"text,omitempty"`
	URL    *string `json:"url,omitempty"`
	FileID *string `json:"file_id,omitempty" doc:"the id of a file from POST /files; above 20 MiB it needs purpose=document"`
}

// replacementBody is the new content of a document, without other members.
type replacementBody struct {
	_ struct{} `json:"-" additionalProperties:"false"`
	ContentBody
}

// documentBody is a document as JSON.
type documentBody struct {
	ContentBody
	Title    string                     `json:"title,omitempty" maxLength:"300"`
	Language string                     `json:"language,omitempty" pattern:"^(auto|[a-z]{2})$" doc:"an ISO 639-1 code; auto, the default: the language of the base, or detected from the text"`
	Metadata map[string]json.RawMessage `json:"metadata,omitempty" shape:"string|number|boolean" doc:"at most 20 members: strings, numbers, booleans"`
	GroupIDs []string                   `json:"group_ids,omitempty" doc:"groups whose members may read it"`
}

// refusedView is a file of a form that became no document.
type refusedView struct {
	Name  string `json:"name"`
	Error struct {
		Code   string `json:"code"`
		Detail string `json:"detail"`
	} `json:"error"`
}

// documentsView is the answer to several files: for each its document, or the reason why there is none.
type documentsView struct {
	Documents []any `json:"documents"`
}

// described are the operations as the document has them.
func described(s *httpapi.Server) []huma.Operation {
	one := httpapi.SchemaOf[documentView](s)
	several := &huma.Schema{Type: "object", Required: []string{"documents"}, Properties: map[string]*huma.Schema{
		"documents": {Type: "array", Items: &huma.Schema{OneOf: []*huma.Schema{one, httpapi.SchemaOf[refusedView](s)}}},
	}}
	return []huma.Operation{
		{
			Method: http.MethodPost, Path: documentsPath, OperationID: "create-documents", Tags: []string{"knowledge"},
			Summary:     "Add documents: files, a text, a url, or a file that was uploaded",
			Parameters:  []*huma.Param{inPath("id")},
			Description: "Needs level `manage`. Identical content for the same groups is one document.",
			RequestBody: sentAs(documentFields.Schema(), httpapi.SchemaOf[documentBody](s)),
			Responses: map[string]*huma.Response{
				"201": answeredBy("The document; for several files, the document or the error of each",
					"Present if the response is one document", &huma.Schema{OneOf: []*huma.Schema{one, several}}),
				"200": answeredBy("The existing document with the same content", "", one),
			},
		},
		{
			Method: http.MethodPut, Path: documentsPath + "/{document_id}/content",
			OperationID: "replace-document-content", Tags: []string{"knowledge"},
			Summary: "Replace a document's content by one file, a text, a url, or a file that was uploaded",
			Parameters: []*huma.Param{inPath("id"), inPath("document_id"), {
				Name: "If-Match", In: "header", Schema: text(),
				Description: "Apply only if the resource still has this ETag",
			}},
			Description: "Needs level `manage`. Search finds the old text until the new one is ready. " +
				"Until then its hits show the new source. The content of a url is fetched later. " +
				"After a failure the old text stays, with `last_error`.",
			RequestBody: sentAs(contentFields.Schema(), httpapi.SchemaOf[replacementBody](s)),
			Responses: map[string]*huma.Response{
				"202": answeredBy("The document, which is ingested again", "", one),
				"200": answeredBy("The document, which already had this content", "", one),
			},
		},
		reads("read-document-content", "/content", "The original bytes, as an attachment",
			httpapi.AnyBytes()),
		reads("read-document-text", "/text", "The extracted text",
			map[string]*huma.MediaType{"text/plain": {Schema: text()}}),
	}
}

func text() *huma.Schema { return &huma.Schema{Type: "string"} }

func inPath(name string) *huma.Param {
	return &huma.Param{Name: name, In: "path", Required: true, Schema: text()}
}

// sentAs is a body that is a form or JSON.
func sentAs(form, body *huma.Schema) *huma.RequestBody {
	return &huma.RequestBody{Required: true, Content: map[string]*huma.MediaType{
		"multipart/form-data": {Schema: form}, "application/json": {Schema: body},
	}}
}

// answeredBy is an answer of JSON with an ETag.
func answeredBy(description, tag string, schema *huma.Schema) *huma.Response {
	return &huma.Response{
		Description: description, Content: map[string]*huma.MediaType{"application/json": {Schema: schema}},
		Headers: map[string]*huma.Param{"ETag": {Schema: text(), Description: tag}},
	}
}

// reads is an operation that sends something of a document, or where it is.
func reads(id, path, summary string, content map[string]*huma.MediaType) huma.Operation {
	return huma.Operation{
		Method: http.MethodGet, Path: documentsPath + "/{document_id}" + path, OperationID: id,
		Tags: []string{"knowledge"}, Summary: summary, Description: "Needs level `read`.",
		Parameters: []*huma.Param{inPath("id"), inPath("document_id")},
		Responses: map[string]*huma.Response{
			"200": {Description: summary, Content: content},
			"307": httpapi.Elsewhere(),
		},
	}
}

func (h *handlers) createDocuments(w http.ResponseWriter, r *http.Request, c *httpapi.Call) error {
	base := r.PathValue("id")
	if !host.ValidID(base) {
		return problem.Missing("knowledge base " + base)
	}
	in := &incoming{handlers: h, base: base}
	defer in.discard(r.Context())
	if err := in.read(w, r, c); err != nil {
		return err
	}
	return in.add(w, r, c.Principal)
}

func (h *handlers) replaceContent(w http.ResponseWriter, r *http.Request, c *httpapi.Call) error {
	path, err := documentPath(r)
	if err != nil {
		return err
	}
	in := &incoming{handlers: h, base: path.ID, document: path.DocumentID}
	defer in.discard(r.Context())
	if err := in.read(w, r, c); err != nil {
		return err
	}
	one := in.contents[0]
	if one.refusal != nil {
		return one.refusal
	}
	match, status := httpapi.Match{IfMatch: r.Header.Get("If-Match")}, http.StatusAccepted
	e, same, err := h.Knowledge.ReplaceContent(r.Context(), c.Principal, path.ID, path.DocumentID,
		match.Precondition(), one.of(knowledge.NewDocument{}), one.received)
	if err != nil {
		return err
	}
	if same {
		status = http.StatusOK
	}
	return writeDocument(w, status, e.Version(), viewDocument(e.Value))
}

func writeDocument(w http.ResponseWriter, status int, version int64, v documentView) error {
	duplicate := v.Duplicate
	v.Duplicate = false // of the answer, not of the document
	tag, err := httpapi.TagOf(version, v)
	if err != nil {
		return err
	}
	v.Duplicate = duplicate
	w.Header().Set("ETag", tag)
	return httpapi.WriteJSON(w, status, v)
}

// incoming are the contents that a request sends, in a form or as JSON, and their description. A form may have the
// description after a file, so no document is made before the end of the body.
type incoming struct {
	*handlers

	base         string
	document     string // the document of the content; empty: of new ones
	organization string // of the base
	prefix       string // of the fields of the description
	described    knowledge.NewDocument
	contents     []content // one at least, when all has come
}

// content is the content of one document, or why it cannot be that.
type content struct {
	source      catalog.Source
	contentType string
	received    *knowledge.Received // nil: it is fetched
	refusal     *problem.Error
}

// of is a new document with the content.
func (c content) of(n knowledge.NewDocument) knowledge.NewDocument {
	n.Source, n.ContentType = c.source, c.contentType
	return n
}

func (in *incoming) discard(ctx context.Context) {
	for _, c := range in.contents {
		in.Knowledge.Discard(ctx, c.received)
	}
}

// read reads the request's body.
func (in *incoming) read(w http.ResponseWriter, r *http.Request, c *httpapi.Call) error {
	if err := in.BoundBody(w, r); err != nil {
		return err
	}
	kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if kind == "multipart/form-data" {
		if err := in.open(r.Context(), c.Principal); err != nil {
			return err
		}
		return in.readForm(r)
	}
	raw, err := in.ReadBody(w, r, c)
	if err == nil {
		err = in.open(r.Context(), c.Principal)
	}
	if err != nil {
		return err
	}
	return in.readJSON(r.Context(), c.Principal, raw)
}

// open reads the base, and the document, that the contents are for.
func (in *incoming) open(ctx context.Context, p tenant.Principal) error {
	b, err := in.Knowledge.Base(ctx, p, in.base)
	if in.organization = b.Value.Organization; err == nil && in.document != "" {
		_, err = in.Knowledge.Document(ctx, p, in.base, in.document)
	}
	return err
}

// readForm reads a form.
func (in *incoming) readForm(r *http.Request) error {
	fields, other := documentFields, int64(maxField)
	if in.document != "" {
		fields, other = contentFields, httpapi.NoOthers
	}
	err := httpapi.ReadForm(r, fields, other, &in.described, func(part *httpapi.Part) error {
		return part.TakeFile(func(name, contentType string, file io.Reader) error {
			return in.file(r.Context(), name, contentType, file)
		})
	})
	if err == nil && len(in.contents) == 0 {
		err = problem.InvalidField("file", "is required")
	}
	return err
}

var replacementMembers = httpapi.MembersOf[replacementBody]()

// readJSON reads a body of JSON.
func (in *incoming) readJSON(ctx context.Context, p tenant.Principal, raw []byte) error {
	if in.document != "" {
		if err := replacementMembers.Check("body", raw); err != nil {
			return err
		}
	}
	var body documentBody
	if err := httpapi.Decode("body", raw, &body); err != nil {
		return err
	}
	in.prefix, in.described = "body.", knowledge.NewDocument{
		Title: body.Title, Language: body.Language, Metadata: body.Metadata, GroupIDs: body.GroupIDs,
	}
	absent := slices.DeleteFunc([]*string{body.Text, body.URL, body.FileID}, func(s *string) bool { return s != nil })
	switch {
	case len(absent) != 2:
		return problem.InvalidField("body", "must have text, url or file_id")
	case body.Text != nil:
		if len(*body.Text) > knowledge.MaxText {
			return problem.InvalidField("body.text", "must have at most %d MiB", knowledge.MaxText>>20)
		}
		text := content{source: catalog.Source{Kind: catalog.FromText}, contentType: "text/plain; charset=utf-8"}
		return in.take(ctx, text, strings.NewReader(*body.Text))
	case body.URL != nil:
		in.contents = append(in.contents, content{
			source:      catalog.Source{Kind: catalog.FromURL, URL: *body.URL},
			contentType: "application/octet-stream",
		})
		return nil
	}
	f, bytes, err := in.uploaded(ctx, p, *body.FileID)
	if err != nil {
		return err
	}
	defer func() { _ = bytes.Close() }()
	return in.take(ctx, content{
		source: catalog.Source{Kind: catalog.FromFile, Name: f.Name}, contentType: f.ContentType,
	}, bytes)
}

// file stores a file of a form.
func (in *incoming) file(ctx context.Context, name, contentType string, bytes io.Reader) error {
	switch {
	case in.document != "" && len(in.contents) == 1:
		return problem.InvalidField("file", "must be one file")
	case len(in.contents) == maxFiles:
		return problem.InvalidField("file", "must be at most %d files", maxFiles)
	}
	if !record.IsMediaType(contentType) {
		contentType = "application/octet-stream"
	}
	return in.take(ctx, content{
		source: catalog.Source{Kind: catalog.FromUpload, Name: record.FileName(name)}, contentType: contentType,
	}, bytes)
}

// take stores the bytes of a content. An error of one content does not end the others.
func (in *incoming) take(ctx context.Context, c content, bytes io.Reader) error {
	var err error
	c.received, err = in.Knowledge.Receive(ctx, in.organization, in.document, bytes)
	if refused, is := problem.As(err); is && refused.Kind == problem.TooLarge {
		c.refusal = refused
		_, err = io.Copy(io.Discard, bytes) // to the next part
	}
	in.contents = append(in.contents, c)
	return err
}

// uploaded opens a file that was uploaded before, for a document.
func (h *handlers) uploaded(
	ctx context.Context, p tenant.Principal, id string,
) (f record.File, _ io.ReadCloser, err error) {
	f, err = h.Files.File(ctx, p.Scope(), id)
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
		return f, nil, err
	}
	bytes, err := h.Store.OpenFile(ctx, p.Scope(), id)
	return f, bytes, err
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

// contentFields declares the form that replaces a document's content.
var contentFields = httpapi.Fields[knowledge.NewDocument]{{Name: "file", Required: true}}

// add adds the documents, and answers.
func (in *incoming) add(w http.ResponseWriter, r *http.Request, p tenant.Principal) error {
	if len(in.contents) == 1 && in.contents[0].refusal != nil {
		return in.contents[0].refusal
	}
	documents, made := []any{}, 0
	for _, c := range in.contents {
		if c.refusal != nil {
			documents = append(documents, c.refused())
			continue
		}
		n := c.of(in.described)
		b, err := in.Knowledge.Check(r.Context(), p, in.base, in.prefix, n)
		if err != nil && made == 0 {
			return err
		}
		var e record.Entity[catalog.Document]
		var duplicate bool
		if err == nil {
			e, duplicate, err = in.Knowledge.Add(r.Context(), p, b, n, c.received)
		}
		if refused, is := problem.As(err); is && made > 0 { // the documents before stay
			c.refusal = refused
			documents = append(documents, c.refused())
			continue
		}
		if err != nil {
			return err
		}
		v, status := viewDocument(e.Value), http.StatusCreated
		if v.Duplicate = duplicate; duplicate {
			status = http.StatusOK
		}
		if len(in.contents) == 1 {
			return writeDocument(w, status, e.Version(), v)
		}
		documents, made = append(documents, v), made+1
	}
	if made == 0 {
		return problem.InvalidField("file", "the files could not become documents: %s", in.contents[0].refusal.Message).
			With("documents", documents)
	}
	return httpapi.WriteJSON(w, http.StatusCreated, documentsView{documents})
}

func (c content) refused() refusedView {
	v := refusedView{Name: c.source.Name}
	v.Error.Code, v.Error.Detail = c.refusal.Code, c.refusal.Message
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
