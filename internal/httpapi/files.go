package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"agentplatform/events"
	"agentplatform/internal/blob"
	"agentplatform/internal/host"
	"agentplatform/internal/problem"
	"agentplatform/internal/record"
	"agentplatform/internal/tenant"
)

type fileView struct {
	FileID      string  `json:"file_id"`
	Name        string  `json:"name"`
	ContentType string  `json:"content_type"`
	Size        int64   `json:"size"`
	Uploaded    bool    `json:"uploaded"`
	CreatedAt   string  `json:"created_at"`
	Upload      *upload `json:"upload,omitempty" doc:"how to send the bytes, when they were not sent with the request"`
}

type upload struct {
	Method  string            `json:"method"`
	URL     string            `json:"url"`
	Headers map[string]string `json:"headers"`
}

func viewFile(f record.File) fileView {
	return fileView{FileID: f.ID, Name: f.Name, ContentType: f.ContentType, Size: f.Size, Uploaded: f.Uploaded, CreatedAt: events.Time(f.CreatedAt)}
}

type fileAnnouncement struct {
	Name        string `json:"name" required:"true" minLength:"1" maxLength:"255"`
	ContentType string `json:"content_type,omitempty"`
	Size        int64  `json:"size,omitempty" doc:"in bytes; where it is given the file may be sent to the store directly"`
}

func (s *Server) fileRoutes() {
	schemas := s.api.OpenAPI().Components.Schemas
	of := func(kind string, schema *huma.Schema) map[string]*huma.MediaType {
		return map[string]*huma.MediaType{kind: {Schema: schema}}
	}
	file := schemas.Schema(typeOf[fileView](), true, "")
	id := []*huma.Param{{Name: "id", In: "path", Required: true, Schema: &huma.Schema{Type: "string"}}}
	bodies := of("multipart/form-data", &huma.Schema{Type: "object", Properties: map[string]*huma.Schema{"file": {Type: "string", Format: "binary"}}})
	bodies["application/json"] = &huma.MediaType{Schema: schemas.Schema(typeOf[fileAnnouncement](), true, "")}
	for _, o := range []*huma.Operation{
		{
			Method: http.MethodPost, Path: Base + "/files", OperationID: "create-file", Summary: "Send a file, or announce one and get an address to send it to", Tags: []string{"files"},
			Description: "Needs level `run`.", RequestBody: &huma.RequestBody{Required: true, Content: bodies},
			Responses: map[string]*huma.Response{"201": {Description: "The file", Content: of("application/json", file)}},
		},
		{
			Method: http.MethodPut, Path: Base + "/files/{id}/content", OperationID: "upload-file", Summary: "Send the bytes of an announced file", Tags: []string{"files"}, Parameters: id,
			Description: "Needs level `run`.",
			RequestBody: &huma.RequestBody{Required: true, Content: of("application/octet-stream", &huma.Schema{Type: "string", Format: "binary"})},
			Responses:   map[string]*huma.Response{"200": {Description: "The file", Content: of("application/json", file)}},
		},
		{
			Method: http.MethodGet, Path: Base + "/files/{id}", OperationID: "read-file", Summary: "The file's bytes; with Accept: application/json, its description", Tags: []string{"files"}, Parameters: id,
			Description: "Needs level `read`.",
			Responses: map[string]*huma.Response{"200": {Description: "The bytes, or the description", Content: map[string]*huma.MediaType{
				"application/octet-stream": {Schema: &huma.Schema{Type: "string", Format: "binary"}}, "application/json": {Schema: file},
			}}},
		},
	} {
		s.api.OpenAPI().AddOperation(o)
	}
	s.raw("POST "+Base+"/files", tenant.LevelRun, s.createFile)
	s.raw("PUT "+Base+"/files/{id}/content", tenant.LevelRun, s.uploadFile)
	s.raw("GET "+Base+"/files/{id}", tenant.LevelRead, s.readFile)
}

