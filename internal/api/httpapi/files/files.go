// Package files is the area of the API for files that users send and read.
//
// The use case internal/run/files has the rules of files and stores their bytes. It imports the framework above it and
// no other area.
package files

import (
	"context"
	"errors"
	"io"
	"mime"
	"net/http"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"agentplatform/events"
	"agentplatform/internal/api/httpapi"
	"agentplatform/internal/org/tenant"
	"agentplatform/internal/platform/host"
	"agentplatform/internal/platform/problem"
	"agentplatform/internal/run/files"
	"agentplatform/internal/store/record"
)

type fileView struct {
	FileID      string  `json:"file_id"`
	Name        string  `json:"name"`
	ContentType string  `json:"content_type"`
	Size        int64   `json:"size"`
	Uploaded    bool    `json:"uploaded"`
	CreatedAt   string  `json:"created_at"`
	Held        bool    `json:"held" doc:"true: a run or a waiting message uses it; it is deleted with the last of them"`
	ExpiresAt   string  `json:"expires_at,omitempty" format:"date-time" doc:"the time of deletion, for a file that nothing uses"`
	Upload      *upload `json:"upload,omitempty" doc:"how to send the bytes, if the request did not contain them"`
}

type upload struct {
	Method  string            `json:"method"`
	URL     string            `json:"url" doc:"valid for one hour, for this file and its announced size; no key is needed"`
	Headers map[string]string `json:"headers" doc:"headers to send unchanged"`
}

func viewFile(f record.File) fileView {
	v := fileView{
		FileID:      f.ID,
		Name:        f.Name,
		ContentType: f.ContentType,
		Size:        f.Size,
		Uploaded:    f.Uploaded,
		CreatedAt:   events.Time(f.CreatedAt),
		Held:        f.References > 0 || f.Due.IsZero(),
	}
	if !v.Held {
		v.ExpiresAt = events.Time(f.Due)
	}
	return v
}

type fileList struct {
	Files      []fileView `json:"files"`
	NextCursor *string    `json:"next_cursor"`
}

// FileQuery is the query of a list of files.
type FileQuery struct {
	httpapi.Paging
	Unused bool `query:"unused" doc:"only files that no run or waiting message uses"`
}

func (h *handlers) listFiles(
	ctx context.Context, p tenant.Principal, in *FileQuery,
) (*httpapi.Answer[fileList], error) {
	list, next, err := httpapi.Filter(ctx, in.Paging,
		func(ctx context.Context, after string, limit int) (record.Page[record.Entity[record.File]], error) {
			return h.files.Store.UserFiles(ctx, p.Scope(), p.User, after, limit)
		},
		func(e record.Entity[record.File]) (v fileView, shown bool, err error) {
			v = viewFile(e.Value)
			return v, !e.Value.Removed && (!in.Unused || !v.Held), nil
		})
	return httpapi.Body(fileList{list, next}), err
}

func (h *handlers) deleteFile(ctx context.Context, p tenant.Principal, in *httpapi.IDPath) (*struct{}, error) {
	return nil, h.files.Delete(ctx, p.Scope(), in.ID, func(f record.File) error {
		if f.UserID == p.User || p.Level.Covers(tenant.LevelAdmin) {
			return nil
		}
		return problem.New(problem.Forbidden, "insufficient_permission",
			"only the user who uploaded the file, or an admin, may delete it")
	})
}

type fileAnnouncement struct {
	Name        string `json:"name" required:"true" minLength:"1" maxLength:"255"`
	ContentType string `json:"content_type,omitempty"`
	Size        int64  `json:"size,omitempty" doc:"in bytes; with it, the file may be uploaded directly to the store"`
	Purpose     string `json:"purpose,omitempty" enum:"message,document" doc:"document: for a knowledge base, up to 50 MiB; else up to 20 MiB"`
}

// handlers are the operations of the area.
type handlers struct {
	*httpapi.Server

	files *files.Files
}

