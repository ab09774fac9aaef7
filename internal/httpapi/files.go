package httpapi

import (
	"errors"
	"io"
	"mime"
	"net/http"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"agentplatform/events"
	"agentplatform/internal/files"
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
	Headers map[string]string `json:"headers" doc:"to be sent as they are; an address of this API wants the client's own Authorization beside them"`
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
			Description: "Needs level `run`; only who announced the file may send them.",
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
	var taken []record.File
	for count := 0; len(taken) == 0; count++ {
		part, err := parts.next()
		if err != nil {
			return err
		}
		if part == nil || count >= maxParts {
			return problem.InvalidField("file", "is required")
		}
		if !isFile(part) {
			continue
		}
		if err := s.takeFile(r.Context(), p, part, &taken); err != nil {
			return err
		}
	}
	return writeJSON(w, http.StatusCreated, viewFile(taken[0]))
}

func (s *Server) announceFile(w http.ResponseWriter, r *http.Request, p tenant.Principal) error {
	var a fileAnnouncement
	if err := readJSON(r, &a); err != nil {
		return err
	}
	if a.Name == "" || len(a.Name) > 255 {
		return problem.InvalidField("body.name", "must have 1 to 255 characters")
	}
	if a.ContentType != "" && !record.IsMediaType(a.ContentType) {
		return problem.InvalidField("body.content_type", "must be a media type, like text/plain")
	}
	if a.Size < 0 || a.Size > files.MaxSize {
		return problem.InvalidField("body.size", "must be between 1 and %d", files.MaxSize)
	}
	f, address, err := s.Files.Announce(r.Context(), files.New{
		Organization: p.Organization.ID, User: p.User.ID, Name: a.Name, ContentType: a.ContentType, Size: a.Size,
	})
	if err != nil {
		return err
	}
	v := viewFile(f)
	v.Upload = &upload{
		Method: http.MethodPut, URL: strings.TrimSuffix(s.PublicURL, "/") + Base + "/files/" + f.ID + "/content",
		Headers: map[string]string{"Content-Type": f.ContentType},
	}
	if address != nil {
		v.Upload.URL, v.Upload.Headers = address.URL, address.Headers
	}
	return writeJSON(w, http.StatusCreated, v)
}

func (s *Server) uploadFile(w http.ResponseWriter, r *http.Request, p tenant.Principal) error {
	id, err := fileID(r)
	if err != nil {
		return err
	}
	f, err := s.Files.Send(r.Context(), p.Scope(), p.User.ID, id, r.Body)
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return problem.InvalidField("body", "it ended too early: %s", err)
	}
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, viewFile(f))
}

func fileID(r *http.Request) (string, error) {
	id := r.PathValue("id")
	if !host.ValidID(id) {
		return "", problem.Missing("file " + id)
	}
	return id, nil
}

func (s *Server) readFile(w http.ResponseWriter, r *http.Request, p tenant.Principal) error {
	id, err := fileID(r)
	if err != nil {
		return err
	}
	f, err := s.Files.File(r.Context(), p.Scope(), id)
	if err == nil {
		err = s.Tenants.MayReadFile(r.Context(), p, f)
	}
	if err != nil {
		return err
	}
	if strings.HasPrefix(r.Header.Get("Accept"), "application/json") {
		return writeJSON(w, http.StatusOK, viewFile(f))
	}
	disposition := mime.FormatMediaType("attachment", map[string]string{"filename": f.Name})
	content, err := s.Files.Open(r.Context(), p.Scope(), f, disposition)
	if err != nil {
		return err
	}
	if content.URL != "" { // a function's answer is small, and its gateway garbles what is no text
		http.Redirect(w, r, content.URL, http.StatusTemporaryRedirect)
		return nil
	}
	defer func() { _ = content.Bytes.Close() }()
	h := w.Header()
	h.Set("Content-Type", f.ContentType)
	h.Set("Content-Length", strconv.FormatInt(f.Size, 10))
	h.Set("Content-Disposition", disposition)
	h.Set("X-Content-Type-Options", "nosniff")
	_, err = io.Copy(w, content.Bytes)
	return ignoreGone(err)
}

func readJSON(r *http.Request, into any) error {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return err
	}
	return decode("body", body, into)
}