// raw adds a handler that reads its own body.
func (s *Server) raw(pattern string, level tenant.Level, handle func(w http.ResponseWriter, r *http.Request, p tenant.Principal) error) {
	s.mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
		c := callOf(r.Context())
		err := c.principal.May(level)
		if err == nil {
			r.Body = http.MaxBytesReader(w, r.Body, s.MaxBody)
			err = handle(w, r, c.principal)
		}
		if err != nil {
			s.answerFor(c, err).write(w)
		}
	})
}

func (s *Server) createFile(w http.ResponseWriter, r *http.Request, p tenant.Principal) error {
	if kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type")); kind == "application/json" {
		if err := s.hold(w, r, callOf(r.Context())); err != nil {
			return err
		}
		return s.announceFile(w, r, p)
	}
	parts, err := multipartOf(r)
	if err != nil {
		return err
	}
	var files []record.File
	for count := 0; len(files) == 0; count++ {
		part, err := parts.NextPart()
		if errors.Is(err, io.EOF) || count >= maxParts {
			return problem.InvalidField("file", "is required")
		}
		if err != nil {
			return malformed(err)
		}
		if !isFile(part) {
			continue
		}
		if err := s.takeFile(r.Context(), p, part, &files); err != nil {
			return err
		}
	}
	return s.storeFile(r.Context(), w, record.Fresh(files[0]), http.StatusCreated, nil)
}

func (s *Server) storeFile(ctx context.Context, w http.ResponseWriter, e record.Entity[record.File], status int, up *upload) error {
	move := s.Host.NewID()
	op, err := record.PutResource(e, move)
	if err != nil {
		return err
	}
	if err := s.Store.Commit(ctx, move, op); err != nil {
		if e.Version() == 0 {
			s.dropFiles(ctx, []record.File{e.Value})
		}
		return err
	}
	v := viewFile(e.Value)
	v.Upload = up
	return writeJSON(w, status, v)
}

func (s *Server) announceFile(w http.ResponseWriter, r *http.Request, p tenant.Principal) error {
	var a fileAnnouncement
	if err := readJSON(r, &a); err != nil {
		return err
	}
	if a.Name == "" || len(a.Name) > 255 {
		return problem.InvalidField("body.name", "must have 1 to 255 characters")
	}
	if a.Size < 0 || a.Size > maxFileSize {
		return problem.InvalidField("body.size", "must be between 1 and %d", maxFileSize)
	}
	f := record.File{
		ID: s.Host.NewID(), Organization: p.Organization.ID, UserID: p.User.ID, Name: fileName(a.Name), ContentType: contentType(a.ContentType),
		CreatedAt: s.Host.Now(),
	}
	if direct, ok := s.Store.Blobs().(blob.Direct); ok && a.Size > 0 {
		f.Size = a.Size
		url, headers, err := direct.PresignPut(r.Context(), f.BlobKey(), f.ContentType, f.Size, uploadLife)
		if err != nil {
			return err
		}
		return s.storeFile(r.Context(), w, record.Fresh(f), http.StatusCreated, &upload{Method: http.MethodPut, URL: url, Headers: headers})
	}
	return s.storeFile(r.Context(), w, record.Fresh(f), http.StatusCreated, &upload{
		Method: http.MethodPut, URL: strings.TrimSuffix(s.PublicURL, "/") + Base + "/files/" + f.ID + "/content",
		Headers: map[string]string{"Authorization": r.Header.Get("Authorization"), "Content-Type": f.ContentType},
	})
}

func (s *Server) uploadFile(w http.ResponseWriter, r *http.Request, p tenant.Principal) error {
	e, err := s.findFile(r, p)
	if err != nil {
		return err
	}
	if e.Value.Uploaded {
		return problem.New(problem.Conflict, "conflict", "the file's bytes have been sent already")
	}
	n, err := s.Store.Blobs().Put(r.Context(), e.Value.BlobKey(), r.Body, maxFileSize)
	if errors.Is(err, blob.ErrTooLarge) {
		return problem.New(problem.TooLarge, "payload_too_large", "a file may have %d bytes", maxFileSize)
	}
	if err != nil {
		return err
	}
	e.Value.Size, e.Value.Uploaded = n, true
	return s.storeFile(r.Context(), w, e, http.StatusOK, nil)
}