// Routes adds the area's operations to a server.
func Routes(s *httpapi.Server, f *files.Files) {
	h := &handlers{Server: s, files: f}
	for _, o := range described(s) {
		s.Describe(o)
	}
	r := httpapi.Routes{Server: s, Tag: "files", What: "file", Read: tenant.LevelRead, Write: tenant.LevelRun}
	httpapi.Route(r, "GET /files", "list-files", "List your files, newest first", h.listFiles)
	httpapi.Route(r, "DELETE /files/{id}", "delete-file", "Delete a file that no run uses", h.deleteFile)
	s.Handle("POST", "/files", tenant.LevelRun, h.createFile)
	s.Handle("PUT", httpapi.FileContent, tenant.LevelRun, h.uploadFile)
	s.Handle("GET", "/files/{id}", tenant.LevelRead, h.readFile)
}

// described are the operations as the document has them.
func described(s *httpapi.Server) []huma.Operation {
	of := func(kind string, schema *huma.Schema) map[string]*huma.MediaType {
		return map[string]*huma.MediaType{kind: {Schema: schema}}
	}
	bytes := func() *huma.Schema { return &huma.Schema{Type: "string", Format: "binary"} }
	file := of("application/json", httpapi.SchemaOf[fileView](s))
	id := []*huma.Param{{Name: "id", In: "path", Required: true, Schema: &huma.Schema{Type: "string"}}}
	sent := of("multipart/form-data", fileFields.Schema())
	sent["application/json"] = &huma.MediaType{Schema: httpapi.SchemaOf[fileAnnouncement](s)}
	read := httpapi.AnyBytes()
	read["application/json"] = file["application/json"]
	return []huma.Operation{
		{
			Method: http.MethodPost, Path: "/files", OperationID: "create-file", Tags: []string{"files"},
			Summary:     "Upload a file, or announce it and receive an upload address",
			Description: "Needs level `run`.",
			RequestBody: &huma.RequestBody{Required: true, Content: sent},
			Responses:   map[string]*huma.Response{"201": {Description: "The file", Content: file}},
		},
		{
			Method: http.MethodPut, Path: httpapi.FileContent, OperationID: "upload-file", Tags: []string{"files"},
			Summary:  "Upload the bytes of an announced file",
			Security: []map[string][]string{{"key": {}}, {"key": {}, "organization": {}}, {}}, // the token
			Parameters: append(id, &huma.Param{
				Name: "token", In: "query", Schema: &huma.Schema{Type: "string"},
				Description: "the token in upload.url, instead of a key",
			}),
			Description: "Needs level `run`. Only the user who announced the file may upload it, " +
				"with the announced size.",
			RequestBody: &huma.RequestBody{Required: true, Content: of("application/octet-stream", bytes())},
			Responses:   map[string]*huma.Response{"200": {Description: "The file", Content: file}},
		},
		{
			Method: http.MethodGet, Path: "/files/{id}", OperationID: "read-file", Tags: []string{"files"},
			Summary: "The file's bytes; with Accept: application/json, its description", Parameters: id,
			Description: "Needs level `read`.",
			Responses: map[string]*huma.Response{
				"200": {Description: "The bytes, or the description", Content: read},
				"307": httpapi.Elsewhere(),
			},
		},
	}
}

func (h *handlers) createFile(w http.ResponseWriter, r *http.Request, c *httpapi.Call) error {
	if err := h.BoundBody(w, r); err != nil {
		return err
	}
	if kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type")); kind == "application/json" {
		return h.announceFile(w, r, c)
	}
	f, err := h.takeFile(r, c.Principal)
	if err != nil {
		return err
	}
	return httpapi.WriteJSON(w, http.StatusCreated, viewFile(f))
}

// sentFile is a file that came in a form.
type sentFile struct {
	record.File

	document bool // it is for a knowledge base
}

// fileFields declares the form.
var fileFields = httpapi.Fields[sentFile]{
	{Name: "file", Required: true},
	{
		Name: "purpose", Enum: purposes, Most: 100, Repeats: true,
		Read: func(f *sentFile, text string) error { f.document = text == forDocument; return nil },
	},
}

// forDocument is the purpose of a file for a knowledge base.
const forDocument = "document"

var purposes = []string{"message", forDocument}