func (s *Server) findFile(r *http.Request, p tenant.Principal) (record.Entity[record.File], error) {
	id := r.PathValue("id")
	if !host.ValidID(id) {
		return record.Entity[record.File]{}, problem.Missing("file " + id)
	}
	e, err := record.Resource[record.File](r.Context(), s.Store, p.Scope(), id)
	if err != nil {
		return e, err
	}
	return s.arrived(r.Context(), e)
}

// Files that go past us: how long their addresses are good.
const (
	uploadLife   = time.Hour
	downloadLife = 5 * time.Minute
)

// arrived looks whether an announced file was sent to the store directly meanwhile, which nobody tells us.
func (s *Server) arrived(ctx context.Context, e record.Entity[record.File]) (record.Entity[record.File], error) {
	direct, ok := s.Store.Blobs().(blob.Direct)
	if !ok || e.Value.Uploaded || e.Value.Size == 0 {
		return e, nil
	}
	n, err := direct.Size(ctx, e.Value.BlobKey())
	if errors.Is(err, blob.ErrMissing) {
		return e, nil
	}
	if err != nil {
		return e, problem.Retry(err)
	}
	f, move := e.Value, s.Host.NewID()
	f.Size, f.Uploaded = n, true
	e.Value = f
	op, err := record.PutResource(e, move)
	if err != nil {
		return e, err
	}
	if err := s.Store.Commit(ctx, move, op); err != nil && !errors.Is(err, record.ErrStale) { // somebody else saw it, too
		return e, err
	}
	return e.Written(f, move), nil
}

func (s *Server) readFile(w http.ResponseWriter, r *http.Request, p tenant.Principal) error {
	e, err := s.findFile(r, p)
	if err != nil {
		return err
	}
	if strings.HasPrefix(r.Header.Get("Accept"), "application/json") {
		return writeJSON(w, http.StatusOK, viewFile(e.Value))
	}
	if !e.Value.Uploaded {
		return problem.Missing("the content of file " + e.Value.ID)
	}
	disposition := mime.FormatMediaType("attachment", map[string]string{"filename": e.Value.Name})
	if direct, ok := s.Store.Blobs().(blob.Direct); ok { // a function's answer is small, and its gateway garbles what is no text
		url, err := direct.PresignGet(r.Context(), e.Value.BlobKey(), disposition, e.Value.ContentType, downloadLife)
		if err != nil {
			return err
		}
		http.Redirect(w, r, url, http.StatusTemporaryRedirect)
		return nil
	}
	body, err := s.Store.Blobs().Get(r.Context(), e.Value.BlobKey())
	if errors.Is(err, blob.ErrMissing) {
		return problem.Missing("the content of file " + e.Value.ID)
	}
	if err != nil {
		return err
	}
	defer func() { _ = body.Close() }()
	h := w.Header()
	h.Set("Content-Type", e.Value.ContentType)
	h.Set("Content-Length", strconv.FormatInt(e.Value.Size, 10))
	h.Set("Content-Disposition", disposition)
	h.Set("X-Content-Type-Options", "nosniff")
	_, err = io.Copy(w, body)
	return ignoreGone(err)
}

func readJSON(r *http.Request, into any) error {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return err
	}
	var wrong *json.UnmarshalTypeError
	err = json.Unmarshal(body, into)
	if errors.As(err, &wrong) {
		return problem.InvalidField("body."+wrong.Field, "must not be a %s", wrong.Value)
	}
	if err != nil {
		return problem.InvalidField("body", "is not valid JSON: %s", err)
	}
	return nil
}