// takeFile stores the first file of a form.
func (h *handlers) takeFile(r *http.Request, p tenant.Principal) (record.File, error) {
	var f sentFile
	err := httpapi.ReadForm(r, fileFields, 0, &f, func(part *httpapi.Part) error {
		if f.ID != "" {
			return nil
		}
		return part.TakeFile(func(name, contentType string, content io.Reader) (err error) {
			n := newFile(p, name, contentType, 0)
			n.Document = true // its purpose may come after it
			f.File, err = h.files.Take(r.Context(), n, content)
			return err
		})
	})
	switch {
	case err != nil:
	case f.ID == "":
		err = problem.InvalidField("file", "is required")
	case f.Size > files.MaxSize && !f.document:
		err = problem.New(problem.TooLarge, "payload_too_large",
			"the file %s has more than %d bytes; for a knowledge base, send purpose=document", f.Name, files.MaxSize)
	}
	if err != nil && f.ID != "" {
		h.files.Drop(r.Context(), f.File)
	}
	return f.File, err
}

func newFile(p tenant.Principal, name, contentType string, size int64) files.New {
	return files.New{
		Organization: p.Organization, User: p.User, Name: name, ContentType: contentType, Size: size,
	}
}

func (h *handlers) announceFile(w http.ResponseWriter, r *http.Request, c *httpapi.Call) error {
	body, err := h.ReadBody(w, r, c)
	if err != nil {
		return err
	}
	var a fileAnnouncement
	if err := httpapi.Decode("body", body, &a); err != nil {
		return err
	}
	if a.Name == "" || len(a.Name) > 255 {
		return problem.InvalidField("body.name", "must have 1 to 255 characters")
	}
	if a.ContentType != "" && !record.IsMediaType(a.ContentType) {
		return problem.InvalidField("body.content_type", "must be a media type, like text/plain")
	}
	if a.Purpose != "" && !slices.Contains(purposes, a.Purpose) {
		return problem.InvalidField("body.purpose", "must be %s", strings.Join(purposes, " or "))
	}
	document := a.Purpose == forDocument
	most := int64(files.MaxSize)
	if document {
		most = files.MaxDocument
	}
	if a.Size < 0 || a.Size > most {
		return problem.InvalidField("body.size", "must be between 1 and %d", most)
	}
	n := newFile(c.Principal, a.Name, a.ContentType, a.Size)
	n.Document = document
	f, address, err := h.files.Announce(r.Context(), n)
	if err != nil {
		return err
	}
	if address == nil {
		address = &files.Address{Headers: map[string]string{"Content-Type": f.ContentType}}
		if address.URL, err = h.UploadURL(r.Context(), c.Principal, f.ID); err != nil {
			return err
		}
	}
	v := viewFile(f)
	v.Upload = &upload{Method: http.MethodPut, URL: address.URL, Headers: address.Headers}
	return httpapi.WriteJSON(w, http.StatusCreated, v)
}

func (h *handlers) uploadFile(w http.ResponseWriter, r *http.Request, c *httpapi.Call) error {
	if err := h.BoundBody(w, r); err != nil {
		return err
	}
	id, err := fileID(r)
	if err != nil {
		return err
	}
	f, err := h.files.Send(r.Context(), c.Principal.Scope(), c.Principal.User, id, r.Body, r.ContentLength)
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return problem.InvalidField("body", "the upload ended too early: %s", err)
	}
	if err != nil {
		return err
	}
	return httpapi.WriteJSON(w, http.StatusOK, viewFile(f))
}

func fileID(r *http.Request) (string, error) {
	id := r.PathValue("id")
	if !host.ValidID(id) {
		return "", problem.Missing("file " + id)
	}
	return id, nil
}

func (h *handlers) readFile(w http.ResponseWriter, r *http.Request, c *httpapi.Call) error {
	p := c.Principal
	id, err := fileID(r)
	if err != nil {
		return err
	}
	f, err := h.files.File(r.Context(), p.Scope(), id)
	if err == nil {
		err = h.Tenants.MayReadFile(r.Context(), p, f)
	}
	if err != nil {
		return err
	}
	if strings.HasPrefix(r.Header.Get("Accept"), "application/json") {
		return httpapi.WriteJSON(w, http.StatusOK, viewFile(f))
	}
	disposition := mime.FormatMediaType("attachment", map[string]string{"filename": f.Name})
	content, err := h.files.Open(r.Context(), f, disposition)
	if err != nil {
		return err
	}
	return httpapi.Content{
		URL: content.URL, Bytes: content.Bytes, Size: f.Size, Type: f.ContentType, Disposition: disposition,
	}.Send(w, r)
}
